"""Find an adapter by its agent's name. Adapters of others join by an entry point in `youbencha.adapters`."""

from __future__ import annotations

from youbencha.adapters.base import AgentAdapter
from youbencha.errors import YouBenchaError
from youbencha.plugins import Plugins, load

GROUP = "youbencha.adapters"
BUILT_IN = {
    "aider": "youbencha.adapters.aider:AiderAdapter",
    "claude-code": "youbencha.adapters.claude_code:ClaudeCodeAdapter",
    "codex": "youbencha.adapters.codex:CodexAdapter",
    "command": "youbencha.adapters.command:CommandAdapter",
    "copilot-cli": "youbencha.adapters.copilot_cli:CopilotCliAdapter",
    "gemini-cli": "youbencha.adapters.gemini_cli:GeminiCliAdapter",
    "opencode": "youbencha.adapters.opencode:OpenCodeAdapter",
}
_PLUGINS = Plugins(GROUP, BUILT_IN)
_ALIASES = {"codex-cli": "codex"}
"""Names that older test cases use."""


def adapter_names() -> list[str]:
    return _PLUGINS.names()


def get_adapter(name: str) -> AgentAdapter:
    """The adapter for `agent.type: NAME`, made anew."""
    kind = _ALIASES.get(name, name)
    where = _PLUGINS.find(kind)
    if where is None:
        raise _unknown(name)
    try:
        adapter = load(where)()
    except Exception as error:
        raise _broken(kind, where, f"cannot be loaded: {error}") from error
    if not isinstance(adapter, AgentAdapter):
        raise _broken(kind, where, "lacks name, version, check_availability, execute or normalize_log")
    return adapter


def _unknown(name: str) -> YouBenchaError:
    return YouBenchaError(
        "AGENT_UNKNOWN",
        f"There is no adapter for an agent called {name!r}.",
        hint=_PLUGINS.hint(name),
    )


def _broken(name: str, where: str, why: str) -> YouBenchaError:
    return YouBenchaError(
        "ADAPTER_BROKEN",
        f"The adapter for {name} ({where}) {why}.",
        hint="Ask the author of its package; docs/writing-an-adapter.md says what an adapter needs.",
    )
