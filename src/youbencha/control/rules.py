"""One rule about tools, and whether a call falls under it."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

from youbencha.control.shell import Unreadable, commands_in, suspects_in

_COMMAND, _PATH, _ADDRESS, _PLAIN = "command", "path", "address", "plain"
_ARGUMENTS: dict[str, tuple[str, str]] = {
    "Bash": ("command", _COMMAND),
    "Read": ("file_path", _PATH),
    "Write": ("file_path", _PATH),
    "Edit": ("file_path", _PATH),
    "MultiEdit": ("file_path", _PATH),
    "NotebookEdit": ("notebook_path", _PATH),
    "LS": ("path", _PATH),
    "Glob": ("pattern", _PLAIN),
    "Grep": ("pattern", _PLAIN),
    "WebFetch": ("url", _ADDRESS),
    "WebSearch": ("query", _PLAIN),
    "Task": ("subagent_type", _PLAIN),
    "Agent": ("subagent_type", _PLAIN),
    "Skill": ("skill", _PLAIN),
    "SlashCommand": ("command", _PLAIN),
}
"""What a rule's argument is about. Of other tools nobody knows: such a rule never allows them, and always denies."""
_DOMAIN = "domain:"
_LONGEST = 80


class Rule(NamedTuple):
    text: str
    tool: str
    argument: str | None

    def __str__(self) -> str:
        return self.text

    def names(self, tool: str) -> bool:
        of_server = self.tool.startswith("mcp__") and tool.startswith(f"{self.tool}__")
        return of_server or like(self.tool, tool)

    def forbids(self, tool: str, given: Mapping[str, object], root: str) -> bool:
        """In doubt, yes."""
        if not self.names(tool) or self.argument is None:
            return self.names(tool)
        main = _main_argument(tool, given)
        if main is None:
            return True
        kind, value = main
        if kind == _COMMAND:
            return any(_FITS[kind](self.argument, part, root) for part in suspects_in(value))
        return _odd(kind, value) or _FITS[kind](self.argument, value, root) or self._anywhere(kind, value, root)

    def _anywhere(self, kind: str, value: str, root: str) -> bool:
        """A path that is relative to a place nobody told."""
        argument = self.argument or ""
        if kind != _PATH or (root and not argument.startswith("~/")):
            return False
        return like(f"*/{argument.removeprefix('~/')}", posixpath.normpath(value))


class Covered(NamedTuple):
    rules: list[str]
    missing: str | None
    """The first thing that no rule covers, in words."""


@lru_cache(maxsize=1024)
def parsed(text: str) -> Rule:
    tool, bracket, argument = text.partition("(")
    argument = argument.removesuffix(")")
    return Rule(text, tool, None if not bracket or argument in ("*", ":*") else argument)


def covering(rules: Sequence[Rule], tool: str, given: Mapping[str, object], root: str) -> Covered:
    """Each part of what is asked for has to fall under one of the rules, all of which have an argument."""
    main = _main_argument(tool, given)
    if main is None:
        return Covered([], "an argument that rules can be about")
    kind, value = main
    if _odd(kind, value):
        return Covered([], f"an address like {_short(value)}")
    try:
        parts = commands_in(value) if kind == _COMMAND else [value]
    except Unreadable as problem:
        return Covered([], f"{problem}, which rules cannot look into")
    used: dict[str, None] = {}
    for part in parts or [value]:
        rule = next((rule for rule in rules if _FITS[kind](rule.argument or "", part, root)), None)
        if rule is None:
            return Covered([], _short(part))
        used[rule.text] = None
    return Covered(list(used), None)


def like(pattern: str, text: str) -> bool:
    """`*` is any text, line ends included. In one pass, however long the text is."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    *middle, last = rest
    if not text.startswith(first) or not text.endswith(last) or len(text) < len(first) + len(last):
        return False
    at, end = len(first), len(text) - len(last)
    for piece in middle:
        found = text.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def _main_argument(tool: str, given: Mapping[str, object]) -> tuple[str, str] | None:
    key, kind = _ARGUMENTS.get(tool, ("", ""))
    value = given.get(key)
    return (kind, value) if kind and isinstance(value, str) else None


def _fits_command(pattern: str, command: str, root: str) -> bool:
    """`git *` and `git:*` mean the word `git`, with or without more."""
    pattern = f"{pattern[:-2]} *" if pattern.endswith(":*") else pattern
    return like(pattern, command) or (pattern.endswith(" *") and like(pattern[:-2], command))


def _fits_path(pattern: str, path: str, root: str) -> bool:
    """After `..` is taken out, or `/workspace/*` would allow `/workspace/../etc`."""
    base = root or "."
    pattern = pattern if pattern.startswith(("*", "~")) else posixpath.normpath(posixpath.join(base, pattern))
    return like(_single(pattern), _single(posixpath.normpath(posixpath.join(base, path))))


def _single(path: str) -> str:
    return f"/{path.lstrip('/')}" if path.startswith("//") else path


def _fits_address(pattern: str, address: str, root: str) -> bool:
    if pattern.startswith(_DOMAIN):
        return like(pattern.removeprefix(_DOMAIN).lower(), _host(address) or "")
    return like(pattern, address)


def _fits_plain(pattern: str, text: str, root: str) -> bool:
    return like(pattern, text)


_FITS: dict[str, Callable[[str, str, str], bool]] = {
    _COMMAND: _fits_command,
    _PATH: _fits_path,
    _ADDRESS: _fits_address,
    _PLAIN: _fits_plain,
}


def _odd(kind: str, value: str) -> bool:
    """Addresses that programs read differently: to some, a backslash ends the host."""
    return kind == _ADDRESS and ("\\" in value or not value.isprintable() or " " in value or _host(value) is None)


def _host(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


def _short(text: str) -> str:
    return repr(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")
