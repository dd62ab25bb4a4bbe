"""Adapters are found by name, those of other packages too."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from youbencha.adapters import adapter_names, get_adapter
from youbencha.adapters.claude_code import ClaudeCodeAdapter
from youbencha.errors import YouBenchaError

PACKAGE = """
class Good:
    name, version = "good", "1.0.0"
    async def check_availability(self): return True
    async def execute(self, context): raise NotImplementedError
    def normalize_log(self, result, context): raise NotImplementedError
class Impostor(Good): name = "impostor"
class NoAdapter: pass
class Failing:
    def __init__(self): raise RuntimeError("no licence")
"""
POINTS = """[youbencha.adapters]
good = foreign_agents:Good
claude-code = foreign_agents:Impostor
none = foreign_agents:NoAdapter
failing = foreign_agents:Failing
missing = not_installed:X
"""


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed third-party package."""
    (tmp_path / "foreign_agents.py").write_text(PACKAGE)
    info = tmp_path / "foreign_agents-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: foreign-agents\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "foreign_agents", raising=False)


def test_built_in_adapters() -> None:
    ours = {"aider", "claude-code", "codex", "command", "copilot-cli", "gemini-cli", "opencode"}
    assert ours <= set(adapter_names())
    assert isinstance(get_adapter("claude-code"), ClaudeCodeAdapter)


@pytest.mark.parametrize("name", ["aider", "codex", "command", "copilot-cli", "gemini-cli", "opencode"])
def test_every_built_in_adapter_loads(name: str) -> None:
    assert get_adapter(name).name == name


def test_an_older_name_still_works() -> None:
    assert get_adapter("codex-cli").name == "codex"


@pytest.mark.usefixtures("foreign")
def test_third_party_adapters() -> None:
    assert "good" in adapter_names()
    assert get_adapter("good").name == "good"
    assert isinstance(get_adapter("claude-code"), ClaudeCodeAdapter), "a built-in adapter is not replaced"


@pytest.mark.usefixtures("foreign")
@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("claude", "AGENT_UNKNOWN", "Did you mean 'claude-code'? Available: aider, claude-code, codex"),
        ("zzz", "AGENT_UNKNOWN", "Available: aider, claude-code"),
        ("none", "ADAPTER_BROKEN", "lacks name"),
        ("failing", "ADAPTER_BROKEN", "no licence"),
        ("missing", "ADAPTER_BROKEN", "not_installed"),
    ],
)
def test_unusable_adapters_are_reported(name: str, code: str, words: str) -> None:
    with pytest.raises(YouBenchaError) as caught:
        get_adapter(name)
    assert caught.value.code == code
    assert words in str(caught.value)
