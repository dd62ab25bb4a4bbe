"""Decide who works next: route published events to hats. Pure functions over the configuration and pending events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from youbencha.loop.topics import TopicEvent
from youbencha.spec.loop import HatSpec, LoopSpec
from youbencha.store.loops import PendingEvent

TASK_START = "task.start"
TASK_RESUME = "task.resume"


@dataclass(frozen=True)
class NextTurn:
    """The next iteration: its hat, the events that it gets, and those that are left for later ones."""

    hat: str | None
    """None: no hat receives the events, so the agent coordinates."""
    events: tuple[PendingEvent, ...]
    remaining: tuple[PendingEvent, ...]
    activations: Mapping[str, int]
    """How often each hat was chosen, with this turn."""
    published: tuple[PendingEvent, ...] = ()
    """Events from the loop itself: `<hat>.exhausted`. They are among `events` or `remaining` already."""


@dataclass(frozen=True)
class Published:
    """What an iteration published, after the rules for its hat were applied."""

    accepted: tuple[TopicEvent, ...]
    """Events from the agent. Only these can declare the work done and count for `required_events`."""
    pending: tuple[PendingEvent, ...]
    """For the next turns: what was accepted, a default, and notes of the loop."""
    default: str | None = None
    """The topic that was published because the agent published nothing."""
    out_of_scope: tuple[str, ...] = ()
    """Topics that the hat may not publish (`enforce_hat_scope`)."""


def first_events(spec: LoopSpec, *, resumed: bool = False) -> tuple[PendingEvent, ...]:
    """Return what a loop begins with, or continues with if no event is pending. Without hats, nothing is published."""
    if not spec.hats:
        return ()
    if resumed:
        return (PendingEvent(TASK_RESUME, "The loop was interrupted, and continues."),)
    return (PendingEvent(spec.event_loop.starting_event or TASK_START, "", spec.event_loop.starting_hat),)


def next_turn(spec: LoopSpec, pending: Sequence[PendingEvent], activations: Mapping[str, int]) -> NextTurn:
    """Choose the hat of the oldest event that one receives. It gets all its events, and those that no hat receives.

    An event that several hats receive is given to each of them, one after the other.
    """
    counts = dict(activations)
    deliveries = [delivery for event in pending for delivery in _deliveries(spec, event)]
    published: list[PendingEvent] = []
    while (hat := next((event.hat for event in deliveries if event.hat), None)) and _is_exhausted(spec, hat, counts):
        lost = [event.topic for event in deliveries if event.hat == hat]
        deliveries = [event for event in deliveries if event.hat != hat]
        if counts[hat] == spec.hats[hat].max_activations:  # announced once
            counts[hat] += 1
            event = _exhausted(spec.hats[hat], hat, lost)
            published.append(event)
            deliveries += _deliveries(spec, event)
    if hat is not None:
        counts[hat] = counts.get(hat, 0) + 1
    return NextTurn(
        hat=hat,
        events=tuple(event for event in deliveries if event.hat in (hat, None)),
        remaining=tuple(event for event in deliveries if event.hat not in (hat, None)),
        activations=counts,
        published=tuple(published),
    )


def after_iteration(spec: LoopSpec, hat: str | None, events: Sequence[TopicEvent]) -> Published:
    """Apply what a hat may publish, and what is published in its place if it published nothing."""
    if hat is None:
        return Published(tuple(events), _for_next(spec, events))
    config = spec.hats[hat]
    enforced = spec.event_loop.enforce_hat_scope
    allowed = tuple(event for event in events if not enforced or may_publish(config, event.topic))
    out_of_scope = tuple(event.topic for event in events if event not in allowed)
    pending = (*_for_next(spec, allowed), *(_scope_note(hat, topic) for topic in out_of_scope))
    if allowed:
        return Published(allowed, pending, out_of_scope=out_of_scope)
    if config.default_publishes and config.default_publishes != spec.event_loop.completion_promise:
        default = PendingEvent(config.default_publishes, f"Published for the hat {hat}, whose turn published nothing.")
        return Published((), (*pending, default), config.default_publishes, out_of_scope)
    return Published((), (*pending, _reminder(config, hat)), out_of_scope=out_of_scope)


def matches(pattern: str, topic: str) -> bool:
    """`*` alone stands for every topic, and within a part for any text of that part: `build.*`, but not `a.b.c`."""
    if pattern == "*":
        return True
    patterns, parts = pattern.split("."), topic.split(".")
    return len(patterns) == len(parts) and all(
        part == wanted or ("*" in wanted and fnmatchcase(part, wanted.replace("[", "[[]").replace("?", "[?]")))
        for wanted, part in zip(patterns, parts, strict=True)
    )


def receivers(hats: Mapping[str, HatSpec], topic: str) -> tuple[str, ...]:
    """Return the hats that a topic triggers. One that only has the trigger `*` receives what no other does."""
    named = [
        name
        for name, hat in hats.items()
        if any(trigger != "*" and matches(trigger, topic) for trigger in hat.triggers)
    ]
    return tuple(named or (name for name, hat in hats.items() if "*" in hat.triggers))


def may_publish(hat: HatSpec, topic: str) -> bool:
    return any(matches(pattern, topic) for pattern in hat.publishes)


def may_finish(spec: LoopSpec, hat: str | None) -> bool:
    """Whether the end of the work is for this hat to declare: always, if it declares no events."""
    if hat is None or not spec.hats[hat].publishes:
        return True
    return may_publish(spec.hats[hat], spec.event_loop.completion_promise)


def _deliveries(spec: LoopSpec, event: PendingEvent) -> list[PendingEvent]:
    if event.hat in spec.hats:
        return [event]
    targets = receivers(spec.hats, event.topic)
    return [event._replace(hat=hat) for hat in targets] or [event._replace(hat=None)]


def _for_next(spec: LoopSpec, events: Sequence[TopicEvent]) -> tuple[PendingEvent, ...]:
    ends = (spec.event_loop.completion_promise, spec.event_loop.cancellation_promise)
    return tuple(PendingEvent(event.topic, event.payload) for event in events if event.topic not in ends)


def _is_exhausted(spec: LoopSpec, hat: str, activations: Mapping[str, int]) -> bool:
    most = spec.hats[hat].max_activations
    return most is not None and activations.get(hat, 0) >= most


def _exhausted(hat: HatSpec, name: str, lost: Sequence[str]) -> PendingEvent:
    topics = ", ".join(dict.fromkeys(lost))
    return PendingEvent(
        f"{name}.exhausted", f"The hat {name} has worked {hat.max_activations} times, its limit. Not handled: {topics}."
    )


def _scope_note(hat: str, topic: str) -> PendingEvent:
    return PendingEvent(f"{hat}.scope_violation", f"The hat {hat} may not publish {topic}: the event was ignored.")


def _reminder(hat: HatSpec, name: str) -> PendingEvent:
    choice = f"one of: {', '.join(hat.publishes)}" if hat.publishes else "what comes next"
    return PendingEvent(TASK_RESUME, f"The last turn published no event. Publish {choice} (`ralph emit`).", name)
