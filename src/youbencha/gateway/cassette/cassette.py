"""A directory of recorded exchanges with a model's API, and those who record into it or are answered from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.gateway.bounds import measure_request
from youbencha.gateway.cassette.matching import (
    CanonicalRequest,
    Mismatch,
    ModelRequest,
    ReplayedAnswer,
    RequestMatcher,
    numbered,
)
from youbencha.gateway.cassette.placeholders import NO_PLACES, PlaceholderWriter, Places, fill, forms_of, texts_of
from youbencha.gateway.cassette.recording import RecordedAnswer, record_answer, replay_of
from youbencha.gateway.cassette.store import AnswersByTrial, CassetteStore, Recording
from youbencha.gateway.cassette.volatile import Clock, around
from youbencha.json_lines import dumps
from youbencha.process import Redactor
from youbencha.spec.gateway import CassetteMode, CassetteTiming


class CassetteSession:
    def __init__(self, cassette: Cassette, places: Places) -> None:
        self.recorded = 0
        self.left_out = 0
        """Answers that were none, or not all there: they are not in the cassette."""
        self._cassette = cassette
        self._forms, self._texts = forms_of(places), texts_of(places)
        self._normaliser = RequestMatcher(self._forms, cassette.redactor)
        self._asked: dict[str, int] = {}
        self._take: dict[str, int] = {}
        self._own: dict[str, list[RecordedAnswer]] = {}

    @property
    def mode(self) -> CassetteMode:
        return self._cassette.mode

    def find(self, asking: ModelRequest) -> ReplayedAnswer | None:
        """The same request again gets the next answer, and the last one over and over.

        None if nothing was recorded for it, and always while recording. Raises YouBenchaError if a file is broken.
        """
        if self._cassette.mode == "record":
            return None
        for days in self._cassette.todays():
            normal = self._normaliser.normal(asking, days)
            if normal.fingerprint in self._own:  # asked a second time, and answered by the model the first time
                return None
            if takes := self._cassette.takes(normal.fingerprint):
                return self._replay(normal, takes)
        return None

    def keep(
        self, asking: ModelRequest, status: int, headers: Mapping[str, str], chunks: Sequence[tuple[float, bytes]]
    ) -> None:
        """An answer as the upstream gave it, each chunk with its milliseconds since the request.

        What is no answer is not kept: limits, failures, wrong keys, and answers without their end. Raises
        YouBenchaError if it cannot be written.
        """
        if self._cassette.mode == "replay":
            return
        normal = self._normaliser.normal(asking, self._cassette.today())
        emptying = PlaceholderWriter(self._forms, normal.names)
        answer = record_answer(status, headers, chunks, emptying, self._cassette.redactor)
        if answer is None:
            self.left_out += 1
            return
        take = self._own.setdefault(normal.fingerprint, [])
        take.append(answer)
        self._cassette.keep(asking, normal, take)
        self.recorded += 1

    def mismatch(self, asking: ModelRequest) -> Mismatch:
        """What differs from the nearest request that was recorded."""
        from youbencha.gateway.cassette.mismatch import mismatch  # difflib is only needed when something went wrong

        *_, days = self._cassette.todays()
        normal = self._normaliser.normal(asking, days)
        return mismatch(asking, normal.body, self._cassette.store)

    def _replay(self, normal: CanonicalRequest, takes: AnswersByTrial) -> ReplayedAnswer:
        fingerprint = normal.fingerprint
        answers = takes[self._take_of(fingerprint) % len(takes)]
        number = self._asked.get(fingerprint, 0)
        self._asked[fingerprint] = number + 1
        try:
            answer = answers[min(number, len(answers) - 1)]
            return replay_of(answer, fill({**self._texts, **normal.names}), self._cassette.timing)
        except (KeyError, TypeError, ValueError) as error:
            where = f"exchange {fingerprint[:12]} of {self._cassette.directory}"
            raise YouBenchaError("CASSETTE_BROKEN", f"An answer in {where} is broken: {error}") from error

    def _take_of(self, fingerprint: str) -> int:
        if fingerprint not in self._take:
            self._take[fingerprint] = self._cassette.next_take(fingerprint)
        return self._take[fingerprint]


_DAYS_TRIED = 5
"""Of a cassette that was recorded on many, the latest."""


class Cassette:
    """`record` keeps every answer, and forgets what an earlier recording has for the same request. `replay` answers
    from what was kept. `auto` does so too, and keeps the answers to all other requests."""

    def __init__(
        self,
        directory: Path,
        mode: CassetteMode,
        *,
        redactor: Redactor | None = None,
        timing: CassetteTiming = "instant",
        today: Clock = date.today,
    ) -> None:
        self.directory, self.mode, self.timing = directory.absolute(), mode, timing
        self.redactor = redactor or Redactor()
        self.recorded = 0
        self.store = CassetteStore(self.directory)
        if mode != "replay":
            self.store.create()
        found = {} if mode == "record" else self.store.check()
        self._files = {fingerprint: each.file for fingerprint, each in found.items()}
        self._today = today
        self._recorded_on = sorted({each.day for each in found.values() if each.day is not None}, reverse=True)
        if mode == "replay" and not self._files:
            raise _nothing_there(directory)
        self._sessions_at: dict[str, int] = {}
        self._recorded_here: dict[str, AnswersByTrial] = {}

    def session(self, places: Places | None = None) -> CassetteSession:
        """One for each virtual key: it starts with the first answer of everything."""
        return CassetteSession(self, places or NO_PLACES)

    # -- for its sessions ---------------------------------------------------------------------------------------

    def today(self) -> frozenset[date]:
        """The days that a text may mean by today."""
        return around(self._today())

    def todays(self) -> Iterator[frozenset[date]]:
        """And those of the recordings: a task with a date that happened to be the day's is still the same task."""
        today = self.today()
        yield today
        for day in self._recorded_on[:_DAYS_TRIED]:
            if not around(day) <= today:
                yield today | around(day)

    def takes(self, fingerprint: str) -> AnswersByTrial:
        file = self._files.get(fingerprint)
        return self.store.read(file).takes if file else []

    def next_take(self, fingerprint: str) -> int:
        """The first session that asks this gets the first take, the second the second: as they were recorded."""
        number = self._sessions_at.get(fingerprint, 0)
        self._sessions_at[fingerprint] = number + 1
        return number

    def keep(self, asking: ModelRequest, normal: CanonicalRequest, take: list[dict[str, object]]) -> None:
        """`take` is what the session has been answered to this so far; it may grow."""
        if normal.fingerprint not in self._recorded_here:  # who records anew knows of nothing earlier
            self._recorded_here[normal.fingerprint] = self.takes(normal.fingerprint)
        here = self._recorded_here[normal.fingerprint]
        if not any(each is take for each in here):
            here.append(take)
        self._files[normal.fingerprint] = self.store.write(asking, normal, distinct(here, self.today()), self._today())
        self.recorded += 1


def _nothing_there(directory: Path) -> YouBenchaError:
    what = "holds no recorded exchange" if directory.is_dir() else "does not exist"
    return YouBenchaError(
        "CASSETTE_NOT_FOUND",
        f"There is nothing to replay: {directory} {what}",
        hint="Record it first, with `--record DIR`, or check the name of the directory.",
    )


# Trials that were answered the same need not be kept apart. Pure.

_WHEN = frozenset({"ms"})


def distinct(takes: list[list[dict[str, Any]]], days: frozenset[date]) -> list[list[dict[str, Any]]]:
    """Without those that say no more than another does, but for ids, the time of these days, and how long it took."""
    told = [[_told(answer, days) for answer in take] for take in takes]
    kept: list[int] = []
    for number, one in enumerate(told):
        if not any(one == told[other][: len(one)] for other in kept):
            kept = [other for other in kept if told[other] != one[: len(told[other])]] + [number]
    return [takes[number] for number in kept]


def _told(answer: dict[str, Any], days: frozenset[date]) -> str:
    return numbered(dumps(_timeless(answer)), days)


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(each) for key, each in value.items() if key not in _WHEN}
    return [_timeless(each) for each in value] if isinstance(value, list) else value


# What a cassette holds, for people who want to know before they replay it.


class Contents(NamedTuple):
    exchanges: int
    models: tuple[str, ...]
    """As requests name them."""
    apis: tuple[str, ...]
    outdated: int
    """Exchanges that no request is the same as any more: other requests were the same when they were recorded."""


def contents_of(directory: Path) -> Contents:
    """Raises YouBenchaError for what cannot be replayed: nothing there, or files that are none of ours."""
    store = Cassette(directory, "replay").store
    held = [store.read(file) for file in store.files()]
    return Contents(
        exchanges=len(held),
        models=tuple(sorted({model for each in held if (model := _model(each))})),
        apis=tuple(sorted({each.wire for each in held if each.wire})),
        outdated=sum(each.outdated for each in held),
    )


def _model(exchange: Recording) -> str | None:
    return measure_request(exchange.wire, exchange.path, exchange.body, 0).model if exchange.wire else None
