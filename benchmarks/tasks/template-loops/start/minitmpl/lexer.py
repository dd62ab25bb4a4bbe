"""From text to tokens: plain text, values and tags."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from minitmpl.errors import TemplateError

_TOKEN = re.compile(r"\{\{(?P<value>.*?)\}\}|\{%(?P<tag>.*?)%\}|\{#(?P<comment>.*?)#\}", re.DOTALL)
_OPEN = re.compile(r"\{[{%#]")


@dataclass(frozen=True)
class Token:
    kind: str
    """`text`, `value` or `tag`."""
    content: str
    line: int


def tokens(source: str) -> Iterator[Token]:
    """Split a template. Comments are left out."""
    position = 0
    line = 1
    for match in _TOKEN.finditer(source):
        yield from _text(source[position : match.start()], line)
        line += source.count("\n", position, match.start())
        if match.lastgroup != "comment":
            yield Token(match.lastgroup or "", match[match.lastgroup or 0].strip(), line)
        line += match[0].count("\n")
        position = match.end()
    yield from _text(source[position:], line)


def _text(content: str, line: int) -> Iterator[Token]:
    if opened := _OPEN.search(content):
        raise TemplateError(f"{opened[0]} is never closed", line + content.count("\n", 0, opened.start()))
    if content:
        yield Token("text", content, line)
