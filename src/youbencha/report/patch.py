"""Parse git's patches into files and lines, as many as a page can show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from youbencha.text import shorten

Kind = Literal["add", "del", "same", "hunk", "note"]
MAX_FILES = 100
MAX_LINES = 4000
MAX_FILE_LINES = 800
MAX_LINE = 600
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_OCTAL = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}
_SIGNS: dict[str, Kind] = {"+": "add", "-": "del", " ": "same", "": "same", "\\": "note"}


@dataclass(slots=True)
class PatchRow:
    kind: Kind
    text: str
    old: int | None = None
    new: int | None = None


@dataclass
class FilePatch:
    path: str
    state: str = "modified"
    old_path: str | None = None
    binary: bool = False
    additions: int = 0
    deletions: int = 0
    rows: list[PatchRow] = field(default_factory=list)
    left_out: int = 0
    """Lines that are not in `rows`."""
    notes: list[str] = field(default_factory=list)

    def add(self, row: PatchRow, room: int) -> None:
        self.additions += row.kind == "add"
        self.deletions += row.kind == "del"
        if len(self.rows) < min(room, MAX_FILE_LINES):
            self.rows.append(row)
        elif row.kind != "hunk":
            self.left_out += 1


@dataclass(frozen=True)
class Patch:
    files: tuple[FilePatch, ...]
    files_left_out: int
    additions: int
    deletions: int


def read_patch(text: str) -> Patch:
    files: list[FilePatch] = []
    shown, count, additions, deletions = 0, 0, 0, 0
    for lines in _files(text):
        room = MAX_LINES - shown if count < MAX_FILES else 0
        file = _file(lines, room)
        count, additions, deletions = count + 1, additions + file.additions, deletions + file.deletions
        shown += len(file.rows)
        if count <= MAX_FILES:
            files.append(file)
    return Patch(tuple(files), count - len(files), additions, deletions)


def _files(text: str) -> Iterator[list[str]]:
    """Split the patch at the headers. In a hunk, every line has a sign before it, so only a header starts like this."""
    lines: list[str] = []
    for line in text.split("\n"):  # not splitlines(), which also splits at characters inside a line
        if line.startswith("diff --git "):
            if lines:
                yield lines
            lines = [line]
        elif lines:
            lines.append(line)
    if lines:
        yield lines


def _file(lines: list[str], room: int) -> FilePatch:
    file = FilePatch(path=_second_path(lines[0]))
    body = next((at for at, line in enumerate(lines) if line.startswith("@@ ")), len(lines))
    for line in lines[1:body]:
        if _header(file, line):
            break
    old = new = old_left = new_left = 0
    for line in lines[body:]:
        if old_left <= 0 and new_left <= 0:
            if hunk := _HUNK.match(line):
                old, new = int(hunk[1]), int(hunk[3])
                old_left, new_left = int(hunk[2] or 1), int(hunk[4] or 1)
                file.add(PatchRow("hunk", line[:MAX_LINE]), room)
            elif line.startswith("\\"):
                file.add(PatchRow("note", line[2:MAX_LINE]), room)
            continue
        kind = _SIGNS.get(line[:1], "note")
        row = PatchRow(kind, _cut(line[1:]))
        if kind in ("same", "del"):
            row.old, old, old_left = old, old + 1, old_left - 1
        if kind in ("same", "add"):
            row.new, new, new_left = new, new + 1, new_left - 1
        file.add(row, room)
    return file


def _header(file: FilePatch, line: str) -> bool:
    """Read a header line. Returns True if it is the last one."""
    word, _, rest = line.partition(" ")
    match word:
        case "---" | "+++" if rest != "/dev/null":
            file.path = _unquoted(rest.rstrip("\t"))[2:]
        case "new":
            file.state = "added" if rest.startswith("file mode") else file.state
            file.notes += [line] if rest.startswith("mode") else []
        case "deleted":
            file.state = "deleted"
        case "rename" | "copy" if rest.startswith("from "):
            file.state, file.old_path = {"rename": "renamed", "copy": "copied"}[word], _unquoted(rest[5:])
        case "rename" | "copy" if rest.startswith("to "):
            file.path = _unquoted(rest[3:])
        case "old" if rest.startswith("mode"):
            file.notes.append(line)
        case "GIT" | "Binary":
            file.binary = True
            return True
    return False


def _second_path(header: str) -> str:
    """The second path in `diff --git a/x b/x`. Only used if no later header names the file."""
    names = header.removeprefix("diff --git ")
    if names.endswith('"'):
        return _unquoted(names[names.rfind(' "') + 1 :])[2:]
    middle = len(names) // 2
    return names[middle + 1 :][2:] if names[middle : middle + 3] == " b/" else names.rpartition(" b/")[2]


def _unquoted(name: str) -> str:
    """Decode a name with unusual bytes, which git quotes as C does."""
    if not (len(name) >= 2 and name.startswith('"') and name.endswith('"')):
        return name
    raw = _OCTAL.sub(_byte, name[1:-1].encode("utf-8", "surrogateescape"))
    return raw.decode("utf-8", "surrogateescape")


def _byte(match: re.Match[bytes]) -> bytes:
    code = match[1]
    return bytes([int(code, 8) & 0xFF]) if len(code) == 3 else _LETTERS.get(code, code)


def _cut(line: str) -> str:
    return shorten(line, MAX_LINE)
