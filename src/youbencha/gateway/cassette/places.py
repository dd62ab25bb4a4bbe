"""The ways in which the name of a directory may stand in a text. Pure, but for the links that a path may go through."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from youbencha.gateway.model import Places

Forms = Mapping[str, str]
"""A placeholder's name, and the text that stands in its place: `workspace`, `workspace:dashes` …"""

_PATH_STARTS = r"(?:(?<![\w.~/\\}-])|(?<=\\[nrt])|(?<=://)|(?<=:///)|(?<=[\s\"']-[A-Za-z]))"
"""After what belongs to no path; at the start of a line in JSON; in a URL; after an option, as in `-I/usr/include`."""
_WHOLE_PATH = re.compile(r"[/\\]|[A-Za-z]:")
_SHORTEST = 2
_SHORTEST_DASHED = 12
"""`-tmp` would be found in many a word."""


def forms_of(places: Places) -> Forms:
    """Of all places, the longest text first, each text once."""
    found: dict[str, str] = {}
    for name, path in places.named:
        for suffix, text in _texts(path).items():
            found.setdefault(text, f"{name}:{suffix}" if suffix else name)
    return {name: text for text, name in sorted(found.items(), key=lambda item: (-len(item[0]), item[1]))}


def texts_of(places: Places) -> Forms:
    """All placeholders that may have to be filled, also where two of them have the same text here."""
    return {
        f"{name}:{suffix}" if suffix else name: text
        for name, path in reversed(places.named)
        for suffix, text in _texts(path).items()
    }


def pattern_of(text: str) -> str:
    """Not in the middle of a longer name: `/tmp` is no part of `/home/me/tmp`, nor of `/tmpfs`."""
    before = _PATH_STARTS if _WHOLE_PATH.match(text) else r"(?<![A-Za-z0-9])"
    return f"{before}{re.escape(text)}(?![A-Za-z0-9_])"


def in_json(text: str) -> str:
    """As it stands between the quotes of a JSON text."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _texts(path: Path) -> dict[str, str]:
    """The same path, as it is; through its links; with slashes, as many tools write it on Windows; inside JSON; and as
    Claude Code names the directory of a project, with a dash for whatever is no letter and no digit."""
    plain = str(path)
    if len(plain) < _SHORTEST:
        return {}
    real = os.path.realpath(plain)
    dashed = [re.sub(r"[^A-Za-z0-9]", "-", text) for text in (plain, real)]
    texts = {"": plain, "real": real, "slashes": plain.replace("\\", "/")}
    texts |= {"json": in_json(plain), "ascii": json.dumps(plain)[1:-1], "json-json": in_json(in_json(plain))}
    if len(plain) >= _SHORTEST_DASHED:
        texts |= {"dashes": dashed[0], "real-dashes": dashed[1]}
    return texts
