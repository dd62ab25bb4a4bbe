"""The environment of a loop on this computer: that of the user's shell, in which it was started."""

from __future__ import annotations

from collections.abc import Mapping

from youbencha.adapters.cli_agent.environment import is_model_credential

_OF_AN_OUTER_SESSION = frozenset({"CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT"})
"""What Claude Code sets for its tools: with it, another Claude Code would not start, or would connect to an editor."""


def shell_environment(harness: Mapping[str, str], *, behind_gateway: bool) -> dict[str, str]:
    """Return everything but the credentials of models that a gateway holds, if there is one."""
    return {
        name: value
        for name, value in harness.items()
        if name not in _OF_AN_OUTER_SESSION and not (behind_gateway and is_model_credential(name, keep_others=True))
    }
