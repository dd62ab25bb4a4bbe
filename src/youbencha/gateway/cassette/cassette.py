"""A directory of recorded exchanges with a model's API, and those who record into it or are answered from it."""

from __future__ import annotations

from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.gateway.cassette.model import Asking, Mode, Timing
from youbencha.gateway.cassette.normal import Normal
from youbencha.gateway.cassette.session import CassetteSession
from youbencha.gateway.cassette.shelf import Shelf, Takes
from youbencha.gateway.cassette.takes import distinct
from youbencha.gateway.model import Places
from youbencha.process import Redactor


class Cassette:
    """`record` keeps every answer, and forgets what an earlier recording has for the same request. `replay` answers
    from what was kept. `auto` does so too, and keeps the answers to all other requests."""

    def __init__(
        self, directory: Path, mode: Mode, *, redactor: Redactor | None = None, timing: Timing = "instant"
    ) -> None:
        self.directory, self.mode, self.timing = directory.absolute(), mode, timing
        self.redactor = redactor or Redactor()
        self.replayed = 0
        self.recorded = 0
        self.shelf = Shelf(self.directory)
        if mode != "replay":
            self.shelf.create()
        self._files: dict[str, Path] = {} if mode == "record" else self.shelf.check()
        if mode == "replay" and not self._files:
            raise _nothing_there(directory)
        self._sessions_at: dict[str, int] = {}
        self._recorded_here: dict[str, Takes] = {}

    def session(self, places: Places) -> CassetteSession:
        """One for each virtual key: it starts with the first answer of everything."""
        return CassetteSession(self, places)

    # -- for its sessions ---------------------------------------------------------------------------------------

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
        self._files[normal.fingerprint] = self.shelf.write(asking, normal, distinct(here))
        self.recorded += 1


def _nothing_there(directory: Path) -> YouBenchaError:
    what = "holds no recorded exchange" if directory.is_dir() else "does not exist"
    return YouBenchaError(
        "CASSETTE_NOT_FOUND",
        f"There is nothing to replay: {directory} {what}",
        hint="Record it first, with `--record DIR`, or check the name of the directory.",
    )
