"""One trial and its cassette: it asks as the agent does, in an order of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from youbencha.errors import YouBenchaError
from youbencha.gateway.cassette.answers import Kept, kept_answer, replay_of
from youbencha.gateway.cassette.model import Asking, Mismatch, Replay
from youbencha.gateway.cassette.normal import Normal, Normaliser
from youbencha.gateway.cassette.placeholders import Emptying, filling
from youbencha.gateway.cassette.places import forms_of, texts_of
from youbencha.gateway.cassette.shelf import Takes
from youbencha.gateway.model import Places
from youbencha.spec.gateway import CassetteMode

if TYPE_CHECKING:
    from youbencha.gateway.cassette.cassette import Cassette


class CassetteSession:
    def __init__(self, cassette: Cassette, places: Places) -> None:
        self.recorded = 0
        self.left_out = 0
        """Answers that were none, or not all there: they are not in the cassette."""
        self._cassette = cassette
        self._forms, self._texts = forms_of(places), texts_of(places)
        self._normaliser = Normaliser(self._forms, cassette.redactor)
        self._asked: dict[str, int] = {}
        self._take: dict[str, int] = {}
        self._own: dict[str, list[Kept]] = {}

    @property
    def mode(self) -> CassetteMode:
        return self._cassette.mode

    def find(self, asking: Asking) -> Replay | None:
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
        self, asking: Asking, status: int, headers: Mapping[str, str], chunks: Sequence[tuple[float, bytes]]
    ) -> None:
        """An answer as the upstream gave it, each chunk with its milliseconds since the request.

        What is no answer is not kept: limits, failures, wrong keys, and answers without their end. Raises
        YouBenchaError if it cannot be written.
        """
        if self._cassette.mode == "replay":
            return
        normal = self._normaliser.normal(asking, self._cassette.today())
        emptying = Emptying(self._forms, normal.names)
        answer = kept_answer(status, headers, chunks, emptying, self._cassette.redactor)
        if answer is None:
            self.left_out += 1
            return
        take = self._own.setdefault(normal.fingerprint, [])
        take.append(answer)
        self._cassette.keep(asking, normal, take)
        self.recorded += 1

    def mismatch(self, asking: Asking) -> Mismatch:
        """What differs from the nearest request that was recorded."""
        from youbencha.gateway.cassette.nearest import mismatch  # difflib is only needed when something went wrong

        *_, days = self._cassette.todays()
        normal = self._normaliser.normal(asking, days)
        return mismatch(asking, normal.body, self._cassette.shelf)

    def _replay(self, normal: Normal, takes: Takes) -> Replay:
        fingerprint = normal.fingerprint
        answers = takes[self._take_of(fingerprint) % len(takes)]
        number = self._asked.get(fingerprint, 0)
        self._asked[fingerprint] = number + 1
        try:
            answer = answers[min(number, len(answers) - 1)]
            return replay_of(answer, filling({**self._texts, **normal.names}), self._cassette.timing)
        except (KeyError, TypeError, ValueError) as error:
            where = f"exchange {fingerprint[:12]} of {self._cassette.directory}"
            raise YouBenchaError("CASSETTE_BROKEN", f"An answer in {where} is broken: {error}") from error

    def _take_of(self, fingerprint: str) -> int:
        if fingerprint not in self._take:
            self._take[fingerprint] = self._cassette.next_take(fingerprint)
        return self._take[fingerprint]
