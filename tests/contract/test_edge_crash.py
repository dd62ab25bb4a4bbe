"""Edge case of seed 001: the CLI dies in the middle of its work."""

from __future__ import annotations

import os
import signal

import pytest

from agent_clis import ALL_VERSIONS
from claude_lab import ClaudeLab, Session, bash, script, versions
from systems import posix_only
from youbencha.events import Event, ProcessStarted, ToolReturned

pytestmark = versions(*ALL_VERSIONS)


async def run_until_killed(lab: ClaudeLab, number: signal.Signals) -> Session:
    """The signal comes from outside, after a tool has run and while the model is silent."""
    events: list[Event] = []

    def see(event: Event) -> None:
        events.append(event)
        if isinstance(event, ToolReturned):
            os.kill(next(e.pid for e in events if isinstance(e, ProcessStarted)), number)

    first = {**bash("echo half way"), "text": "I begin."}
    async with lab.model(script(first, {"text": "...", "hang": True})) as model:
        context = lab.context(model, on_event=see)
        result = await lab.adapter().execute(context)
        return Session(result, lab.adapter().normalize_log(result, context), model.requests, events)


@posix_only("there are no signals")
@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV"])
async def test_a_crash_is_a_failure_with_the_signal_and_what_was_said(lab: ClaudeLab, name: str) -> None:
    session = await run_until_killed(lab, signal.Signals[name])
    if (name, lab.cli.version) == ("SIGSEGV", "2.0.62"):
        name = "SIGILL"  # the crash handler of its runtime ends it this way
    assert session.result.status == "failed"
    assert session.result.exit_code == 128 + signal.Signals[name]
    assert session.codes() == ["CLAUDE_CRASHED"]
    (error,) = session.result.errors
    assert error.context is not None
    assert error.context["signal"] == name
    assert "I begin." in session.result.output
    assert [m.content for m in session.log.messages if m.role == "assistant"] == ["I begin."]
    assert [call.result for call in session.log.tool_calls] == ["half way"]
