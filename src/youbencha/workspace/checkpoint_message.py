"""The part of a checkpoint's commit message that programs read: permissions, and the files that were not recorded.

git itself records only the executable bit. The first line has the permissions of most files and of most programs. The
exceptions follow, and then the files that were too large or not readable. Paths are quoted as in a URL:

    Permissions: 644 755
    600 config/key.pem
    Not recorded: data/model.bin
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from urllib.parse import quote_from_bytes, unquote_to_bytes

from youbencha.workspace.diff import FILE, LINK, PROGRAM, Entry

PERMISSIONS = 0o777
_USUAL = re.compile(r"^Permissions: ([0-7]{3}) ([0-7]{3})$", re.MULTILINE)
_OTHER = re.compile(r"^([0-7]{3}) (\S+)$", re.MULTILINE)
_LEFT_OUT = re.compile(r"^Not recorded: (\S+)$", re.MULTILINE)
_MAX_LEFT_OUT = 1000
_NOT_QUOTED = "/!#&'()+,:;=@[]{}"
_DEFAULTS = {FILE: 0o644, PROGRAM: 0o755}


def describe_permissions(entries: Mapping[bytes, Entry], permissions: Mapping[bytes, int]) -> str:
    """Return the lines of the message about permissions."""
    usual = {kind: _most_common(kind, entries, permissions) for kind in (FILE, PROGRAM)}
    lines = [f"Permissions: {usual[FILE]:03o} {usual[PROGRAM]:03o}"]
    for path in sorted(permissions):
        if permissions[path] != usual[entries[path].mode]:
            lines.append(f"{permissions[path]:03o} {_quoted(path)}")
    return "\n".join(lines)


def read_permissions(message: str, entries: Mapping[bytes, Entry]) -> dict[bytes, int]:
    """Return the permissions of all files except links. Empty if the message does not have them."""
    usual = _USUAL.search(message)
    if usual is None:
        return {}
    by_kind = {FILE: int(usual[1], 8), PROGRAM: int(usual[2], 8)}
    found = {path: by_kind[entry.mode] for path, entry in entries.items() if entry.mode != LINK}
    others = {unquote_to_bytes(line[2]): int(line[1], 8) for line in _OTHER.finditer(message, usual.end())}
    return {path: others.get(path, permissions) for path, permissions in found.items()}


def describe_left_out(paths: Iterable[bytes]) -> str:
    """Return the lines of the message about files that were not recorded."""
    return "\n".join(f"Not recorded: {_quoted(path)}" for path in sorted(paths)[:_MAX_LEFT_OUT])


def read_left_out(message: str) -> list[bytes]:
    return [unquote_to_bytes(line[1]) for line in _LEFT_OUT.finditer(message)]


def _quoted(path: bytes) -> str:
    return quote_from_bytes(path, safe=_NOT_QUOTED)


def _most_common(kind: str, entries: Mapping[bytes, Entry], permissions: Mapping[bytes, int]) -> int:
    counted = Counter(found for path, found in permissions.items() if entries[path].mode == kind)
    return max(counted, key=lambda found: (counted[found], found)) if counted else _DEFAULTS[kind]
