"""Options of `yb run` that say who does the work."""

from __future__ import annotations

from youbencha.errors import YouBenchaError
from youbencha.spec.testcase import AgentChoice


def agent_choice(agent: str | None, model: str | None) -> AgentChoice:
    """`agent` is TYPE or TYPE@VERSION, as `yb agents install` takes it."""
    kind, at, version = (agent or "").partition("@")
    if agent is not None:
        from youbencha.adapters import get_adapter

        if at and not version:
            hint = f"Such as {kind or 'claude-code'}@1.2.3; `yb agents list` shows what is installed."
            raise YouBenchaError("OPTION_INVALID", f"--agent {agent}: no version is given", hint=hint)
        get_adapter(kind)  # an error of its own, with the names there are
    if model is not None and (not model or model.startswith("-") or any(letter.isspace() for letter in model)):
        raise YouBenchaError("OPTION_INVALID", f"--model {model!r} is no model's name", hint="Such as --model opus")
    return AgentChoice(kind or None, version or None, model)
