"""The simple commands in a line of shell, for rules that look at each of them.

Not a shell: whatever cannot be taken apart with certainty is `Unreadable`, and a rule with an argument then does not
allow it. Quotes, comments and escapes are followed, because a command that hides in them is how such rules are fooled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_PIECE = re.compile(
    r"""
      (?P<plain>      [^ \t\n\\'"`$;&|<>()\#]+ )
    | (?P<quiet>      (?: &?>{1,2} [ \t]* /dev/null | >&[12] ) (?![^ \t\n;&|]) )
    | (?P<space>      [ \t]+ )
    | (?P<joined>     \\ \n )
    | (?P<escape>     \\ . )
    | (?P<single>     ' [^']* ' )
    | (?P<double>     " (?: [^"\\`$] | \\ . | \$ (?![({]) )* " )
    | (?P<input>      < (?![<(&>]) )
    | (?P<separator>  \|\| | && | \|& | [;|\n] | & (?!>) )
    | (?P<variable>   \$ (?![('"{]) )
    | (?P<hash>       \# )
    """,
    re.VERBOSE | re.DOTALL,
)
_ONLY_AT_WORD = re.compile(r"(?P<comment>#[^\n]*)|(?P<quiet>[012](?=>))")
"""The number of a stream belongs to a redirection, but not in `foo2>…`."""
_ROUGH = re.compile(r"[;&|\n()`{}'\"]|\$\(")
_BEFORE_COMMAND = re.compile(r"(?:(?:if|then|elif|else|while|until|do|time|!|\{)[ \t]+|\w+=\S*[ \t]+)+")
_WHY = {
    "$": "a substitution",
    "`": "a substitution",
    '"': "a substitution, or a quotation without an end",
    "'": "a quotation without an end",
    "\\": "an escape without an end",
    "#": "a comment where none can be",
    "<": "a here-document or a substitution",
    "(": "a group of commands",
    ")": "a group of commands",
}


class Unreadable(Exception):
    """Says what is in the way."""


def commands_in(line: str) -> list[str]:
    """The simple commands, without comments and without redirections to nowhere. Raises `Unreadable`."""
    commands: list[list[str]] = [[]]
    for kind, piece in _pieces(line):
        if kind == "separator":
            commands.append([])
        elif kind not in ("joined", "comment", "quiet"):
            commands[-1].append(piece)
    texts = ("".join(pieces).strip(" \t") for pieces in commands)
    return [text for text in texts if text]


def suspects_in(line: str) -> list[str]:
    """Whatever in it may be a command, for rules that forbid: rather one too many."""
    try:
        parts = [*commands_in(line), line]
    except Unreadable:
        parts = [line, *_ROUGH.split(line)]
    found = [part.strip() for part in parts if part.strip()]
    return found + [_BEFORE_COMMAND.sub("", part, count=1) for part in found if _BEFORE_COMMAND.match(part)]


def _pieces(line: str) -> Iterator[tuple[str, str]]:
    at, before = 0, "separator"
    while at < len(line):
        found = _ONLY_AT_WORD.match(line, at) if before in ("separator", "space") else None
        found = found or _PIECE.match(line, at)
        kind = found.lastgroup if found else None
        if found is None or kind is None or (kind == "hash" and before == "input"):
            raise Unreadable(_WHY.get(line[at], "a redirection to a file"))
        yield kind, found.group()
        at, before = found.end(), before if kind == "joined" else kind
