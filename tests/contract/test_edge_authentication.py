"""Edge case of seed 001: authentication fails at once and says what to do; never three minutes of retries."""

from __future__ import annotations

import dataclasses
import time

import pytest

from agent_clis import ALL_VERSIONS
from claude_lab import ClaudeLab, Session, bash, says, script, versions

pytestmark = versions(*ALL_VERSIONS)

REJECTED = {"error": {"status": 401, "message": "invalid x-api-key"}, "times": "forever"}
PATIENCE_S = 120  # on a loaded machine; the CLI alone would take three minutes
FEW_REQUESTS = 6


def assert_says_what_to_do(session: Session) -> None:
    assert session.result.status == "failed"
    assert session.codes() == ["CLAUDE_AUTH_FAILED"]
    (error,) = session.result.errors
    assert "authentication" in error.message
    assert error.hint is not None
    assert "ANTHROPIC_API_KEY" in error.hint
    assert "log in" in error.hint


async def test_fr_017_sc_005_no_credentials_at_all(lab: ClaudeLab) -> None:
    async with lab.model(script(says("never"))) as model:
        context = lab.context(model)
        without = {name: value for name, value in context.env.items() if name != "ANTHROPIC_API_KEY"}
        context = dataclasses.replace(context, env=without)
        started = time.monotonic()
        result = await lab.adapter().execute(context)
        assert time.monotonic() - started < PATIENCE_S
        log = lab.adapter().normalize_log(result, context)
        session = Session(result, log, model.requests, [])
    assert_says_what_to_do(session)
    assert session.main_requests == []


@pytest.mark.parametrize("output_format", ["stream-json", "text"])
async def test_a_rejected_key_ends_the_run_after_the_first_answers(lab: ClaudeLab, output_format: str) -> None:
    started = time.monotonic()
    session = await lab.run(script(REJECTED, side=_once(REJECTED)), config={"output_format": output_format})
    assert time.monotonic() - started < PATIENCE_S
    assert_says_what_to_do(session)
    assert 1 <= len(session.main_requests) <= FEW_REQUESTS


async def test_an_old_rejection_does_not_end_a_later_good_run(lab: ClaudeLab) -> None:
    """1.0.128 logs all sessions of a directory into one file, where the old 401 still stands."""
    rejected = await lab.run(script(REJECTED))
    assert rejected.codes() == ["CLAUDE_AUTH_FAILED"]
    # Long enough for the log to be looked at several times.
    good = await lab.run(script(bash("echo one"), says("Done.", delay="2s")))
    assert good.result.status == "success", good.result.errors


async def test_an_agent_that_reads_of_a_rejected_key_is_not_taken_for_one(lab: ClaudeLab) -> None:
    line = '[ERROR] API error (attempt 1/11): 401 {"type":"error","error":{"type":"authentication_error"}}'
    (lab.workspace / "service.log").write_text(f"{line}\n2026-01-01T00:00:00.000Z {line}\n")
    session = await lab.run(script(bash("cat service.log"), says("It says 401.", delay="2s")))
    assert session.result.status == "success", session.result.errors


def _once(turn: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in turn.items() if key != "times"}
