"""Fold events into what the screen shows: sessions and totals.

Pure: no terminal, no clock. Memory is bounded: the oldest entries are left out, and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from youbencha.events import (
    Event,
    GuidanceGiven,
    IterationEnded,
    IterationStarted,
    LoopEnded,
    LoopStarted,
    LoopWaiting,
)
from youbencha.progress import OWN_FIGURES, loop_totals
from youbencha.text import count, duration, plural, usd
from youbencha.tui.session import STATES, Bounds, ScreenEntry, ScreenSession, State, bounded, fold

RUNNING, ENDED = Bounds(1_500, 1_000_000), Bounds(500, 200_000)
MOST_OF_ALL = 20_000_000
"""Characters of all sessions: the oldest that have ended are emptied first."""


class SearchHit(NamedTuple):
    session: int
    entry: int
    """Its number."""


class ScreenTotals(NamedTuple):
    """The figures of the header. None is unknown."""

    elapsed_s: float
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    own_figures: bool = False
    """Part of it was counted by agents themselves, and not by the gateway."""


class ScreenModel:
    """What the screen shows. `take` folds an event; everything else reads."""

    def __init__(self) -> None:
        self.sessions: list[ScreenSession] = []
        self.loop: LoopStarted | None = None
        self.waiting: LoopWaiting | None = None
        self.began_at: float | None = None
        self.ended_at: float | None = None
        self.events = 0
        self._by_key: dict[str, ScreenSession] = {}

    # -- sessions --------------------------------------------------------------------------------------------------

    def begin(self, key: str, title: str, at: float, *, number: int | None = None) -> ScreenSession:
        """Add a session. From now on, events with this key belong to it."""
        last = self.sessions[-1] if self.sessions else None
        self.events += 1
        if number is not None and last is not None and not last.key:
            session = self._by_key.pop("")  # it had only what was reported before the first iteration
            session.key, session.title, session.number, session.started_at = key, title, number, at
            session.version += 1
        else:
            session = ScreenSession(key, title, at, number=number)
            self.sessions.append(session)
        self._by_key[key] = session
        self.began_at = at if self.began_at is None else self.began_at
        return session

    def end(self, key: str, status: str, at: float, state: State | None = None) -> None:
        """A session has ended. It may not have begun here: the result of an earlier run was taken over."""
        self.events += 1
        session = self._by_key.get(key) or self.begin(key, key, at)
        session.ended_at, session.status = at, status
        session.state = state or STATES.get(status, "warning")
        for entry in (*session.running.values(), *session.writing.values()):
            entry.state, entry.ended_at = "unknown", at
            session.changed(entry)
        session.running.clear()
        session.writing.clear()
        session.version += 1
        session.keep(ENDED)
        excess = sum(each.characters for each in self.sessions) - MOST_OF_ALL
        for each in self.sessions:
            if excess <= 0:
                break
            if each.ended_at is not None and each.entries:
                excess -= each.characters
                each.keep(Bounds(1, 0))

    def close(self, at: float) -> None:
        """Nothing more will happen."""
        self.ended_at = at if self.ended_at is None else self.ended_at
        for session in self.sessions:
            if session.ended_at is None:
                self.end(session.key, "", at, "unknown")

    def current(self, at: float) -> ScreenSession:
        """The session of what is reported without a key: the newest iteration, or the run that has trials."""
        last = self.sessions[-1] if self.sessions else None
        if last is not None and last.number is not None:
            return last
        return self._by_key.get("") or self.begin("", "run", at)

    # -- events ----------------------------------------------------------------------------------------------------

    def take(self, event: Event, key: str | None = None) -> None:
        """Fold an event: of the session with this key, or of the newest."""
        self.events += 1
        of_loop = _LOOP_FOLDS.get(type(event))
        if of_loop is not None:
            of_loop(self, event)
            return
        session = self._by_key[key] if key is not None else self.current(event.at)
        fold(session, event)
        session.keep(RUNNING if session.ended_at is None else ENDED)

    # -- reading ---------------------------------------------------------------------------------------------------

    def totals(self, now: float) -> ScreenTotals:
        began = self.began_at if self.began_at is not None else now
        figures = [session.progress for session in self.sessions]
        return ScreenTotals(
            elapsed_s=max(0.0, (now if self.ended_at is None else self.ended_at) - began),
            input_tokens=_sum(each.input_tokens for each in figures),
            output_tokens=_sum(each.output_tokens for each in figures),
            cost_usd=_sum(each.cost_usd for each in figures),
            own_figures=any(session.own_figures for session in self.sessions),
        )

    def search(self, words: str) -> list[SearchHit]:
        """Find entries. The case counts if the words have a capital letter."""
        exact = words != words.lower()
        return [
            SearchHit(index, number)
            for index, session in enumerate(self.sessions)
            for number, entry in session.numbered()
            if any(words in (part if exact else part.lower()) for part in entry.parts())
        ]


def _sum(numbers: Iterator[Any]) -> Any:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


# -- the events of a loop ----------------------------------------------------------------------------------------------


def _loop_started(model: ScreenModel, event: LoopStarted) -> None:
    """A loop begins, or continues after it was killed: then the recording has no end of its last iteration."""
    for session in model.sessions:
        if session.number is not None and session.ended_at is None:
            model.end(session.key, "interrupted", session.entries[-1].at if session.entries else session.started_at)
    model.loop, model.began_at = event, event.at
    model.current(event.at).backend = event.backend


def _iteration_started(model: ScreenModel, event: IterationStarted) -> None:
    model.waiting = None
    session = model.begin(f"iteration {event.iteration}", event.hat or "", event.at, number=event.iteration)
    session.backend, session.progress.model = event.backend, event.model
    if event.attempt > 1:
        session.add(ScreenEntry("note", event.at, "!", f"attempt {event.attempt}: the one before failed"))


def _iteration_ended(model: ScreenModel, event: IterationEnded) -> None:
    session = model.current(event.at)
    session.progress.input_tokens = event.input_tokens
    session.progress.output_tokens = event.output_tokens
    session.progress.cost_usd = event.cost_usd
    session.own_figures = event.usage_source in OWN_FIGURES
    session.files_changed = event.files_changed
    figures = [
        duration(event.duration_ms),
        None if event.input_tokens is None else f"{count(event.input_tokens)} in",
        None if event.output_tokens is None else f"{count(event.output_tokens)} out",
        None if event.cost_usd is None else usd(event.cost_usd),
        OWN_FIGURES.get(event.usage_source or ""),
        None if event.files_changed is None else f"{plural(event.files_changed, 'file')} changed",
    ]
    text = " · ".join(figure for figure in figures if figure)
    state = STATES.get(event.outcome, "warning")
    head = f"{event.outcome.replace('_', ' ')}{f': {event.reason}' if event.reason else ''}"
    session.add(ScreenEntry("end", event.at, head, text, state=state))
    model.end(session.key, event.outcome, event.at)


def _waiting(model: ScreenModel, event: LoopWaiting) -> None:
    model.waiting = event
    model.current(event.at).add(ScreenEntry("note", event.at, "…", f"waiting: {event.reason or event.kind}"))


def _guidance(model: ScreenModel, event: GuidanceGiven) -> None:
    model.current(event.at).add(ScreenEntry("guidance", event.at, "guidance", *bounded(event.text)[:1]))


def _loop_ended(model: ScreenModel, event: LoopEnded) -> None:
    model.ended_at, model.waiting = event.at, None
    state: State = "ok" if event.exit_code == 0 else "error" if event.exit_code == 1 else "warning"
    head = f"the loop has ended: {event.outcome.replace('_', ' ')}"
    text = " · ".join(filter(None, (event.reason, *loop_totals(event))))
    model.current(event.at).add(ScreenEntry("end", event.at, head, text, state=state))


_LOOP_FOLDS: dict[type[Event], Callable[[ScreenModel, Any], None]] = {
    LoopStarted: _loop_started,
    IterationStarted: _iteration_started,
    IterationEnded: _iteration_ended,
    LoopWaiting: _waiting,
    GuidanceGiven: _guidance,
    LoopEnded: _loop_ended,
}
