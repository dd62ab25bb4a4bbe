"""Names of ours in the text of a recorded answer, for what is another text in another run. Pure.

`{{workspace}}` is filled with the workspace of the run that asks; `{{id-3}}` with the third id in its request. An
answer that really says `{{workspace}}` is written `{{=workspace}}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property

from youbencha.gateway.cassette.deltas import Span
from youbencha.gateway.cassette.places import Forms, in_json, pattern_of

_PLACEHOLDER = r"\{\{(?P<literal>=*)(?P<name>[A-Za-z][\w-]*(?::[a-z-]+)?)\}\}"
_FILLED = re.compile(_PLACEHOLDER)
_ID = re.compile(r"(?=.*[A-Za-z])(?=.*[0-9])[\w.-]{6,}\Z", re.S)
"""Long and odd enough that, where it comes in an answer, it can only be the one in the request."""


class Emptying:
    """Finds what must be replaced in an answer before it is kept."""

    def __init__(self, forms: Forms, names: Mapping[str, str]) -> None:
        self._forms = forms
        self._names = {name: value for name, value in names.items() if name.startswith("id-") and _ID.match(value)}

    def among(self, texts: Iterable[str]) -> Emptying:
        """Only for those ids that are in one of the texts: a long talk has hundreds, an answer names two."""
        whole = "\n".join(texts)
        return Emptying(self._forms, {name: value for name, value in self._names.items() if value in whole})

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


def filling(texts: Mapping[str, str]) -> Callable[[str, bool], str]:
    """A function that fills in what belongs there now; the second argument says whether the text is JSON."""

    def filled(text: str, is_json: bool) -> str:
        def fill(match: re.Match[str]) -> str:
            if match["literal"]:
                return "{{" + match["literal"][1:] + match["name"] + "}}"
            known = texts.get(match["name"])
            return match.group() if known is None else in_json(known) if is_json else known

        return _FILLED.sub(fill, text) if "{{" in text else text

    return filled
