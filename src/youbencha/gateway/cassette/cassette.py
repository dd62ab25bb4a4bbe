"""A directory of recorded exchanges with a model's API, and those who record into it or are answered from it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.gateway.cassette.days import Clock, around
from youbencha.gateway.cassette.model import Asking
from youbencha.gateway.cassette.normal import Normal
from youbencha.gateway.cassette.session import CassetteSession
from youbencha.gateway.cassette.shelf import Shelf, Takes
from youbencha.gateway.cassette.takes import distinct
from youbencha.gateway.model import Places
from youbencha.process import Redactor
from youbencha.spec.gateway import CassetteMode, CassetteTiming

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
        self.shelf = Shelf(self.directory)
        if mode != "replay":
            self.shelf.create()
        found = {} if mode == "record" else self.shelf.check()
        self._files = {fingerprint: each.file for fingerprint, each in found.items()}
        self._today = today
        self._recorded_on = sorted({each.day for each in found.values() if each.day is not None}, reverse=True)
        if mode == "replay" and not self._files:
            raise _nothing_there(directory)
        self._sessions_at: dict[str, int] = {}
        self._recorded_here: dict[str, Takes] = {}

    def session(self, places: Places) -> CassetteSession:
        """One for each virtual key: it starts with the first answer of everything."""
        return CassetteSession(self, places)

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

    def takes(self, fingerprint: str) -> Takes:
        file = self._files.get(fingerprint)
        return self.shelf.read(file).takes if file else []

    def next_take(self, fingerprint: str) -> int:
        """The first session that asks this gets the first take, the second the second: as they were recorded."""
        number = self._sessions_at.get(fingerprint, 0)
        self._sessions_at[fingerprint] = number + 1
        return number

    def keep(self, asking: Asking, normal: Normal, take: list[dict[str, object]]) -> None:
        """`take` is what the session has been answered to this so far; it may grow."""
        if normal.fingerprint not in self._recorded_here:  # who records anew knows of nothing earlier
            self._recorded_here[normal.fingerprint] = self.takes(normal.fingerprint)
        here = self._recorded_here[normal.fingerprint]
        if not any(each is take for each in here):
            here.append(take)
        self._files[normal.fingerprint] = self.shelf.write(asking, normal, distinct(here, self.today()), self._today())
        self.recorded += 1


def _nothing_there(directory: Path) -> YouBenchaError:
    what = "holds no recorded exchange" if directory.is_dir() else "does not exist"
    return YouBenchaError(
        "CASSETTE_NOT_FOUND",
        f"There is nothing to replay: {directory} {what}",
        hint="Record it first, with `--record DIR`, or check the name of the directory.",
    )
