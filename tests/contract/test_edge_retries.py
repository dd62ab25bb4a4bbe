"""An API that is overloaded for a moment: the run succeeds, and says that it waited."""

from __future__ import annotations

from agent_clis import NEWEST
from claude_lab import ClaudeLab, says, script, versions
from youbencha.events import RequestRetried

OVERLOADED = {"error": {"status": 529}, "times": 2}


async def test_two_overloads_do_not_fail_the_run(lab: ClaudeLab) -> None:
    session = await lab.run(script(OVERLOADED, says("Here I am.")))
    assert session.result.status == "success", session.result.errors
    assert [request.status for request in session.main_requests] == [529, 529, 200]


@versions(NEWEST)  # the older ones try again without a word
async def test_retries_are_events_and_a_warning(lab: ClaudeLab) -> None:
    session = await lab.run(script(OVERLOADED, says("Here I am.")))
    retries = [event for event in session.events if isinstance(event, RequestRetried)]
    assert [(event.attempt, event.status) for event in retries] == [(1, 529), (2, 529)]
    assert session.warning_codes() == ["CLAUDE_REQUESTS_RETRIED"]
    assert "2 times" in session.result.warnings[0].message
