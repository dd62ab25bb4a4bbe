"""A prompt file that leads elsewhere is refused before anything runs, whether it is there or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from youbencha.adapters import get_adapter

AGENTS = ["claude-code", "codex", "command", "copilot-cli", "gemini-cli", "opencode"]
ELSEWHERE = [
    ("../../../etc/passwd", "contains '..'"),
    ("../not-there.md", "contains '..'"),
    ("a\\..\\..\\b.md", "contains '..'"),
    ("/etc/passwd", "is absolute"),
    ("/no/such/file", "is absolute"),
    ("C:\\x.md", "is absolute"),
    ("a\0b", "NUL"),
]


def messages(agent: str, name: str, config_dir: Path | None) -> list[tuple[str, str]]:
    adapter = get_adapter(agent)
    config = {"prompt_file": name, **({"command": "a"} if agent == "command" else {})}
    return [(problem.path, problem.message) for problem in adapter.check_config(config, config_dir)]


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize(("name", "says"), ELSEWHERE)
def test_names_that_lead_out_of_the_directory(agent: str, name: str, says: str, tmp_path: Path) -> None:
    for config_dir in (tmp_path, None):
        [(path, message)] = messages(agent, name, config_dir)
        assert path == "prompt_file"
        assert says in message


@pytest.mark.parametrize("agent", AGENTS)
def test_names_that_may_be_in_the_repository(agent: str, tmp_path: Path) -> None:
    assert messages(agent, "docs/task.md", tmp_path) == []
