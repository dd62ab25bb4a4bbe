"""A directory of recorded answers of a model's API, and the sessions that record into it or replay from it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from youbencha.gateway.cassette.recording import RecordedAnswer, is_failure, record_answer, replay_answer, successes
from youbencha.gateway.cassette.store import AnswersByTrial, CassetteStore, Recording
from youbencha.gateway.cassette.volatile import Clock, around
from youbencha.json_lines import dumps
from youbencha.process import Redactor
from youbencha.spec.gateway import CassetteMode, CassetteTiming
from youbencha.text import one_line

_ENDED_TASK = re.compile(r"<task-notification>\\n<task-id>([^<]+)<")
_MAX_DAYS_TRIED = 5
"""The latest days on which a cassette was recorded."""


class Cassette:
    """A directory of recordings.

    Mode `record` records every answer and replaces earlier recordings of the same request. `replay` answers from
    recordings only, failures of the provider included. `auto` does so too, except for failures, and records the answers
    to all other requests.
    """

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
        self.files = {fingerprint: file for fingerprint, (file, _) in found.items()}
        self._today = today
        self._recorded_on = sorted({day for _, day in found.values() if day is not None}, reverse=True)
        if mode == "replay" and not self.files:
            raise _nothing_recorded(directory)
        self._sessions_at: dict[str, int] = {}
        self._recorded_here: dict[str, AnswersByTrial] = {}

    def session(self, places: Places | None = None) -> CassetteSession:
        """Return a session for one virtual key, which starts with the first answer to every request."""
        return CassetteSession(self, places or NO_PLACES)

    def today(self) -> frozenset[date]:
        """The dates that may be today's in a text."""
        return around(self._today())

    def possible_days(self) -> Iterator[frozenset[date]]:
        """Yield today, then today with each day of recording: a task may name the day of its recording by chance."""
        today = self.today()
        yield today
        for day in self._recorded_on[:_MAX_DAYS_TRIED]:
            if not around(day) <= today:
                yield today | around(day)

    def answers(self, fingerprint: str) -> AnswersByTrial:
        file = self.files.get(fingerprint)
        return self.store.read(file).trials if file else []

    def next_trial(self, fingerprint: str) -> int:
        """Return the trial whose answers a session gets: the first session those of the first trial, and so on."""
        number = self._sessions_at.get(fingerprint, 0)
        self._sessions_at[fingerprint] = number + 1
        return number

    def keep(self, request: ModelRequest, canonical: CanonicalRequest, answers: list[RecordedAnswer]) -> None:
        """Write the answers that a session has received to a request so far. `answers` may grow."""
        fingerprint = canonical.fingerprint
        if fingerprint not in self._recorded_here:  # empty in mode `record`
            self._recorded_here[fingerprint] = list(filter(None, map(successes, self.answers(fingerprint))))
        trials = self._recorded_here[fingerprint]
        if not any(each is answers for each in trials):
            trials.append(answers)
        self.files[fingerprint] = self.store.write(request, canonical, _distinct(trials, self.today()), self._today())
        self.recorded += not is_failure(answers[-1])


class CassetteSession:
    """The recordings of one virtual key."""

    def __init__(self, cassette: Cassette, places: Places) -> None:
        self.recorded = 0
        self.write_error: str | None = None
        """Why the cassette could not be written, if so."""
        self._cassette = cassette
        self._forms, self._texts = forms_of(places), texts_of(places)
        self._matcher = RequestMatcher(self._forms, cassette.redactor)
        self._asked: dict[str, int] = {}
        self._trial: dict[str, int] = {}
        self._recorded: dict[str, list[RecordedAnswer]] = {}

    @property
    def mode(self) -> CassetteMode:
        return self._cassette.mode

    def find(self, request: ModelRequest) -> ReplayedAnswer | None:
        """Return the recorded answer. The same request again gets the next one, and then the last one repeatedly.

        None if nothing was recorded for it, or only that there was no answer, and always while recording. Raises
        YouBenchaError if a file is invalid.
        """
        if self._cassette.mode == "record":
            return None
        for days in self._cassette.possible_days():
            canonical = self._matcher.canonical(request, days)
            if canonical.fingerprint in self._recorded:  # sent a second time, and answered by the model the first time
                return None
            if trials := self._cassette.answers(canonical.fingerprint):
                return self._replay(canonical, trials)
        return None

    def keep(
        self,
        request: ModelRequest,
        status: int,
        headers: Mapping[str, str],
        chunks: Sequence[tuple[float, bytes]],
        *,
        failed: str | None = None,
        lost: str | None = None,
    ) -> None:
        """Record an upstream's answer, each chunk with its milliseconds since the request.

        `failed`: how the provider failed, if it did. `lost`: why there is no answer, if so. An answer replaces refusals
        before it, so that a replay need not wait and try again; but after a failure within an answer, an agent may have
        done something else as well. Raises YouBenchaError if it cannot be written.
        """
        if self._cassette.mode == "replay":
            return
        canonical = self._matcher.canonical(request, self._cassette.today())
        writer = PlaceholderWriter(self._forms, canonical.names)
        answer = None if lost else record_answer(status, headers, chunks, writer, self._cassette.redactor, failed)
        if answer is None:
            lost = self._cassette.redactor.text(one_line(lost or "the answer is too large, or in an unknown encoding"))
            answer = {"status": 502, "headers": {}, "ms": 0, "lost": lost, "text": ""}
        elif len(set(_ENDED_TASK.findall(dumps(canonical.body)))) > 1:
            answer["doubt"] = "background tasks have ended, and may do so in another order"
        answers = self._recorded.setdefault(canonical.fingerprint, [])
        if not is_failure(answer):
            answers[:] = [each for each in answers if not (is_failure(each) and each["status"] >= 400)]
        answers.append(answer)
        self._cassette.keep(request, canonical, answers)
        self.recorded += not is_failure(answer)

    def doubts(self) -> str | None:
        """Say why a replay of this session may fail; None if it should not."""
        found = ((file, self._recorded[key]) for key, file in self._cassette.files.items() if key in self._recorded)
        return self.write_error or _doubts(found)

    def mismatch(self, request: ModelRequest) -> Mismatch:
        """Return what differs from the nearest request that was recorded."""
        from youbencha.gateway.cassette.mismatch import mismatch  # difflib is only needed here

        *_, days = self._cassette.possible_days()
        return mismatch(request, self._matcher.canonical(request, days).body, self._cassette.store)

    def _replay(self, canonical: CanonicalRequest, trials: AnswersByTrial) -> ReplayedAnswer | None:
        fingerprint = canonical.fingerprint
        answers = trials[self._trial_of(fingerprint) % len(trials)]
        if self.mode == "auto":
            answers = successes(answers)
        number = self._asked.get(fingerprint, 0)
        self._asked[fingerprint] = number + 1
        answer = answers[min(number, len(answers) - 1)] if answers else None
        if answer is None or "lost" in answer:
            return None
        try:
            return replay_answer(answer, fill({**self._texts, **canonical.names}), self._cassette.timing)
        except (KeyError, ValueError) as error:
            where = f"exchange {fingerprint[:12]} of {self._cassette.directory}"
            raise YouBenchaError("CASSETTE_BROKEN", f"An answer in {where} is broken: {error}") from error

    def _trial_of(self, fingerprint: str) -> int:
        if fingerprint not in self._trial:
            self._trial[fingerprint] = self._cassette.next_trial(fingerprint)
        return self._trial[fingerprint]


def _nothing_recorded(directory: Path) -> YouBenchaError:
    what = "contains no recording" if directory.is_dir() else "does not exist"
    return YouBenchaError(
        "CASSETTE_NOT_FOUND",
        f"There is nothing to replay: {directory} {what}",
        hint="Record it first with `--record DIR`, or check the name of the directory.",
    )


def _doubts(found: Iterable[tuple[Path, list[RecordedAnswer]]]) -> str | None:
    """Return the reasons, each with the file of a request that it is true of."""
    reasons = {str(answers[-1].get("lost") or answers[-1].get("doubt") or ""): file.name for file, answers in found}
    return one_line("; ".join(f"{reason} ({name})" for reason, name in reasons.items() if reason)) or None


def _distinct(trials: AnswersByTrial, days: frozenset[date]) -> AnswersByTrial:
    """Remove trials whose answers are the start of another's, ignoring ids, dates of these days and durations."""
    texts = [[numbered(dumps(_without_times(answer)), days) for answer in answers] for answers in trials]
    distinct: list[int] = []
    for number, one in enumerate(texts):
        if not any(one == texts[other][: len(one)] for other in distinct):
            distinct = [other for other in distinct if texts[other] != one[: len(texts[other])]] + [number]
    return [trials[number] for number in distinct]


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(each) for key, each in value.items() if key != "ms"}
    return [_without_times(each) for each in value] if isinstance(value, list) else value


class Contents(NamedTuple):
    """What a cassette contains."""

    exchanges: int
    models: tuple[str, ...]
    """As named in the requests."""
    apis: tuple[str, ...]
    outdated: int
    """Recordings in an older format, which no request matches."""
    doubts: str | None
    """Why a replay may fail."""


def contents_of(directory: Path) -> Contents:
    """Read a whole cassette. Raises YouBenchaError if it cannot be replayed: it is empty, or a file is invalid."""
    store = Cassette(directory, "replay").store
    recordings = [store.read(file) for file in store.files()]
    return Contents(
        exchanges=len(recordings),
        models=tuple(sorted({model for each in recordings if (model := _model(each))})),
        apis=tuple(sorted({each.wire for each in recordings if each.wire})),
        outdated=sum(each.outdated for each in recordings),
        doubts=_doubts((each.file, trial) for each in recordings for trial in each.trials),
    )


def _model(recording: Recording) -> str | None:
    return measure_request(recording.wire, recording.path, recording.body, 0).model if recording.wire else None
