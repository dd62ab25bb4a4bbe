"""Text from agents, repositories and other people's files, made fit to be looked at.

Characters that cannot be seen can deceive: they turn lines around, move a terminal's cursor, hide a word. Here each
becomes a sign that can be seen. What a format takes for markup is the business of that format.
"""

from __future__ import annotations

import re

_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
"""Only this escape sequence is harmless, and common in what test runners print."""
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff"
    "\U000e0000-\U000e007f]"
)
_BLANK = re.compile("[ \t\n]+")
"""Not `split()`, which takes the thin spaces in our own numbers, too."""
_LONGEST_LINE = 300


def visible(text: str) -> str:
    """Every character can be seen; only line ends and tabs stay what they are."""
    if text.isprintable():
        return text
    text = _COLOUR.sub("", text) if "\x1b" in text else text
    text = text.replace("\r\n", "\n") if "\r" in text else text
    return _UNSEEN.sub(_sign, text)


def one_line(text: str, limit: int = _LONGEST_LINE) -> str:
    """For a cell or a headline. What is left out shows as `…`."""
    return shortened(_BLANK.sub(" ", visible(text[: limit * 8])).strip(" "), limit)


def shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def first_line(text: str) -> str:
    """The first line that says anything."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _sign(found: re.Match[str]) -> str:
    code = ord(found.group())
    if code < 0x20:
        return chr(0x2400 + code)  # the pictures that Unicode has for these: ␛
    if code == 0x7F:
        return "␡"
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"  # how Python keeps a byte that is no UTF-8
    return f"⟨U+{code:04X}⟩"
