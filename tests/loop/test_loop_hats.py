"""Who works next: triggers, defaults, limits and scope of hats."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from youbencha.loop.hats import after_iteration, first_events, matches, next_turn, receivers
from youbencha.loop.topics import TopicEvent
from youbencha.spec.loop import LoopSpec
from youbencha.store.loops import PendingEvent

PLANNER = {"triggers": ["task.start", "task.resume", "build.done", "build.blocked"], "publishes": ["build.task"]}
BUILDER = {"triggers": ["build.task"], "publishes": ["build.done", "build.blocked"]}
TEAM = {"planner": PLANNER, "builder": BUILDER}


def spec(hats: dict[str, Any], **event_loop: Any) -> LoopSpec:
    return LoopSpec.model_validate({"hats": hats, "event_loop": event_loop})


def event(topic: str, payload: str = "", hat: str | None = None) -> PendingEvent:
    return PendingEvent(topic, payload, hat)


@pytest.mark.parametrize(
    ("pattern", "topic", "expected"),
    [
        ("build.done", "build.done", True),
        ("build.done", "build.failed", False),
        ("build.*", "build.done", True),
        ("build.*", "build", False),
        ("build.*", "build.a.b", False),
        ("*.done", "build.done", True),
        ("*", "anything.at.all", True),
        ("build.*ed", "build.failed", True),
        ("build.*ed", "build.done", False),
        ("[a].*", "a.b", False),
        ("a?c", "abc", False),
    ],
)
def test_patterns(pattern: str, topic: str, expected: bool) -> None:
    assert matches(pattern, topic) is expected


@pytest.mark.parametrize(
    ("topic", "hat"),
    [("task.start", "planner"), ("build.task", "builder"), ("build.done", "planner"), ("build.blocked", "planner"),
     ("nobody.knows", None)],
)  # fmt: skip
def test_an_event_activates_the_hat_that_it_triggers(topic: str, hat: str | None) -> None:
    turn = next_turn(spec(TEAM), [event(topic, "text")], {})
    assert turn.hat == hat
    assert turn.events == (PendingEvent(topic, "text", hat),)
    assert (turn.remaining, dict(turn.activations)) == ((), {hat: 1} if hat else {})


def test_every_hat_that_an_event_triggers_gets_it_one_after_the_other() -> None:
    team = spec({"a": {"triggers": ["shared.event"]}, "b": {"triggers": ["shared.*"]}})
    first = next_turn(team, [event("shared.event", "x")], {})
    second = next_turn(team, first.remaining, first.activations)
    assert [first.hat, second.hat] == ["a", "b"]
    assert [event.payload for event in second.events] == ["x"]
    assert second.remaining == ()


def test_a_global_trigger_is_for_what_no_other_hat_receives() -> None:
    hats = spec({"any": {"triggers": ["*"]}, "builder": BUILDER}).hats
    assert receivers(hats, "build.task") == ("builder",)
    assert receivers(hats, "else") == ("any",)


def test_an_event_without_receiver_goes_along_with_the_next_hat() -> None:
    turn = next_turn(spec(TEAM), [event("note"), event("build.task"), event("build.done")], {})
    assert (turn.hat, [event.topic for event in turn.events]) == ("builder", ["note", "build.task"])
    assert [each.topic for each in turn.remaining] == ["build.done"]


def test_without_hats_there_are_no_events_at_the_start() -> None:
    plain = spec({})
    assert first_events(plain) == first_events(plain, resumed=True) == ()
    assert next_turn(plain, (), {}).hat is None


@pytest.mark.parametrize(
    ("options", "resumed", "topic", "hat"),
    [
        ({}, False, "task.start", "planner"),
        ({"starting_event": "build.task"}, False, "build.task", "builder"),
        ({"starting_hat": "builder"}, False, "task.start", "builder"),
        ({"starting_event": "build.task"}, True, "task.resume", "planner"),
    ],
)
def test_the_first_event(options: dict[str, Any], resumed: bool, topic: str, hat: str) -> None:
    team = spec(TEAM, **options)
    turn = next_turn(team, first_events(team, resumed=resumed), {})
    assert (turn.hat, [event.topic for event in turn.events]) == (hat, [topic])


def test_a_default_is_published_if_nothing_else_was() -> None:
    team = spec({"fixer": {"triggers": ["fix.*"], "publishes": ["done", "blocked"], "default_publishes": "blocked"}})
    silent = after_iteration(team, "fixer", [])
    assert (silent.default, silent.accepted, [each.topic for each in silent.pending]) == ("blocked", (), ["blocked"])
    spoken = after_iteration(team, "fixer", [TopicEvent("done")])
    assert (spoken.default, [each.topic for each in spoken.pending]) == (None, ["done"])


def test_a_default_never_says_that_the_work_is_done() -> None:
    """Issue 187 of the original: hats that did nothing completed the loop."""
    team = spec({"last": {"triggers": ["x"], "publishes": ["LOOP_COMPLETE"], "default_publishes": "LOOP_COMPLETE"}})
    silent = after_iteration(team, "last", [])
    assert (silent.accepted, silent.default) == ((), None)
    assert [(each.topic, each.hat) for each in silent.pending] == [("task.resume", "last")]


def test_a_hat_that_published_nothing_is_asked_again() -> None:
    silent = after_iteration(spec(TEAM), "builder", [])
    turn = next_turn(spec(TEAM), silent.pending, {})
    assert turn.hat == "builder"
    assert "build.done, build.blocked" in turn.events[0].payload


def test_the_coordinator_is_not_asked_again() -> None:
    assert after_iteration(spec(TEAM), None, []).pending == ()


def test_what_ends_the_loop_is_not_delivered() -> None:
    team = spec(TEAM, cancellation_promise="GIVE_UP")
    done = after_iteration(team, "planner", [TopicEvent("LOOP_COMPLETE"), TopicEvent("GIVE_UP")])
    assert (len(done.accepted), done.pending) == (2, ())


def test_scope_is_enforced_only_if_asked_for() -> None:
    events = [TopicEvent("build.done"), TopicEvent("deploy.now")]
    assert len(after_iteration(spec(TEAM), "builder", events).accepted) == 2
    enforced = after_iteration(spec(TEAM, enforce_hat_scope=True), "builder", events)
    assert (enforced.accepted, enforced.out_of_scope) == ((events[0],), ("deploy.now",))
    assert [each.topic for each in enforced.pending] == ["build.done", "builder.scope_violation"]
    assert len(after_iteration(spec(TEAM, enforce_hat_scope=True), None, events).accepted) == 2


def test_a_hat_that_worked_often_enough_is_announced_once() -> None:
    limited = spec({**TEAM, "builder": {**BUILDER, "max_activations": 2}, "boss": {"triggers": ["builder.exhausted"]}})
    pending, activations, hats = (event("build.task"),), {}, []
    for _ in range(4):
        turn = next_turn(limited, pending, activations)
        hats.append((turn.hat, [each.topic for each in turn.published]))
        activations = dict(turn.activations)
    assert hats == [("builder", []), ("builder", []), ("boss", ["builder.exhausted"]), (None, [])]
    assert activations["boss"] == 1


def test_a_hat_that_is_exhausted_and_receives_everything_does_not_block() -> None:
    team = spec({"all": {"triggers": ["*"], "max_activations": 1}})
    turn = next_turn(team, [event("x")], {"all": 1})
    assert (turn.hat, turn.events, turn.remaining) == (None, (), ())


NAMES = st.sampled_from(["a", "b", "c"])
TOPICS = st.sampled_from(["x.a", "x.b", "y", "a.exhausted", "task.start"])
PATTERNS = st.sampled_from(["x.*", "x.a", "y", "*", "*.exhausted", "task.start"])
HATS = st.dictionaries(
    NAMES,
    st.fixed_dictionaries(
        {"triggers": st.lists(PATTERNS, max_size=3), "max_activations": st.none() | st.integers(1, 3)}
    ),
    max_size=3,
)


@given(HATS, st.lists(st.builds(PendingEvent, TOPICS, st.text(max_size=3), st.none() | NAMES), max_size=6))
def test_turns_give_each_event_to_each_of_its_receivers_once_and_end(
    hats: dict[str, Any], pending: list[PendingEvent]
) -> None:
    team = spec(hats)
    left: tuple[PendingEvent, ...] = tuple(pending)
    counts: dict[str, int] = {}
    given_to: list[tuple[str | None, PendingEvent]] = []
    for _ in range(60):
        turn = next_turn(team, left, counts)
        assert turn == next_turn(team, left, counts), "the same input has the same result"
        assert all(event.hat in (turn.hat, None) for event in turn.events)
        assert all(each.hat in team.hats and each.hat != turn.hat for each in turn.remaining)
        given_to += [(turn.hat, event) for event in turn.events]
        left, counts = turn.remaining, dict(turn.activations)
        if not left:
            break
    assert left == (), "every chain of turns without new events ends"
    for name, hat in team.hats.items():
        assert hat.max_activations is None or counts.get(name, 0) <= hat.max_activations + 1
    if not any(hat.max_activations for hat in team.hats.values()):
        wanted = [
            (target, each._replace(hat=target))
            for each in pending
            for target in ([each.hat] if each.hat in team.hats else receivers(team.hats, each.topic) or [None])
        ]
        assert sorted(map(repr, wanted)) == sorted(repr((each.hat, each)) for _, each in given_to)
