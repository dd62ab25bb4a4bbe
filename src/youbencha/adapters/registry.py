"""Find an adapter by its agent's name. Other packages add theirs by an entry point in `youbencha.adapters`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from youbencha.adapters.base import AgentAdapter, BaseAdapter, complete_adapter
from youbencha.errors import YouBenchaError
from youbencha.plugins import Plugins, load

GROUP = "youbencha.adapters"


class _BuiltIn(NamedTuple):
    location: str
    description: str


_BUILT_IN = {
    "aider": _BuiltIn("youbencha.adapters.aider:AiderAdapter", "Aider."),
    "claude-code": _BuiltIn("youbencha.adapters.claude_code:ClaudeCodeAdapter", "Claude Code, by Anthropic."),
    "codex": _BuiltIn("youbencha.adapters.codex:CodexAdapter", "Codex, by OpenAI."),
    "command": _BuiltIn("youbencha.adapters.command:CommandAdapter", "Any program: an agent of your own, or a script."),
    "copilot-cli": _BuiltIn("youbencha.adapters.copilot_cli:CopilotCliAdapter", "Copilot CLI, by GitHub."),
    "gemini-cli": _BuiltIn("youbencha.adapters.gemini_cli:GeminiCliAdapter", "Gemini CLI, by Google."),
    "opencode": _BuiltIn("youbencha.adapters.opencode:OpenCodeAdapter", "OpenCode."),
}
_PLUGINS = Plugins(GROUP, {name: agent.location for name, agent in _BUILT_IN.items()})
_ALIASES = {"codex-cli": "codex"}
"""Names that older test cases use."""


def adapter_names() -> list[str]:
    return _PLUGINS.names()


def adapter_descriptions() -> dict[str, str]:
    """A description of each adapter's agent, by name; empty for adapters of other packages."""
    return {name: _BUILT_IN[name].description if name in _BUILT_IN else "" for name in adapter_names()}


def get_adapter(name: str, env: Mapping[str, str] | None = None) -> BaseAdapter:
    """Create the adapter for `agent.type: NAME`. `env` is the harness's environment, by default this process's."""
    kind = _ALIASES.get(name, name)
    where = _PLUGINS.find(kind)
    if where is None:
        raise _unknown(name)
    try:
        adapter: AgentAdapter = load(where)()
    except Exception as error:
        raise _broken(kind, where, f"cannot be loaded: {error}") from error
    if not isinstance(adapter, AgentAdapter):
        raise _broken(kind, where, "lacks name, version, check_availability, execute or normalize_log")
    if env is not None and hasattr(adapter, "harness_env"):
        adapter.harness_env = env
    return complete_adapter(adapter)


def _unknown(name: str) -> YouBenchaError:
    return YouBenchaError(
        "AGENT_UNKNOWN", f"There is no adapter for an agent called {name!r}.", hint=_PLUGINS.hint(name)
    )


def _broken(name: str, where: str, why: str) -> YouBenchaError:
    return YouBenchaError(
        "ADAPTER_BROKEN",
        f"The adapter for {name} ({where}) {why}.",
        hint="Ask the author of its package; docs/writing-an-adapter.md says what an adapter needs.",
    )
