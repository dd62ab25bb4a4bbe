"""A directory of recorded answers of a model's API, and the sessions that record into it or replay from it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.gateway.cassette.answers import (
    PlaceholderWriter,
    RecordedAnswer,
    ReplayedAnswer,
    fill,
    is_failure,
    record_answer,
    replay_answer,
    successes,
)
from youbencha.gateway.cassette.matching import (
    NO_PLACES,
    CanonicalRequest,
    ModelRequest,
    Places,
    RequestMatcher,
    number_volatile,
    path_forms,
    placeholder_texts,
)
from youbencha.gateway.cassette.mismatch import Continuation, Mismatch, Outline, compare, find_position, outline
from youbencha.gateway.cassette.store import VERSION, AnswersByTrial, CassetteStore, Recording, RecordingHead
from youbencha.gateway.cassette.volatile import around
from youbencha.gateway.wires import WIRES
from youbencha.json_lines import as_mapping, dumps
from youbencha.process import Redactor
from youbencha.spec.gateway import CassetteMode, CassetteTiming
from youbencha.text import one_line

_OLDER = "The cassette was recorded by an older youBencha: record it again to see the difference."
_ENDED_TASK = re.compile(r"<task-notification>\\n<task-id>([^<]+)<")


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
        today: Callable[[], date] = date.today,
    ) -> None:
        self.directory, self.mode, self.timing = directory.absolute(), mode, timing
        self.redactor = redactor or Redactor()
        self.recorded = 0
        self.store = CassetteStore(self.directory)
        if mode != "replay":
            self.store.create()
        self.entries: dict[str, RecordingHead] = {} if mode == "record" else self.store.check()
        self._today = today
        self._recorded_on = max((entry.day for entry in self.entries.values() if entry.day is not None), default=None)
        if mode == "replay" and not self.entries:
            raise _nothing_recorded(directory)
        self._sessions_at: Counter[str] = Counter()
        self._recorded_here: dict[str, AnswersByTrial] = {}

    def session(self, places: Places | None = None) -> CassetteSession:
        """Return a session for one virtual key, which starts with the first answer to every request."""
        return CassetteSession(self, places or NO_PLACES)

    def today(self) -> frozenset[date]:
        """The dates that may be today's in a text."""
        return around(self._today())

    def possible_days(self) -> list[frozenset[date]]:
        """Today, then today with the last day of recording, which a task may name by chance."""
        today = self.today()
        recorded_on = frozenset() if self._recorded_on is None else around(self._recorded_on)
        return [today] if recorded_on <= today else [today, today | recorded_on]

    def answers(self, fingerprint: str) -> AnswersByTrial:
        entry = self.entries.get(fingerprint)
        return self.store.read(entry.file).trials if entry else []

    def recorded_after(self, fingerprint: str | None, request: ModelRequest) -> list[Recording]:
        """Return what was recorded for the same path after this request; None: at the start of a conversation."""
        here = (request.method, request.path, fingerprint)
        entries = [entry for entry in self.entries.values() if entry.version == VERSION]
        return [self.store.read(entry.file) for entry in entries if (entry.method, entry.path, entry.after) == here]

    def what_is_recorded(self, title: str, after: str | None) -> str:
        """Say why there is nothing to compare a request with."""
        if any(entry.version < VERSION for entry in self.entries.values()):
            return f"this {title} is not recorded. {_OLDER}"
        if after is not None and after in self.entries:
            return f"nothing is recorded for {title} after {self.entries[after].file.name}, where the recording ends"
        counts = Counter(f"{entry.method} {entry.path}" for entry in self.entries.values())
        listed = ", ".join(f"{count} of {path}" for path, count in counts.most_common(5))
        return f"nothing is recorded for {title}; recorded: {listed}"

    def next_trial(self, fingerprint: str) -> int:
        """Return the trial whose answers a session gets: the first session those of the first trial, and so on."""
        self._sessions_at[fingerprint] += 1
        return self._sessions_at[fingerprint] - 1

    def keep(
        self, request: ModelRequest, canonical: CanonicalRequest, position: Continuation, answers: list[RecordedAnswer]
    ) -> None:
        """Write the answers that a session has received to a request so far. `answers` may grow."""
        fingerprint, today = canonical.fingerprint, self._today()
        if fingerprint not in self._recorded_here:  # empty in mode `record`
            self._recorded_here[fingerprint] = list(filter(None, map(successes, self.answers(fingerprint))))
        trials = self._recorded_here[fingerprint]
        if not any(trial is answers for trial in trials):
            trials.append(answers)
        file = self.store.write(request, canonical, position, _distinct(trials, self.today()), today)
        self.entries[fingerprint] = RecordingHead(file, request.method, request.path, position.after, today, VERSION)
        self.recorded += not is_failure(answers[-1])


class CassetteSession:
    """The recordings of one virtual key."""

    def __init__(self, cassette: Cassette, places: Places) -> None:
        self.recorded = 0
        self.write_error: str | None = None
        """Why the cassette could not be written, if so."""
        self._cassette = cassette
        self._forms, self._texts = path_forms(places), placeholder_texts(places)
        self._matcher = RequestMatcher(self._forms, cassette.redactor)
        self._outlines: dict[str, Outline] = {}
        """The requests so far, by fingerprint."""
        self._positions: dict[str, Continuation] = {}
        self._replayed: Counter[str] = Counter()
        self._trials: dict[str, int] = {}
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
                self._locate(request, canonical)
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
            lost = self._cassette.redactor.text(one_line(lost or "the answer is too large"))
            answer = {"status": 502, "headers": {}, "ms": 0, "lost": lost, "text": ""}
        elif len(set(_ENDED_TASK.findall(dumps(canonical.body)))) > 1:
            answer["doubt"] = "background tasks have ended, and may do so in another order"
        answers = self._recorded.setdefault(canonical.fingerprint, [])
        if not is_failure(answer):
            answers[:] = [known for known in answers if not (is_failure(known) and known["status"] >= 400)]
        answers.append(answer)
        self._cassette.keep(request, canonical, self._locate(request, canonical), answers)
        self.recorded += not is_failure(answer)

    def doubts(self) -> str | None:
        """Return why a replay of this session may fail; None if it should not."""
        entries = self._cassette.entries
        recorded = ((entries[key].file, answers) for key, answers in self._recorded.items() if key in entries)
        return self.write_error or _doubts(recorded)

    def mismatch(self, request: ModelRequest) -> Mismatch:
        """Compare a request without a recording with the one that was recorded at the same point of the session."""
        matched = self._matcher.canonical(request, self._cassette.possible_days()[-1])
        title = f"{request.method} {request.path}"
        position = find_position(outline(request, matched), self._outlines.values())
        without_answer = self._cassette.entries.get(matched.fingerprint)
        if without_answer is not None:
            recorded = [self._cassette.store.read(without_answer.file)]
        else:
            recorded = self._cassette.recorded_after(position.after, request)
        if not recorded:
            summary = self._cassette.what_is_recorded(title, position.after)
            return Mismatch(summary, summary)
        bodies = [self._cassette.store.whole_body(recording, self._cassette.entries) for recording in recorded]

        def priority(number: int) -> tuple[bool, ...]:
            """Prefer one that has not been answered yet: several requests may begin a conversation."""
            differs = [_field(bodies[number], key) != _field(matched.body, key) for key in ("model", "tools")]
            return differs[0], recorded[number].fingerprint in self._outlines, differs[1]

        best = min(range(len(recorded)), key=priority)
        lost = recorded[best].trials[0][-1].get("lost")
        return compare(title, matched.body, bodies[best], recorded[best].file.name, lost)

    def _locate(self, request: ModelRequest, matched: CanonicalRequest) -> Continuation:
        """Remember a request, and return its position, which stays the same when it is sent again."""
        fingerprint = matched.fingerprint
        if fingerprint not in self._outlines:
            here = outline(request, matched)
            self._positions[fingerprint] = find_position(here, self._outlines.values())
            self._outlines[fingerprint] = here
        return self._positions[fingerprint]

    def _replay(self, canonical: CanonicalRequest, trials: AnswersByTrial) -> ReplayedAnswer | None:
        fingerprint = canonical.fingerprint
        if fingerprint not in self._trials:
            self._trials[fingerprint] = self._cassette.next_trial(fingerprint)
        answers = trials[self._trials[fingerprint] % len(trials)]
        if self.mode == "auto":
            answers = successes(answers)
        number = self._replayed[fingerprint]
        self._replayed[fingerprint] += 1
        answer = answers[min(number, len(answers) - 1)] if answers else None
        if answer is None or "lost" in answer:
            return None
        try:
            return replay_answer(answer, fill({**self._texts, **canonical.names}), self._cassette.timing)
        except (KeyError, ValueError) as error:
            where = f"exchange {fingerprint[:12]} of {self._cassette.directory}"
            raise YouBenchaError("CASSETTE_BROKEN", f"An answer in {where} is broken: {error}") from error


def _field(body: Any, key: str) -> Any:
    return as_mapping(body).get(key)


def _nothing_recorded(directory: Path) -> YouBenchaError:
    problem = "contains no recording" if directory.is_dir() else "does not exist"
    return YouBenchaError(
        "CASSETTE_NOT_FOUND",
        f"There is nothing to replay: {directory} {problem}",
        hint="Record it first with `--record DIR`, or check the name of the directory.",
    )


def _doubts(recorded: Iterable[tuple[Path, list[RecordedAnswer]]]) -> str | None:
    """Return the reasons, each with the file of a request that it is true of."""
    reasons = {str(answers[-1].get("lost") or answers[-1].get("doubt") or ""): file.name for file, answers in recorded}
    return one_line("; ".join(f"{reason} ({name})" for reason, name in reasons.items() if reason)) or None


def _distinct(trials: AnswersByTrial, days: frozenset[date]) -> AnswersByTrial:
    """Remove trials whose answers are the start of another's, ignoring ids, dates of these days and durations."""
    texts = [[number_volatile(dumps(_without_times(answer)), days) for answer in answers] for answers in trials]
    distinct: list[int] = []
    for number, one in enumerate(texts):
        if not any(one == texts[other][: len(one)] for other in distinct):
            distinct = [other for other in distinct if texts[other] != one[: len(texts[other])]] + [number]
    return [trials[number] for number in distinct]


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(item) for key, item in value.items() if key != "ms"}
    return [_without_times(item) for item in value] if isinstance(value, list) else value


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


def read_contents(directory: Path) -> Contents:
    """Read a whole cassette. Raises YouBenchaError if it cannot be replayed: it is empty, or a file is invalid."""
    store = Cassette(directory, "replay").store
    recordings = [store.read(file) for file in store.files()]
    return Contents(
        exchanges=len(recordings),
        models=tuple(sorted({model for recording in recordings if (model := _model(recording))})),
        apis=tuple(sorted({recording.wire for recording in recordings if recording.wire})),
        outdated=sum(recording.outdated for recording in recordings),
        doubts=_doubts((recording.file, trial) for recording in recordings for trial in recording.trials),
    )


def _model(recording: Recording) -> str | None:
    return WIRES[recording.wire].measure(recording.path, recording.body, 0).model if recording.wire else None
