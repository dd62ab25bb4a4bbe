"""Adapters are found by name, those of other packages too."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from youbencha.adapters import AgentExecutionContext, AgentExecutionResult, adapter_names, get_adapter
from youbencha.adapters.base import complete_adapter
from youbencha.adapters.claude_code import ClaudeCodeAdapter
from youbencha.errors import Problem, YouBenchaError
from youbencha.gateway.access import GatewayAccess
from youbencha.log.model import YouBenchaLog

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


class Plain:
    """An adapter with the contract only."""

    name = "plain"
    version = "1.0.0"

    async def check_availability(self) -> bool:
        return False

    async def execute(self, context: AgentExecutionContext) -> AgentExecutionResult:
        raise NotImplementedError

    def normalize_log(self, result: AgentExecutionResult, context: AgentExecutionContext) -> YouBenchaLog:
        raise NotImplementedError


class Metered(Plain):
    needs_model = False
    model_aliases: ClassVar[dict[str, tuple[str, ...]]] = {"small": ("tiny-*",)}

    def gateway_provider(self, model: str | None, env: Mapping[str, str]) -> str:
        return "openai"

    def gateway_env(self, access: GatewayAccess, model: str | None, env: Mapping[str, str]) -> Mapping[str, str]:
        return {"URL": access.url}

    def check_config(self, config: Mapping[str, Any], config_dir: Path | None) -> list[Problem]:
        return [Problem(key, "unknown") for key in config]


async def test_an_adapter_with_the_contract_only_gets_defaults() -> None:
    adapter = complete_adapter(Plain())
    assert (adapter.name, adapter.version, adapter.needs_model) == ("plain", "1.0.0", True)
    assert (adapter.supports_gateway, adapter.checks_config) == (False, False)
    assert (adapter.check_config({"x": 1}, None), adapter.stored_login({}), adapter.credentials_in({})) == (
        (),
        None,
        (),
    )
    assert adapter.requested_model("any", {}) is None
    with pytest.raises(YouBenchaError) as missing:
        await adapter.check_ready({}, {})
    assert missing.value.code == "AGENT_NOT_INSTALLED"


def test_what_an_adapter_has_replaces_the_defaults() -> None:
    adapter = complete_adapter(Metered())
    assert (adapter.supports_gateway, adapter.checks_config, adapter.needs_model) == (True, True, False)
    assert adapter.gateway_env(GatewayAccess("http://x", "k"), None, {}) == {"URL": "http://x"}
    assert [problem.path for problem in adapter.check_config({"a": 1}, None)] == ["a"]
    assert adapter.requested_model("big", {}) == ("openai", "big")
    assert adapter.requested_model("small", {}) is None
    assert adapter.resolve_alias("small") == ("tiny-*",)
