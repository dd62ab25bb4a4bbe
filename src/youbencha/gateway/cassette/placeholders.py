"""Names of ours in the text of a recorded answer, for what is another text in another run. Pure.

`{{workspace}}` is filled with the workspace of the run that asks; `{{id-3}}` with the third id in its request. An
answer that really says `{{workspace}}` is written `{{=workspace}}`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from youbencha.process import Redactor


class Span(NamedTuple):
    """A stretch of a text, and what shall stand there instead."""

    start: int
    end: int
    text: str


# The gateway's own records, as plain data: a call, what a key may do, and what it did.


class Places(NamedTuple):
    """Directories whose names differ from run to run: a cassette writes a name of ours for each."""

    named: tuple[tuple[str, Path], ...] = ()
    """For example ("workspace", …/src-modified), ("home", …). The longest path is replaced first."""


NO_PLACES = Places()


# The ways in which the name of a directory may stand in a text. Pure, but for the links that a path may go through.

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


_PLACEHOLDER = r"\{\{(?P<literal>=*)(?P<name>[A-Za-z][\w-]*(?::[a-z-]+)?)\}\}"

_FILLED = re.compile(_PLACEHOLDER)

_ID = re.compile(r"(?=.*[A-Za-z])(?=.*[0-9])[\w.-]{6,}\Z", re.S)
"""Long and odd enough that, where it comes in an answer, it can only be the one in the request."""


class PlaceholderWriter:
    """Finds what must be replaced in an answer before it is kept."""

    def __init__(self, forms: Forms, names: Mapping[str, str]) -> None:
        self._forms = forms
        self._names = {name: value for name, value in names.items() if name.startswith("id-") and _ID.match(value)}

    def among(self, texts: Iterable[str]) -> PlaceholderWriter:
        """Only for those ids that are in one of the texts: a long talk has hundreds, an answer names two."""
        whole = "\n".join(texts)
        return PlaceholderWriter(self._forms, {name: value for name, value in self._names.items() if value in whole})

    @cached_property
    def _plain(self) -> _Finder:
        return _Finder({text: name for name, text in self._forms.items()} | self._ids)

    @cached_property
    def _in_json(self) -> _Finder:
        escaped: dict[str, str] = {}
        for name, text in self._forms.items():
            escaped.setdefault(in_json(text), name)
            escaped.setdefault(json.dumps(text)[1:-1], name)
        return _Finder(escaped | self._ids)

    @property
    def _ids(self) -> dict[str, str]:
        return {value: name for name, value in self._names.items()}

    def spans(self, text: str, *, is_json: bool) -> list[Span]:
        finder = self._in_json if is_json else self._plain
        return list(finder.spans(text))

    def text(self, text: str, *, is_json: bool) -> str:
        for span in reversed(self.spans(text, is_json=is_json)):
            text = text[: span.start] + span.text + text[span.end :]
        return text


class _Finder:
    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        texts = sorted(names, key=lambda text: (-len(text), text))
        self._pattern = re.compile("|".join([*map(pattern_of, texts), _PLACEHOLDER]))

    def spans(self, text: str) -> Iterator[Span]:
        for match in self._pattern.finditer(text):
            name = match["name"]
            inner = f"={match['literal']}{name}" if name else self._names[match.group()]
            yield Span(*match.span(), "{{" + inner + "}}")


def fill(texts: Mapping[str, str]) -> Callable[[str, bool], str]:
    """A function that fills in what belongs there now; the second argument says whether the text is JSON."""

    def filled(text: str, is_json: bool) -> str:
        def fill(match: re.Match[str]) -> str:
            if match["literal"]:
                return "{{" + match["literal"][1:] + match["name"] + "}}"
            known = texts.get(match["name"])
            return match.group() if known is None else in_json(known) if is_json else known

        return _FILLED.sub(fill, text) if "{{" in text else text

    return filled


# Secrets out of the texts of requests and answers. Pure.
#
# What JSON can say, Python can hold, but not always write: half a surrogate pair must pass here too.

_HALVES = "surrogatepass"


def masked(text: str, redactor: Redactor) -> str:
    return masked_bytes(text.encode("utf-8", _HALVES), redactor).decode("utf-8", _HALVES)


def masked_bytes(data: bytes, redactor: Redactor) -> bytes:
    stream = redactor.stream()
    return stream.feed(data) + stream.finish()


def secrets_in(text: str, redactor: Redactor) -> list[Span]:
    """Where they are, for a text that stands in pieces."""
    data = text.encode("utf-8", _HALVES)
    spans, position = [], 0
    while (match := redactor.next_match(data, position)) is not None:
        start, end = (len(data[:at].decode("utf-8", _HALVES)) for at in match.span())
        spans.append(Span(start, end, masked_bytes(match.group(), redactor).decode()))
        position = match.end()
    return spans
