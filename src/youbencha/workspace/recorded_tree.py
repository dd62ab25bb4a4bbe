"""Record a user's tree as git objects, again and again. Only files that have changed since the last time are read."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Mapping
from pathlib import Path

from youbencha.files import open_nofollow
from youbencha.text import listed
from youbencha.workspace.checkpoint_message import PERMISSIONS
from youbencha.workspace.diff import FILE, LARGE, LINK, PROGRAM, Entry
from youbencha.workspace.objects import ObjectStore, TreeObjects
from youbencha.workspace.scan import Scanner, Stamp

_TICK_NS = 50_000_000
"""Two changes of a file within the clock's resolution have the same time: a file that was changed just before it was
read is read again the next time."""


class RecordedTree:
    """What is known about the files of a tree."""

    def __init__(self, tree: Path, scanner: Scanner, store: ObjectStore) -> None:
        self._tree, self._scanner, self._store = tree, scanner, store
        self._trees = TreeObjects(store)
        self.entries: dict[bytes, Entry] = {}
        self._stamps: dict[bytes, Stamp | None] = {}
        """None: it must be read again."""
        self.permissions: dict[bytes, int] = {}
        """The permissions of all files except links, as of the last scan."""
        self._before: dict[bytes, Entry | None] = {}
        """The entries at the last mark, of files that have changed since."""
        self.left_out: set[bytes] = set()
        """Files that are too large or not readable."""
        self._reported: set[bytes] = set()

    def start_from(self, entries: dict[bytes, Entry]) -> str:
        """Begin with what was recorded earlier, and return the id of its tree object."""
        self.entries = entries
        self._put_all()
        return self._trees.write()

    async def record(self) -> str:
        """Store the present state of the tree, and return the id of its tree object."""
        started = time.time_ns()
        found = await self._scanner.scan()
        if found and found == self._stamps:  # both are empty at first, and when all files are gone
            return self._trees.write()
        return await asyncio.to_thread(self._update, found, started)

    def changed(self) -> int:
        """How many files differ from the last mark."""
        return sum(self.entries.get(path) != entry for path, entry in self._before.items())

    def mark(self) -> None:
        self._before.clear()

    def forget_objects(self) -> None:
        """Read and store everything again the next time: the objects may be gone."""
        self._store.present.clear()
        self._stamps.clear()
        self._put_all()

    def newly_left_out(self) -> str | None:
        """Describe what was left out and not described before."""
        new, self._reported = self.left_out - self._reported, set(self.left_out)
        if not new:
            return None
        return f"not in the checkpoint, because too large or not readable: {listed(new)}"

    def _put_all(self) -> None:
        self._trees = TreeObjects(self._store)
        for path, entry in self.entries.items():
            self._trees.put(path, entry)

    def _update(self, found: Mapping[bytes, Stamp], started: int) -> str:
        with self._store.opened():
            self._read_changed(found, started)
            return self._trees.write()

    def _read_changed(self, found: Mapping[bytes, Stamp], started: int) -> None:
        for path in self.entries.keys() - found.keys():
            self._set(path, None)
        self.left_out &= found.keys()
        stamps, self._stamps = self._stamps, {}
        for path, stamp in found.items():
            if stamps.get(path) != stamp:
                self._set(path, self._entry(path, stamp))
            self._stamps[path] = stamp if max(stamp.mtime_ns, stamp.ctime_ns) < started - _TICK_NS else None
        self.permissions = {
            path: found[path].mode & PERMISSIONS for path, entry in self.entries.items() if entry.mode != LINK
        }

    def _entry(self, path: bytes, stamp: Stamp) -> Entry | None:
        self.left_out.discard(path)
        try:
            content = self._content(path, stamp)
        except FileNotFoundError:
            return None
        except OSError:
            content = None
        if content is None:
            self.left_out.add(path)
            return None
        mode = LINK if stat.S_ISLNK(stamp.mode) else PROGRAM if stamp.mode & stat.S_IXUSR else FILE
        return Entry(mode, self._store.write(b"blob", content))

    def _content(self, path: bytes, stamp: Stamp) -> bytes | None:
        """What git stores for it; None if it is too large."""
        if stat.S_ISLNK(stamp.mode):
            return os.readlink(os.fsencode(self._tree) + b"/" + path)  # noqa: PTH115 - bytes
        if stamp.size > LARGE:
            return None
        with open_nofollow(self._tree, os.fsdecode(path)) as file:
            content = file.read(LARGE + 1)
        return content if len(content) <= LARGE else None

    def _set(self, path: bytes, entry: Entry | None) -> None:
        old = self.entries.get(path)
        if old == entry:
            return
        self._before.setdefault(path, old)
        self._trees.put(path, entry)
        if entry is None:
            del self.entries[path]
        else:
            self.entries[path] = entry
