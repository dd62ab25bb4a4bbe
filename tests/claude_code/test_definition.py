"""Custom agents: from `.claude/agents/NAME.md` to the value of `--agents`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from youbencha.adapters.claude_code.own_files import agent_definition
from youbencha.errors import ConfigError

FULL = """---
name: reviewer
description: Reviews code
tools: Read, Grep , Bash
model: sonnet
---

You review code.

---
A rule inside the prompt is no fence.
"""


@pytest.fixture
def agents(tmp_path: Path) -> Path:
    path = tmp_path / "workspace" / ".claude" / "agents"
    path.mkdir(parents=True)
    return path


def define(agents: Path, name: str = "reviewer", env: dict[str, str] | None = None) -> dict[str, Any]:
    value = json.loads(agent_definition(name, workspace=agents.parent.parent, env=env or {}))
    assert list(value) == [name]
    found: dict[str, Any] = value[name]
    return found


def test_a_complete_definition(agents: Path) -> None:
    (agents / "reviewer.md").write_text(FULL)
    assert define(agents) == {
        "description": "Reviews code",
        "prompt": "You review code.\n\n---\nA rule inside the prompt is no fence.",
        "tools": ["Read", "Grep", "Bash"],
        "model": "sonnet",
    }


def test_without_a_header_the_file_is_the_prompt(agents: Path) -> None:
    (agents / "reviewer.md").write_text("You review.\n")
    assert define(agents) == {"description": "reviewer", "prompt": "You review."}


def test_an_unterminated_header_is_part_of_the_prompt(agents: Path) -> None:
    (agents / "reviewer.md").write_text("---\nname: other\nYou review.\n")
    assert define(agents)["prompt"] == "---\nname: other\nYou review."


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("tools: [Read, Bash]", {"tools": ["Read", "Bash"]}),
        ("tools:\n  - Read\n  - Bash", {"tools": ["Read", "Bash"]}),
        ("tools: Read", {"tools": ["Read"]}),
        ("tools:", {}),
        ("tools: []", {}),
        ("tools: 5", {}),
        ("disallowedTools: Bash, Write", {"disallowedTools": ["Bash", "Write"]}),
        ("skills: a", {"skills": ["a"]}),
        ("permissionMode: plan\nmaxTurns: 3", {"permissionMode": "plan", "maxTurns": 3}),
        ("mcpServers: {a: {command: x}}", {"mcpServers": {"a": {"command": "x"}}}),
        ("memory: 2026-01-01", {"memory": "2026-01-01"}),
        ("tools: {a: b}", {}),
        ("model: inherit", {"model": "inherit"}),
        ("model:", {}),
        ("description:", {}),
        ("description: [a, b]", {}),
        ("color: red", {"color": "red"}),
        ("just words", {}),
        ("- a\n- list", {}),
        ("name:", {}),
    ],
)
def test_header_fields(agents: Path, header: str, expected: dict[str, Any]) -> None:
    (agents / "reviewer.md").write_text(f"---\n{header}\n---\nHi")
    assert define(agents) == {"description": "reviewer", "prompt": "Hi", **expected}


@pytest.mark.parametrize("bom", ["", "\ufeff"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_windows_line_ends_and_byte_order_mark(agents: Path, newline: str, bom: str) -> None:
    (agents / "reviewer.md").write_bytes((bom + FULL.replace("\n", newline)).encode())
    found = define(agents)
    assert found["description"] == "Reviews code"
    assert found["prompt"].startswith("You review code.")


def test_a_byte_order_mark_before_a_bare_prompt_is_removed(agents: Path) -> None:
    (agents / "reviewer.md").write_bytes("\ufeffYou review.".encode())
    assert define(agents)["prompt"] == "You review."


def test_the_name_in_the_header_wins_over_the_file_name(agents: Path) -> None:
    (agents / "a.md").write_text("---\nname: reviewer\n---\nfrom a")
    (agents / "reviewer.md").write_text("---\nname: other\n---\nfrom reviewer.md")
    assert define(agents)["prompt"] == "from a"
    assert define(agents, "other")["prompt"] == "from reviewer.md"


def test_a_name_of_digits(agents: Path) -> None:
    (agents / "x.md").write_text("---\nname: 123\n---\nHi")
    assert define(agents, "123")["prompt"] == "Hi"


def test_a_header_that_is_not_quite_yaml_is_read_line_by_line(agents: Path) -> None:
    """As the CLI does: such files are common."""
    header = "name: reviewer\ndescription: Use when: asked. <example>a: b</example>\ntools: Read, Bash"
    (agents / "x.md").write_text(f"---\n{header}\n---\nHi")
    assert define(agents) == {
        "description": "Use when: asked. <example>a: b</example>",
        "tools": ["Read", "Bash"],
        "prompt": "Hi",
    }


def test_other_invalid_files_are_ignored(agents: Path) -> None:
    (agents / "a-broken.md").write_text("---\ndescription: a: b: c\n---\nHi")
    (agents / "a-latin.md").write_bytes("---\nname: caf\xe9\n---\n".encode("latin-1"))
    (agents / "a-directory.md").mkdir()
    if sys.platform != "win32":
        os.mkfifo(agents / "a-pipe.md")
        (agents / "a-nowhere.md").symlink_to(agents / "missing")
    (agents / "reviewer.md").write_text(FULL)
    assert define(agents)["model"] == "sonnet"


def test_search_order(agents: Path, tmp_path: Path) -> None:
    home = tmp_path / "home" / ".claude" / "agents"
    moved = tmp_path / "moved" / "agents"
    for place, text in ((home, "home"), (moved, "moved")):
        place.mkdir(parents=True)
        (place / "reviewer.md").write_text(text)
    only_home = {"HOME": str(tmp_path / "home")}
    both = {**only_home, "CLAUDE_CONFIG_DIR": str(tmp_path / "moved")}
    assert define(agents, env=only_home)["prompt"] == "home"
    assert define(agents, env={"USERPROFILE": str(tmp_path / "home")})["prompt"] == "home"
    assert define(agents, env=both)["prompt"] == "moved"
    (agents / "reviewer.md").write_text("workspace")
    assert define(agents, env=both)["prompt"] == "workspace"


def test_the_config_directory_replaces_the_home_directory(agents: Path, tmp_path: Path) -> None:
    home = tmp_path / "home" / ".claude" / "agents"
    home.mkdir(parents=True)
    (home / "reviewer.md").write_text("home")
    env = {"HOME": str(tmp_path / "home"), "CLAUDE_CONFIG_DIR": str(tmp_path / "moved")}
    with pytest.raises(ConfigError, match="no definition of agent 'reviewer'"):
        define(agents, env=env)


def test_a_missing_definition_is_reported_with_the_searched_directories(agents: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        define(agents, env={"HOME": str(tmp_path)})
    (only,) = caught.value.problems
    assert caught.value.code == "CLAUDE_INVALID_CONFIG"
    assert only.path == "agent_name"
    places = f".claude/agents of the repository, {tmp_path / '.claude' / 'agents'}"
    assert only.hint == f"put reviewer.md into one of: {places}"


def test_with_a_fresh_home_the_users_definitions_are_found(agents: Path, tmp_path: Path) -> None:
    """The user means an agent of their own, and cannot put it into a home that is made for one run."""
    persons, fresh = tmp_path / "home", tmp_path / "run" / "home"
    env, harness = {"HOME": str(fresh)}, {"HOME": str(persons)}
    workspace = agents.parent.parent
    with pytest.raises(ConfigError) as caught:
        agent_definition("reviewer", workspace=workspace, env=env, harness=harness)
    assert str(persons) in str(caught.value)
    assert str(fresh) not in str(caught.value)
    place = persons / ".claude" / "agents"
    place.mkdir(parents=True)
    (place / "reviewer.md").write_text("mine")
    assert '"mine"' in agent_definition("reviewer", workspace=workspace, env=env, harness=harness)


def test_the_test_cases_project_comes_before_the_home(agents: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / "cases").mkdir()
    for top, text in ((tmp_path / "home", "home"), (project, "project"), (tmp_path, "above the project")):
        place = top / ".claude" / "agents"
        place.mkdir(parents=True)
        (place / "reviewer.md").write_text(text)

    def found() -> str:
        home = {"HOME": str(tmp_path / "home")}
        return agent_definition("reviewer", workspace=agents.parent.parent, env=home, project=project / "cases")

    assert '"project"' in found()
    (project / "cases" / ".claude" / "agents").mkdir(parents=True)
    (project / "cases" / ".claude" / "agents" / "reviewer.md").write_text("beside the test case")
    assert "beside the test case" in found()
    (agents / "reviewer.md").write_text("the repository's")
    assert "the repository's" in found()


def test_a_link_out_of_the_repository_is_not_followed(agents: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("the host's own")
    (agents / "reviewer.md").symlink_to(tmp_path / "secret.md")
    with pytest.raises(ConfigError, match="no definition of agent 'reviewer'"):
        define(agents)


@pytest.mark.skipif(os.name == "nt", reason="pipes")
def test_an_unreadable_file_does_not_hide_another(agents: Path) -> None:
    """It is called as the agent is, and defines nothing: not an agent without a prompt either."""
    os.mkfifo(agents / "reviewer.md")
    (agents / "z.md").write_text("---\nname: reviewer\n---\nYou review.")
    assert define(agents)["prompt"] == "You review."


def test_a_link_in_the_home_is_followed(agents: Path, tmp_path: Path) -> None:
    home = tmp_path / "home" / ".claude" / "agents"
    home.mkdir(parents=True)
    (tmp_path / "dotfiles.md").write_text("mine")
    (home / "reviewer.md").symlink_to(tmp_path / "dotfiles.md")
    assert define(agents, env={"HOME": str(tmp_path / "home")})["prompt"] == "mine"


def test_a_definition_too_long_for_a_command_line(agents: Path) -> None:
    (agents / "reviewer.md").write_text("x" * 200_000)
    with pytest.raises(ConfigError, match=r"reviewer\.md is too long"):
        define(agents)


@pytest.mark.parametrize("text", ["", " \n", "---\nname: reviewer\ndescription: reads\n---\n\n"])
def test_a_definition_without_instructions_is_reported(agents: Path, text: str) -> None:
    (agents / "reviewer.md").write_text(text)
    with pytest.raises(ConfigError, match=r"reviewer\.md has no instructions"):
        define(agents)
