"""Long lines on a terminal: broken between words, and what goes on begins below what it belongs to."""

from __future__ import annotations

import textwrap

_LEAST_ROOM = 16
"""Where there is less, the terminal may break lines as it likes."""


def hanging(text: str, width: int, *, indent: int, taken: int | None = None) -> str:
    """`taken` characters stand before the text in its first line; a line of its own keeps its own indentation."""
    first, *others = text.split("\n")
    lines = [_broken(first, width, taken=indent if taken is None else taken, indent=indent)]
    for line in others:
        own = len(line) - len(line.lstrip(" "))
        lines.append(" " * own + _broken(line[own:], width, taken=own, indent=own + 2))
    return "\n".join(lines)


def _broken(text: str, width: int, *, taken: int, indent: int) -> str:
    """Words are never broken: a path that is too long can still be copied."""
    if width - max(taken, indent) < _LEAST_ROOM:
        return text
    lines = textwrap.wrap(
        text,
        width,
        initial_indent=" " * taken,
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return "\n".join(lines)[taken:]
