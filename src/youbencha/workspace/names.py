"""Names that an agent chose, as a message may show them: short, on one line, and text."""

from __future__ import annotations

import os
import re

_LONGEST = 160
_MIDDLE = "..."
_UNPRINTABLE = "\N{REPLACEMENT CHARACTER}"
_LONG_WORD = re.compile(rf"\S{{{_LONGEST + 1},}}")
_LONGEST_TEXT = 2000


def shown(path: str | bytes | os.PathLike[str]) -> str:
    """What is no text becomes a replacement character; a long path loses its middle."""
    text = os.fsencode(path).decode("utf-8", "replace")
    return _shortened("".join(each if each.isprintable() else _UNPRINTABLE for each in text))


def without_long_words(text: str) -> str:
    """A message of another program, which may name paths of 4,000 characters, and thousands of them."""
    return _LONG_WORD.sub(lambda found: _shortened(found[0]), text[:_LONGEST_TEXT])


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    half = (_LONGEST - len(_MIDDLE)) // 2
    return text[:half] + _MIDDLE + text[-half:]
