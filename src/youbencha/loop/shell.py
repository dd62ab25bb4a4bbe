"""The environment of agents and gates in a loop without a container: that of the shell in which it was started."""

from __future__ import annotations

from collections.abc import Mapping

from youbencha.adapters.cli_agent.environment import is_model_credential

_OUTER_SESSION_VARIABLES = frozenset({"CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT"})
"""Variables that Claude Code sets for its tools. With these, another Claude Code would not start, or would connect to
the editor of the first."""


def shell_environment(harness: Mapping[str, str], *, behind_gateway: bool) -> dict[str, str]:
    """Return all variables, except the credentials of models if a gateway holds these."""
    return {
        name: value
        for name, value in harness.items()
        if name not in _OUTER_SESSION_VARIABLES and not (behind_gateway and is_model_credential(name, keep_others=True))
    }
