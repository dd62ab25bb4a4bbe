"""The permissions of a checkpoint's files, in the message of its commit: git itself records only the executable bit.

A line has what most files and most programs have; those that differ follow, with their paths quoted as in a URL:

    Permissions: 644 755
    600 config/key.pem
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from urllib.parse import quote_from_bytes, unquote_to_bytes

from youbencha.workspace.diff import FILE, LINK, PROGRAM, Entry

PERMISSIONS = 0o777
_USUAL = re.compile(r"^Permissions: ([0-7]{3}) ([0-7]{3})$", re.MULTILINE)
_OTHER = re.compile(r"^([0-7]{3}) (\S+)$", re.MULTILINE)
_NOT_QUOTED = "/!#&'()+,:;=@[]{}"
_DEFAULTS = {FILE: 0o644, PROGRAM: 0o755}


def describe_permissions(entries: Mapping[bytes, Entry], permissions: Mapping[bytes, int]) -> str:
    """Return the end of a commit's message."""
    usual = {kind: _most_common(kind, entries, permissions) for kind in (FILE, PROGRAM)}
    lines = [f"Permissions: {usual[FILE]:03o} {usual[PROGRAM]:03o}"]
    for path in sorted(permissions):
        if permissions[path] != usual[entries[path].mode]:
            lines.append(f"{permissions[path]:03o} {quote_from_bytes(path, safe=_NOT_QUOTED)}")
    return "\n".join(lines)


def read_permissions(message: str, entries: Mapping[bytes, Entry]) -> dict[bytes, int]:
    """Return the permissions of all files that are not links; none, if the message does not have them."""
    usual = _USUAL.search(message)
    if usual is None:
        return {}
    by_kind = {FILE: int(usual[1], 8), PROGRAM: int(usual[2], 8)}
    found = {path: by_kind[entry.mode] for path, entry in entries.items() if entry.mode != LINK}
    others = {unquote_to_bytes(line[2]): int(line[1], 8) for line in _OTHER.finditer(message, usual.end())}
    return {path: others.get(path, permissions) for path, permissions in found.items()}


def _most_common(kind: str, entries: Mapping[bytes, Entry], permissions: Mapping[bytes, int]) -> int:
    counted = Counter(found for path, found in permissions.items() if entries[path].mode == kind)
    return max(counted, key=lambda found: (counted[found], found)) if counted else _DEFAULTS[kind]
