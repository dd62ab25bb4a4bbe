"""Placeholders in recorded answers, for text that differs in another run; and masked secrets. No I/O.

`{{workspace}}` is replaced by the workspace of the current run; `{{id-3}}` by the third id in its request. A literal
`{{workspace}}` in an answer is written as `{{=workspace}}`.
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
    """A section of a text, and its replacement."""

    start: int
    end: int
    text: str


class Places(NamedTuple):
    """Directories whose names differ from run to run: a cassette has a placeholder for each."""

    named: tuple[tuple[str, Path], ...] = ()
    """For example ("workspace", …/src-modified), ("home", …). The longest path is replaced first."""


NO_PLACES = Places()


Forms = Mapping[str, str]
"""A placeholder's name, and the text that it replaces: `workspace`, `workspace:dashes` …"""

_PATH_STARTS = r"(?:(?<![\w.~/\\}-])|(?<=\\[nrt])|(?<=://)|(?<=:///)|(?<=[\s\"']-[A-Za-z]))"
"""Not after a character of a path; at the start of a line in JSON; in a URL; after an option: `-I/usr/include`."""

_WHOLE_PATH = re.compile(r"[/\\]|[A-Za-z]:")
_SHORTEST = 2

_SHORTEST_DASHED = 12
"""`-tmp` would be found in many words."""


def forms_of(places: Places) -> Forms:
    """The texts of all directories, the longest first, each text once."""
    found: dict[str, str] = {}
    for name, path in places.named:
        for suffix, text in _texts(path).items():
            found.setdefault(text, f"{name}:{suffix}" if suffix else name)
    return {name: text for text, name in sorted(found.items(), key=lambda item: (-len(item[0]), item[1]))}


def texts_of(places: Places) -> Forms:
    """The text for every placeholder, even if two of them have the same text in this run."""
    return {
        f"{name}:{suffix}" if suffix else name: text
        for name, path in reversed(places.named)
        for suffix, text in _texts(path).items()
    }


def pattern_of(text: str) -> str:
    """Return a pattern that does not match inside a longer name: not in `/home/me/tmp` or `/tmpfs` for `/tmp`."""
    before = _PATH_STARTS if _WHOLE_PATH.match(text) else r"(?<![A-Za-z0-9])"
    return f"{before}{re.escape(text)}(?![A-Za-z0-9_])"


def in_json(text: str) -> str:
    """Escape a text as in JSON, without the quotes."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _texts(path: Path) -> dict[str, str]:
    """Return the forms of a path: unchanged; with links resolved; with slashes, as many tools write it on Windows; in
    JSON; and with a dash for all but letters and digits, as in Claude Code's project directories."""
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
_MOST_FILLED = 64 * 1024 * 1024

_ID = re.compile(r"(?=.*[A-Za-z])(?=.*[0-9])[\w.-]{6,}\Z", re.S)
"""Ids that are long and unusual enough: the same text in an answer can only be the id in the request."""


class PlaceholderWriter:
    """Writes placeholders into an answer before it is recorded."""

    def __init__(self, forms: Forms, names: Mapping[str, str]) -> None:
        self._forms = forms
        self._names = {name: value for name, value in names.items() if name.startswith("id-") and _ID.match(value)}

    def among(self, texts: Iterable[str]) -> PlaceholderWriter:
        """Return a writer for only those ids that occur in the texts: a conversation has hundreds, an answer two."""
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
    """Return a function that fills the placeholders of a text; its second argument is whether the text is JSON.

    It raises ValueError if they become too much: a stranger's cassette may repeat an id that is itself huge.
    """
    left = _MOST_FILLED

    def filled(text: str, is_json: bool) -> str:
        def fill(match: re.Match[str]) -> str:
            nonlocal left
            if match["literal"]:
                return "{{" + match["literal"][1:] + match["name"] + "}}"
            known = texts.get(match["name"])
            if (left := left - len(known or "")) < 0:
                raise ValueError("its placeholders become too large")
            return match.group() if known is None else in_json(known) if is_json else known

        return _FILLED.sub(fill, text) if "{{" in text else text

    return filled


_HALVES = "surrogatepass"
"""JSON may contain a lone surrogate, which UTF-8 cannot."""


def masked(text: str, redactor: Redactor) -> str:
    return masked_bytes(text.encode("utf-8", _HALVES), redactor).decode("utf-8", _HALVES)


def masked_bytes(data: bytes, redactor: Redactor) -> bytes:
    stream = redactor.stream()
    return stream.feed(data) + stream.finish()


def secrets_in(text: str, redactor: Redactor) -> list[Span]:
    """Return the positions of secrets, for a text that arrives in pieces."""
    data = text.encode("utf-8", _HALVES)
    spans = []
    for match in redactor.matches(data):
        start, end = (len(data[:at].decode("utf-8", _HALVES)) for at in match.span())
        spans.append(Span(start, end, masked_bytes(match.group(), redactor).decode()))
    return spans
