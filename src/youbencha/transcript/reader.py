"""Read the transcript of a run from its recording: at once, while it grows, and the whole of long texts when needed.

transcript = read(run / "artifacts" / TRANSCRIPT_FILE)
for entry in transcript.entries: ...

reader = TranscriptReader(path)                 # a viewer: short texts in memory, long ones on the disk
changed = reader.update()                       # the entries that are new or have changed since the last time
whole = reader.load(reader.transcript.entries[7])
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import replace
from itertools import repeat
from pathlib import Path

from youbencha.events import Event
from youbencha.files import open_nofollow
from youbencha.json_lines import Record
from youbencha.transcript.model import Transcript
from youbencha.transcript.recording import RecordingReader
from youbencha.transcript.session import Session, TranscriptEntry, fold

PREVIEW = 2_000
"""Characters of each text that a viewer keeps in memory."""
_WHOLE = 1 << 40

OtherRecords = Callable[[Record], Iterable[Event]]


def _no_events(record: Record) -> Iterable[Event]:
    return ()


def read(path: Path, *, max_text: int = _WHOLE, others: OtherRecords = _no_events) -> Transcript:
    """Read a recording. Raises `OSError` if there is none; lines that are no events are skipped."""
    transcript = Transcript(max_text=max_text)
    with open_nofollow(path.parent, path.name) as file:
        events = RecordingReader(file, others)
        for event in events:
            transcript.take(event, offset=events.offset)
    return transcript


async def follow(
    path: Path, *, max_text: int = PREVIEW, interval_s: float = 0.2
) -> AsyncGenerator[list[TranscriptEntry]]:
    """Yield the entries that were added or changed, as the file grows; without end. It need not exist yet."""
    reader = TranscriptReader(path, max_text=max_text)
    while True:
        if changed := reader.update():
            yield changed
        await asyncio.sleep(interval_s)


class TranscriptReader:
    """A transcript that is brought up to date from its file."""

    def __init__(self, path: Path, *, max_text: int = PREVIEW, others: OtherRecords = _no_events) -> None:
        """`max_text`: the characters of each text that are kept in memory; `load` reads the rest.

        `others` makes events of records that are not of this format.
        """
        self.transcript = Transcript(max_text=max_text)
        self.skipped = 0
        """Lines that are no events of this version."""
        self._path = path
        self._max_text = max_text
        self._others = others
        self._offset = 0
        self._file_id: tuple[int, int] | None = None

    def update(self) -> list[TranscriptEntry]:
        """Read what was added to the file, and return the entries that are new or have changed.

        A file that was replaced is read from its start, into a new `transcript`. If there is no file, nothing changes.
        """
        try:
            file = open_nofollow(self._path.parent, self._path.name)
        except OSError:
            return []
        with file:
            status = os.fstat(file.fileno())
            file_id = (status.st_dev, status.st_ino)
            if self._file_id is not None and (file_id != self._file_id or status.st_size < self._offset):
                self._offset, self.transcript, self.skipped = 0, Transcript(max_text=self._max_text), 0
            self._file_id = file_id
            before = self.transcript.version
            file.seek(self._offset)
            events = RecordingReader(file, self._others)
            for event in events.complete():
                self.transcript.take(event, offset=events.offset)
            self._offset = events.offset
            self.skipped += events.skipped
        return self.transcript.changed_since(before)

    def load(self, entry: TranscriptEntry) -> TranscriptEntry:
        """Return the entry with all that was recorded of its texts. Raises `OSError` if the file is gone."""
        if not entry.cut or not entry.offsets:
            return entry
        session = Session("", "", entry.at, max_text=_WHOLE, ids=repeat(entry.id))
        with open_nofollow(self._path.parent, self._path.name) as file:
            for offset in entry.offsets:
                file.seek(offset)
                event = next(iter(RecordingReader(file, self._others)), None)
                if event is not None:
                    fold(session, event)
        if not session.entries:
            return entry
        return replace(session.entries[0], nested=entry.nested, parent=entry.parent, version=entry.version)
