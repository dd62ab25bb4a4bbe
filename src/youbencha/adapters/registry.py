"""Find an adapter by its agent's name. Adapters of others join by an entry point in `youbencha.adapters`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from youbencha.adapters.base import AgentAdapter
from youbencha.errors import YouBenchaError

GROUP = "youbencha.adapters"
BUILT_IN: Mapping[str, str] = {
    "claude-code": "youbencha.adapters.claude_code:ClaudeCodeAdapter",
    "codex": "youbencha.adapters.codex:CodexAdapter",
    "command": "youbencha.adapters.command:CommandAdapter",
    "copilot-cli": "youbencha.adapters.copilot_cli:CopilotCliAdapter",
    "gemini-cli": "youbencha.adapters.gemini_cli:GeminiCliAdapter",
    "opencode": "youbencha.adapters.opencode:OpenCodeAdapter",
}
"""Nobody else's entry point replaces one of these, so whoever asks for one need not wait until all are read."""
_ALIASES = {"codex-cli": "codex"}
"""Names that older test cases use."""


def adapter_names() -> list[str]:
    return sorted({*BUILT_IN, *_foreign()})


def get_adapter(name: str) -> AgentAdapter:
    """The adapter for `agent.type: NAME`, made anew."""
    kind = _ALIASES.get(name, name)
    where = BUILT_IN.get(kind) or _foreign().get(kind)
    if where is None:
        raise _unknown(name)
    try:
        adapter = _load(where)()
    except Exception as error:
        raise _broken(kind, where, f"cannot be loaded: {error}") from error
    if not isinstance(adapter, AgentAdapter):
        raise _broken(kind, where, "lacks name, version, check_availability, execute or normalize_log")
    return adapter


def _load(where: str) -> Any:
    module, _, attribute = where.partition(":")
    return getattr(import_module(module), attribute)


def _foreign() -> dict[str, str]:
    from importlib.metadata import entry_points  # tens of milliseconds, that few runs need

    return {point.name: point.value for point in entry_points(group=GROUP)}


def _unknown(name: str) -> YouBenchaError:
    from youbencha.spec.messages import did_you_mean

    names = adapter_names()
    near = did_you_mean(name, names)
    listed = f"There are: {', '.join(names)}. Install the package that brings yours, or mend the name."
    return YouBenchaError(
        "AGENT_UNKNOWN",
        f"There is no adapter for an agent called {name!r}.",
        hint=f"{near[0].upper()}{near[1:]} {listed}" if near else listed,
    )


def _broken(name: str, where: str, why: str) -> YouBenchaError:
    return YouBenchaError(
        "ADAPTER_BROKEN",
        f"The adapter for {name} ({where}) {why}.",
        hint="Ask the author of its package; docs/writing-an-adapter.md says what an adapter needs.",
    )
