"""When an agent says that the work is done. The numbers are issues of the original, where this went wrong."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from youbencha.loop.completion import Claim, read_claim
from youbencha.spec.loop import LoopSpec


def spec(**event_loop: Any) -> LoopSpec:
    hats = event_loop.pop("hats", {})
    gates = [{"name": "tests", "command": "make test"}]
    return LoopSpec.model_validate({"event_loop": event_loop, "hats": hats, "gates": gates})


PLAIN = spec()


@pytest.mark.parametrize(
    "text",
    [
        "LOOP_COMPLETE",
        "All done.\nLOOP_COMPLETE",
        "All done.\r\nLOOP_COMPLETE\r\n\r\n",
        "  LOOP_COMPLETE  \n\n\n",
        "\x1b[32mLOOP_COMPLETE\x1b[0m\n",
        "```\nmake test\n```\nLOOP_COMPLETE",
        "```sh\nls\n```\n\ntext\n~~~\nx\n~~~\nLOOP_COMPLETE",
        "First I thought LOOP_COMPLETE was premature.\nLOOP_COMPLETE",
    ],
)
def test_the_promise_is_the_last_line(text: str) -> None:
    claim = read_claim(text, (), PLAIN)
    assert (claim.by, claim.done, claim.refusal_reasons("LOOP_COMPLETE")) == ("promise", True, [])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  \n",
        "I will print LOOP_COMPLETE when I am done.",
        "LOOP_COMPLETE\nOne more thing: the tests fail.",
        "The work is done: LOOP_COMPLETE",
        "NOT_LOOP_COMPLETE",
        "LOOP_COMPLETED",
        "loop_complete",
        "```\nLOOP_COMPLETE\n```\nThis is what I would print.",
        "For example:\n```\nLOOP_COMPLETE",
        "<event topic='x'>LOOP_COMPLETE</event>",
        "I will not print\u2028LOOP_COMPLETE",
        "I will not print\x0bLOOP_COMPLETE",
    ],
)
def test_the_promise_in_prose_is_none(text: str) -> None:
    assert read_claim(text, (), PLAIN).by is None


@pytest.mark.parametrize(
    "text",
    [
        *("**LOOP_COMPLETE**", "`LOOP_COMPLETE`.", "Done\n```\nLOOP_COMPLETE\n```", "> LOOP_COMPLETE"),
        *(
            "- LOOP_COMPLETE",
            "LOOP COMPLETE",
            "LOOP_COMPLETE ✅",
            "<promise>LOOP_COMPLETE</promise>",
            "LOOP_COMPLETE\n\nAll tests pass.",
        ),
    ],
)
def test_an_agent_that_nearly_made_the_promise_is_told_so(text: str) -> None:
    """302, 139: a loop that never ends, and nobody knows why."""
    claim = read_claim(text, (), PLAIN)
    assert (claim.by, claim.done, claim.near) == (None, False, True)
    assert "last line" in claim.refusal_reasons("LOOP_COMPLETE")[0]


def test_no_text_at_all() -> None:
    assert read_claim(None, (), PLAIN) == Claim()


def test_gates_can_decide_without_a_claim() -> None:
    by_gates = spec(complete_by_gates=True, required_events=["build.done"])
    assert read_claim("Still working.", ["build.done"], by_gates) == Claim(by="gates")
    assert read_claim("Still working.", [], by_gates).missing_events == ("build.done",)
    assert read_claim("LOOP_COMPLETE", ["build.done"], by_gates).by == "promise"


def test_an_event_completes() -> None:
    claim = read_claim("Published.", ["build.done", "LOOP_COMPLETE"], PLAIN)
    assert (claim.by, claim.done) == ("event", True)


def test_a_default_is_not_among_the_agents_own_topics() -> None:
    """187: `hats.after_iteration` keeps it apart, so nothing of it arrives here."""
    assert read_claim("I did nothing.", (), PLAIN).by is None


def test_an_event_after_the_promise_takes_it_back() -> None:
    claim = read_claim("", ["LOOP_COMPLETE", "build.task"], PLAIN)
    assert (claim.by, claim.done, claim.overtaken_by) == ("event", False, "build.task")
    assert "`build.task` was published after" in claim.refusal_reasons("LOOP_COMPLETE")[0]


def test_required_events_must_have_been_published() -> None:
    debug = spec(required_events=["fix.applied", "fix.verified"])
    early = read_claim("LOOP_COMPLETE", ["fix.verified"], debug)
    assert (early.done, early.missing_events) == (False, ("fix.applied",))
    assert "fix.applied" in early.refusal_reasons("LOOP_COMPLETE")[0]
    assert read_claim("LOOP_COMPLETE", ["fix.verified"], debug, seen=["fix.applied"]).done


def test_open_tasks_are_not_done() -> None:
    claim = read_claim("LOOP_COMPLETE", (), PLAIN, open_tasks=["Write the tests"])
    assert (claim.done, claim.by) == (False, "promise")
    assert "Write the tests" in claim.refusal_reasons("LOOP_COMPLETE")[0]


@pytest.mark.parametrize(
    ("text", "topics"), [("LOOP_CANCEL", ()), ("x", ("LOOP_CANCEL", "y")), ("LOOP_CANCEL", ("LOOP_COMPLETE",))]
)
def test_cancellation_needs_nothing_else(text: str, topics: tuple[str, ...]) -> None:
    claim = read_claim(text, topics, spec(cancellation_promise="LOOP_CANCEL", required_events=["never"]))
    assert (claim.cancelled, claim.done, claim.refusal_reasons("LOOP_COMPLETE")) == (True, False, [])


def test_without_a_cancellation_promise_nothing_cancels() -> None:
    assert not read_claim("", ("",), PLAIN).cancelled


def test_a_promise_of_ones_own() -> None:
    own = spec(completion_promise="It is done.")
    assert read_claim("Well.\nIt is done.", (), own).done
    assert not read_claim("LOOP_COMPLETE", (), own).done


def test_a_hat_that_may_not_publish_the_promise_cannot_make_it() -> None:
    hats = {"builder": {"triggers": ["x"], "publishes": ["build.done"]}, "boss": {"publishes": ["LOOP_COMPLETE"]}}
    free, strict = spec(hats=hats), spec(hats=hats, enforce_hat_scope=True)
    assert read_claim("LOOP_COMPLETE", (), free, hat="builder").done
    refused = read_claim("LOOP_COMPLETE", (), strict, hat="builder")
    assert (refused.done, len(refused.refusal_reasons("LOOP_COMPLETE"))) == (False, 1)
    assert read_claim("LOOP_COMPLETE", (), strict, hat="boss").done
    assert read_claim("LOOP_COMPLETE", (), strict, hat=None).done


@given(st.text(max_size=200))
def test_no_text_without_the_promise_claims_anything(text: str) -> None:
    assert (read_claim(text, (), PLAIN).by is None) or "LOOP_COMPLETE" in text
