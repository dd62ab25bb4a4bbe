"""Fold events into a transcript: sessions with their entries, and totals.

Pure: no file, no clock. If its memory is to be bounded, the oldest entries are left out, and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count as count_from
from typing import Any, NamedTuple

from youbencha.events import (
    Event,
    GuidanceGiven,
    IterationEnded,
    IterationStarted,
    LoopEnded,
    LoopStarted,
    LoopWaiting,
    TrialEnded,
)
from youbencha.text import format_count, format_duration, format_usd, plural
from youbencha.transcript.lines import OWN_FIGURES, loop_totals
from youbencha.transcript.session import MAX_TEXT, STATES, Bounds, Session, State, TranscriptEntry, fold


class Retention(NamedTuple):
    """How much is kept of what happens; the oldest sessions that have ended are emptied first."""

    running: Bounds
    ended: Bounds
    characters: int


LIVE = Retention(running=Bounds(1_500, 1_000_000), ended=Bounds(500, 200_000), characters=20_000_000)
"""For a screen, which may be open for days."""


class SearchHit(NamedTuple):
    session: int
    entry: int
    """Its id."""


class Totals(NamedTuple):
    """The figures of all sessions. None is unknown."""

    elapsed_s: float
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    own_figures: bool = False
    """Part of it was counted by agents themselves, and not by the gateway."""


class Transcript:
    """What happened in a run (one session), a loop (one for each iteration) or a matrix (one for each trial).

    `take` folds an event, `begin` and `end` are for trials; everything else reads.
    """

    def __init__(self, *, retention: Retention | None = None, max_text: int = MAX_TEXT) -> None:
        """`retention`: None keeps every entry. `max_text`: the characters of a text that are kept."""
        self.sessions: list[Session] = []
        self.loop: LoopStarted | None = None
        self.waiting: LoopWaiting | None = None
        self.began_at: float | None = None
        self.ended_at: float | None = None
        self.version = 0
        """Grows with each change."""
        self._retention = retention
        self._max_text = max_text
        self._ids = count_from(0)
        self._by_key: dict[str, Session] = {}

    # -- sessions --------------------------------------------------------------------------------------------------

    def begin(self, key: str, title: str, at: float, *, number: int | None = None) -> Session:
        """Add a session. From now on, events with this key belong to it."""
        last = self.sessions[-1] if self.sessions else None
        if number is not None and last is not None and not last.key:
            session = self._by_key.pop("")  # it had only what was reported before the first iteration
            session.key, session.title, session.number, session.started_at = key, title, number, at
        else:
            versions = iter(self._next_version, None)
            session = Session(key, title, at, number, max_text=self._max_text, ids=self._ids, versions=versions)
            self.sessions.append(session)
        session.touch()
        self._by_key[key] = session
        self.began_at = at if self.began_at is None else self.began_at
        return session

    def end(self, key: str, status: str, at: float, state: State | None = None) -> None:
        """End a session. It may not have begun here: the result of an earlier run was reused."""
        session = self._by_key.get(key) or self.begin(key, key, at)
        session.ended_at, session.status = at, status
        session.state = state or STATES.get(status, "warning")
        session.stop_running(at)
        session.touch()
        if self._retention is None:
            return
        session.keep(self._retention.ended)
        excess = sum(session.characters for session in self.sessions) - self._retention.characters
        for session in self.sessions:
            if excess <= 0:
                break
            if session.ended_at is not None and session.entries:
                excess -= session.characters
                session.keep(Bounds(1, 0))

    def close(self, at: float) -> None:
        """Nothing more will happen."""
        self.ended_at = at if self.ended_at is None else self.ended_at
        for session in self.sessions:
            if session.ended_at is None:
                self.end(session.key, "", at, "unknown")

    def current(self, at: float) -> Session:
        """The session of what is reported without a key: the newest iteration, or the run that has trials."""
        last = self.sessions[-1] if self.sessions else None
        if last is not None and last.number is not None:
            return last
        return self._by_key.get("") or self.begin("", "run", at)

    # -- events ----------------------------------------------------------------------------------------------------

    def take(self, event: Event, key: str | None = None, *, offset: int | None = None) -> None:
        """Fold an event of the session with this key, or of the newest. `offset` is its place in a file."""
        session = self._by_key[key] if key is not None else self.current(event.at)
        session.offset = offset
        whole_fold = _WHOLE_FOLDS.get(type(event))
        if whole_fold is not None:
            whole_fold(self, event)
            self.version += 1
            return
        fold(session, event)
        if self._retention is not None:
            session.keep(self._retention.running if session.ended_at is None else self._retention.ended)

    def _next_version(self) -> int:
        self.version += 1
        return self.version

    # -- reading ---------------------------------------------------------------------------------------------------

    @property
    def entries(self) -> list[TranscriptEntry]:
        """The entries of all sessions, one session after the other."""
        return [entry for session in self.sessions for entry in session.entries]

    def entry(self, entry_id: int) -> TranscriptEntry | None:
        entries = (session.entry(entry_id) for session in self.sessions)
        return next((entry for entry in entries if entry is not None), None)

    def changed_since(self, version: int) -> list[TranscriptEntry]:
        """The entries that were added or changed after the transcript had this version."""
        sessions = (session for session in self.sessions if session.version > version)
        return [entry for session in sessions for entry in session.entries if entry.version > version]

    def totals(self, now: float) -> Totals:
        began = self.began_at if self.began_at is not None else now
        figures = [session.progress for session in self.sessions]
        return Totals(
            elapsed_s=max(0.0, (now if self.ended_at is None else self.ended_at) - began),
            input_tokens=_sum(session.input_tokens for session in figures),
            output_tokens=_sum(session.output_tokens for session in figures),
            cost_usd=_sum(session.cost_usd for session in figures),
            own_figures=any(session.own_figures for session in self.sessions),
        )

    def search(self, words: str) -> list[SearchHit]:
        """Find entries. The case counts if the words have a capital letter."""
        exact = words != words.lower()
        return [
            SearchHit(index, entry.id)
            for index, session in enumerate(self.sessions)
            for entry in session.entries
            if any(words in (part if exact else part.lower()) for part in entry.parts())
        ]


def _sum(numbers: Iterator[Any]) -> Any:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


# -- the events of a loop ----------------------------------------------------------------------------------------------


def _loop_started(model: Transcript, event: LoopStarted) -> None:
    """A loop begins, or continues after it was killed: then the recording has no end of its last iteration."""
    for session in model.sessions:
        if session.number is not None and session.ended_at is None:
            model.end(session.key, "interrupted", session.entries[-1].at if session.entries else session.started_at)
    model.loop, model.began_at = event, event.at
    model.current(event.at).backend = event.backend


def _iteration_started(model: Transcript, event: IterationStarted) -> None:
    model.waiting = None
    session = model.begin(f"iteration {event.iteration}", event.hat or "", event.at, number=event.iteration)
    session.backend, session.progress.model = event.backend, event.model
    if event.attempt > 1:
        session.add(TranscriptEntry("note", event.at, "!", f"attempt {event.attempt}: the one before failed"))


def _iteration_ended(model: Transcript, event: IterationEnded) -> None:
    session = model.current(event.at)
    session.progress.input_tokens = event.input_tokens
    session.progress.output_tokens = event.output_tokens
    session.progress.cost_usd = event.cost_usd
    session.own_figures = event.usage_source in OWN_FIGURES
    session.files_changed = event.files_changed
    figures = [
        format_duration(event.duration_ms),
        None if event.input_tokens is None else f"{format_count(event.input_tokens)} in",
        None if event.output_tokens is None else f"{format_count(event.output_tokens)} out",
        None if event.cost_usd is None else format_usd(event.cost_usd),
        OWN_FIGURES.get(event.usage_source or ""),
        None if event.files_changed is None else f"{plural(event.files_changed, 'file')} changed",
    ]
    text = " · ".join(figure for figure in figures if figure)
    state = STATES.get(event.outcome, "warning")
    head = f"{event.outcome.replace('_', ' ')}{f': {event.reason}' if event.reason else ''}"
    session.add(TranscriptEntry("end", event.at, head, text, state=state))
    model.end(session.key, event.outcome, event.at)


def _waiting(model: Transcript, event: LoopWaiting) -> None:
    model.waiting = event
    text = f"waiting: {event.reason or event.kind}"
    model.current(event.at).add(TranscriptEntry("wait", event.at, "…", text, until=event.until))


def _guidance(model: Transcript, event: GuidanceGiven) -> None:
    session = model.current(event.at)
    session.add(TranscriptEntry("guidance", event.at, "guidance", session.bounded(event.text)[0]))


def _loop_ended(model: Transcript, event: LoopEnded) -> None:
    model.ended_at, model.waiting = event.at, None
    state: State = "ok" if event.exit_code == 0 else "error" if event.exit_code == 1 else "warning"
    head = f"the loop has ended: {event.outcome.replace('_', ' ')}"
    text = " · ".join(filter(None, (event.reason, *loop_totals(event))))
    model.current(event.at).add(TranscriptEntry("end", event.at, head, text, state=state))


def _trial_ended(model: Transcript, event: TrialEnded) -> None:
    model.ended_at, session = event.at, model.current(event.at)
    state = STATES.get(event.outcome, "warning")
    session.add(TranscriptEntry("end", event.at, event.outcome.replace("_", " "), event.reason, state=state))
    model.end(session.key, event.outcome, event.at)


_WHOLE_FOLDS: dict[type[Event], Callable[[Transcript, Any], None]] = {
    LoopStarted: _loop_started,
    IterationStarted: _iteration_started,
    IterationEnded: _iteration_ended,
    LoopWaiting: _waiting,
    GuidanceGiven: _guidance,
    LoopEnded: _loop_ended,
    TrialEnded: _trial_ended,
}
