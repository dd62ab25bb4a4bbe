"""Edge cases of seeds 001 and 004: every failure is recognized, and its message says what to do."""

from __future__ import annotations

import dataclasses
import os
import signal
import time

import pytest
from shared_session import Shared, shared

from agent_clis import ALL_VERSIONS, NEWEST, OLD, OLDEST, SPREAD
from claude_bench import ClaudeBench, Session, bash, full, says, script, uses, versions
from systems import posix_only
from youbencha.events import Event, ProcessStarted, RequestRetried, ToolCalled, ToolReturned
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.text import iso_time


async def run_without_key(claude: ClaudeBench, turn: dict[str, object], **env: str) -> Session:
    async with claude.model(script(turn)) as model:
        context = claude.context(model, env=env)
        without_key = {name: value for name, value in context.env.items() if name != "ANTHROPIC_API_KEY"}
        context = dataclasses.replace(context, env=without_key)
        result = await claude.adapter().execute(context)
        return Session(result, claude.adapter().normalize_log(result, context), model.requests, [])


# -- authentication: it fails at once, never after three minutes of retries --------------------------------------


REJECTION = {"error": {"status": 401, "message": "invalid x-api-key"}}
REJECTED = {**REJECTION, "times": "forever"}
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


@versions(NEWEST, full(OLD), OLDEST)
async def test_fr_017_sc_005_no_credentials_at_all(claude: ClaudeBench) -> None:
    started = time.monotonic()
    session = await run_without_key(claude, says("never"))
    assert time.monotonic() - started < PATIENCE_S
    assert_says_what_to_do(session)
    assert session.main_requests == []


@pytest.mark.parametrize(
    ("claude_cli", "output_format"),
    [
        pytest.param(NEWEST, "stream-json", marks=pytest.mark.full),  # in `tests/runs/test_run_claude.py`, too
        (NEWEST, "text"),
        (OLD, "stream-json"),  # it tries again without a word: the rejection is in its debug log only
        pytest.param(OLD, "text", marks=pytest.mark.full),
        pytest.param(OLDEST, "stream-json", marks=pytest.mark.full),
        pytest.param(OLDEST, "text", marks=pytest.mark.full),
        pytest.param("1.0.24", "stream-json", marks=pytest.mark.full),  # the debug log is printed, here on stderr
        pytest.param("1.0.90", "stream-json", marks=pytest.mark.full),
    ],
    indirect=["claude_cli"],
)
async def test_a_rejected_key_ends_the_run_after_the_first_answers(claude: ClaudeBench, output_format: str) -> None:
    started = time.monotonic()
    config = {"output_format": output_format, "permission_mode": "acceptEdits"}  # as root, 1.0.24 has no other
    session = await claude.run(script(REJECTED, side=REJECTION), config=config)
    assert time.monotonic() - started < PATIENCE_S
    assert_says_what_to_do(session)
    assert 1 <= len(session.main_requests) <= FEW_REQUESTS


@pytest.mark.full
@pytest.mark.parametrize("output_format", ["stream-json", "text"])
@versions(OLD, OLDEST)
async def test_a_rejection_of_a_side_model_is_not_the_keys(claude: ClaudeBench, output_format: str) -> None:
    """The pause is long enough for the CLI's log to be looked at several times."""
    turns = bash("echo hello"), says("Done.", delay="2s")
    session = await claude.run(script(*turns, side=REJECTION), config={"output_format": output_format})
    assert session.result.status == "success", session.result.errors


@pytest.mark.full
@versions(*ALL_VERSIONS)
async def test_neither_an_old_rejection_nor_text_about_one_ends_a_run(claude: ClaudeBench) -> None:
    """1.0.128 logs all sessions of a directory into one file, where the old 401 still stands."""
    rejected = await claude.run(script(REJECTED, side=REJECTION))
    assert rejected.codes() == ["CLAUDE_AUTH_FAILED"]
    line = '[ERROR] API error (attempt 1/11): 401 {"type":"error","error":{"type":"authentication_error"}}'
    (claude.workspace / "service.log").write_text(f"{line}\n2026-01-01T00:00:00.000Z {line}\n")
    # The pause is long enough for the CLI's log to be looked at several times.
    good = await claude.run(script(bash("cat service.log"), says("It says 401.", delay="2s")))
    assert good.result.status == "success", good.result.errors


# -- limits and errors of the API --------------------------------------------------------------------------------


def limited(**headers: str | int) -> dict[str, object]:
    message = "This request would exceed your account's rate limit."
    error = {"status": 429, "message": message, "headers": {"x-should-retry": "false", **headers}}
    return {"error": error, "times": "forever"}


@versions(NEWEST, full(OLD), OLDEST)
async def test_a_rate_limit_of_an_api_key_does_not_say_when_it_ends(claude: ClaudeBench) -> None:
    session = await claude.run(script(limited()))
    assert session.result.status == "failed"
    assert session.codes() == ["CLAUDE_RATE_LIMIT"]
    (error,) = session.result.errors
    assert error.context is not None
    assert error.context["status"] == 429
    assert error.context["resets_at"] is None


@versions(NEWEST, full(OLD), OLDEST)  # what the older ones print is in `test_reset_time.py`, too
async def test_a_usage_limit_of_a_subscription_says_when_it_ends(claude: ClaudeBench) -> None:
    """2.1.x tells the moment; 2.0.62 a time of day and its zone; 1.0.128 one without a zone, as its clock shows."""
    resets_at = (int(time.time()) // 3600 + 2) * 3600 + 25 * 60
    turn = limited(
        **{
            "anthropic-ratelimit-unified-status": "rejected",
            "anthropic-ratelimit-unified-representative-claim": "five_hour",
            "anthropic-ratelimit-unified-reset": resets_at,
            "retry-after": 120,
        }
    )
    if zone := os.environ.get("TZ"):
        claude.harness_env["TZ"] = zone
    session = await run_without_key(claude, turn, CLAUDE_CODE_OAUTH_TOKEN="sk-ant-oat01-dummy")
    assert session.result.status == "failed"
    assert session.codes() == ["CLAUDE_RATE_LIMIT"], session.result.output
    (error,) = session.result.errors
    assert error.context is not None
    assert error.context["resets_at"] == iso_time(resets_at), error.message


async def overloaded_twice(claude: ClaudeBench) -> Session:
    return await claude.run(script({"error": {"status": 529}, "times": 2}, says("Here I am.")))


@pytest.fixture
async def overloaded(claude_cli: InstalledAgent, tmp_path_factory: pytest.TempPathFactory) -> Shared:
    return await shared(overloaded_twice, claude_cli, tmp_path_factory)


def test_two_overloads_do_not_fail_the_run(overloaded: Shared) -> None:
    session = overloaded.session
    assert session.result.status == "success", session.result.errors
    assert [request.status for request in session.main_requests] == [529, 529, 200]


@versions(NEWEST)  # the older ones try again without a word
def test_retries_are_events_and_a_warning(overloaded: Shared) -> None:
    session = overloaded.session
    retries = [event for event in session.events if isinstance(event, RequestRetried)]
    assert [(event.attempt, event.status) for event in retries] == [(1, 529), (2, 529)]
    assert session.warning_codes() == ["CLAUDE_REQUESTS_RETRIED"]
    assert "2 times" in session.result.warnings[0].message


@versions(NEWEST, full(OLD), OLDEST, *SPREAD)
async def test_an_overloaded_provider_is_not_a_rate_limit(claude: ClaudeBench) -> None:
    """2.1.150 reports a rate limit for each attempt; others an unknown error, or one of the server."""
    overload = {"error": {"status": 529}, "times": "forever"}
    session = await claude.run(script(overload), env={"CLAUDE_CODE_MAX_RETRIES": "1"})
    assert (session.result.status, session.codes()) == ("failed", ["CLAUDE_OVERLOADED"])
    assert "rate" not in " ".join(warning.message for warning in session.result.warnings)


@pytest.mark.full
@versions(*SPREAD, NEWEST)
@pytest.mark.parametrize("output_format", ["stream-json", "text"])
async def test_a_denied_tool_is_a_warning_in_every_version(claude: ClaudeBench, output_format: str) -> None:
    """1.0.60 does not list what it denied; in text mode, no version does."""
    write = uses("Write", file_path=str(claude.workspace / "new.txt"), content="x")
    config = {"permission_mode": "default", "output_format": output_format}
    session = await claude.run(script(write, says("It was not allowed.")), config=config)
    assert (session.result.status, session.codes()) == ("success", [])
    (warning,) = session.result.warnings
    assert (warning.code, (warning.context or {})["tools"]) == ("CLAUDE_TOOL_DENIED", {"Write": 1})


@versions(NEWEST, full(OLD), OLDEST)
async def test_max_turns_has_its_own_error_code(claude: ClaudeBench) -> None:
    session = await claude.run(script(bash("echo one"), bash("echo two"), says("never")), config={"max_turns": 1})
    assert len(session.main_requests) == 1
    assert session.result.status == "failed"
    assert session.codes() == ["CLAUDE_MAX_TURNS"]
    assert "max_turns" in (session.result.errors[0].hint or "")


# -- crashes -----------------------------------------------------------------------------------------------------


async def run_until_killed(claude: ClaudeBench, number: signal.Signals) -> Session:
    """The signal comes from outside, after a tool has run and while the model is silent."""
    events: list[Event] = []

    def see(event: Event) -> None:
        events.append(event)
        if isinstance(event, ToolReturned):
            os.kill(next(e.pid for e in events if isinstance(e, ProcessStarted)), number)

    first = {**bash("echo half way"), "text": "I begin."}
    async with claude.model(script(first, {"text": "...", "hang": True})) as model:
        context = claude.context(model, on_event=see)
        result = await claude.adapter().execute(context)
        return Session(result, claude.adapter().normalize_log(result, context), model.requests, events)


@posix_only("there are no signals")
@versions(NEWEST, full(OLD), OLDEST)
@pytest.mark.parametrize("name", ["SIGKILL", pytest.param("SIGSEGV", marks=pytest.mark.full)])
async def test_a_crash_is_a_failure_with_the_signal_and_the_output(claude: ClaudeBench, name: str) -> None:
    session = await run_until_killed(claude, signal.Signals[name])
    assert_the_tool_was_seen_before_the_next_answer(session)
    if (name, claude.cli.version) == ("SIGSEGV", "2.0.62"):
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


def assert_the_tool_was_seen_before_the_next_answer(session: Session) -> None:
    """The next answer never came, so whatever was seen was seen before it."""
    called = next(event for event in session.events if isinstance(event, ToolCalled))
    back = next(event for event in session.events if isinstance(event, ToolReturned))
    assert (called.name, called.arguments["command"]) == ("Bash", "echo half way")
    assert (back.call_id, back.content) == (called.call_id, "half way")
    assert session.events.index(called) < session.events.index(back)
