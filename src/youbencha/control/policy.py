"""Decide which tools an agent may use.

| rule | covers |
|---|---|
| `Bash` | every use of the tool |
| `Bash(git *)`, `Bash(git:*)` | `git` and `git …`: each command of the line, see `commands_in` |
| `Edit(src/*)` | a main argument: `*` is any text, in paths too |
| `WebFetch(domain:*.example.org)` | a host |
| `mcp__server`, `mcp__server__*` | every tool of a server |
| `*` | every tool |

A policy is for measuring an agent with fewer tools. It is not a security boundary: an allowed program can start any
other. A `deny` rule for a command is a convenience: it matches the plain form, and there are many other spellings.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

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
"""The main argument of each tool, and its kind. For other tools, a rule with an argument never allows, and always
denies."""

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
        return of_server or glob_match(self.tool, tool)

    def forbids(self, tool: str, given: Mapping[str, object], root: str) -> bool:
        """Whether the rule, as a `deny` rule, covers a call; in doubt, yes, except for commands."""
        if not self.names(tool) or self.argument is None:
            return self.names(tool)
        main = _main_argument(tool, given)
        if main is None:
            return True
        kind, value = main
        if kind == _COMMAND:
            return any(_FITS[kind](self.argument, part, root) for part in plain_commands(value))
        return (
            _ambiguous(kind, value) or _FITS[kind](self.argument, value, root) or self._fits_anywhere(kind, value, root)
        )

    def _fits_anywhere(self, kind: str, value: str, root: str) -> bool:
        """Whether a path fits if the directory that it is relative to is unknown."""
        argument = self.argument or ""
        if kind != _PATH or (root and not argument.startswith("~/")):
            return False
        return glob_match(f"*/{argument.removeprefix('~/')}", posixpath.normpath(value))


class Covered(NamedTuple):
    rules: list[str]
    missing: str | None
    """A description of the first part that no rule covers."""


@lru_cache(maxsize=1024)
def parsed(text: str) -> Rule:
    tool, bracket, argument = text.partition("(")
    argument = argument.removesuffix(")")
    return Rule(text, tool, None if not bracket or argument in ("*", ":*") else argument)


def covering(rules: Sequence[Rule], tool: str, given: Mapping[str, object], root: str) -> Covered:
    """Find rules for each part of a call. All given rules have an argument."""
    main = _main_argument(tool, given)
    if main is None:
        return Covered([], "an argument that rules can be about")
    kind, value = main
    if _ambiguous(kind, value):
        return Covered([], f"an address like {_short(value)}")
    try:
        parts = commands_in(value) if kind == _COMMAND else [value]
    except UnparsableCommand as problem:
        return Covered([], f"{problem}, which rules cannot look into")
    used: dict[str, None] = {}
    for part in parts or [value]:
        rule = next((rule for rule in rules if _FITS[kind](rule.argument or "", part, root)), None)
        if rule is None:
            return Covered([], _short(part))
        used[rule.text] = None
    return Covered(list(used), None)


def glob_match(pattern: str, text: str) -> bool:
    """Match a pattern in linear time. `*` is any text, including line ends."""
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
    """`git *` and `git:*` match `git`, with or without arguments."""
    pattern = f"{pattern[:-2]} *" if pattern.endswith(":*") else pattern
    return glob_match(pattern, command) or (pattern.endswith(" *") and glob_match(pattern[:-2], command))


def _fits_path(pattern: str, path: str, root: str) -> bool:
    """Compare normalized paths; otherwise `/workspace/*` would allow `/workspace/../etc`."""
    base = root or "."
    pattern = pattern if pattern.startswith(("*", "~")) else posixpath.normpath(posixpath.join(base, pattern))
    return glob_match(_single_slash(pattern), _single_slash(posixpath.normpath(posixpath.join(base, path))))


def _single_slash(path: str) -> str:
    return f"/{path.lstrip('/')}" if path.startswith("//") else path


def _fits_address(pattern: str, address: str, root: str) -> bool:
    if pattern.startswith(_DOMAIN):
        return glob_match(pattern.removeprefix(_DOMAIN).lower(), _host(address) or "")
    return glob_match(pattern, address)


def _fits_plain(pattern: str, text: str, root: str) -> bool:
    return glob_match(pattern, text)


_FITS: dict[str, Callable[[str, str, str], bool]] = {
    _COMMAND: _fits_command,
    _PATH: _fits_path,
    _ADDRESS: _fits_address,
    _PLAIN: _fits_plain,
}


def _ambiguous(kind: str, value: str) -> bool:
    """Whether programs parse an address differently: for some, a backslash ends the host."""
    return kind == _ADDRESS and ("\\" in value or not value.isprintable() or " " in value or _host(value) is None)


def _host(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


def _short(text: str) -> str:
    return repr(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")


_RULE = re.compile(r"[^\s()]+(?:\(.+\))?", re.DOTALL)


class PolicyDecision(NamedTuple):
    allowed: bool
    reason: str


class ToolPolicy(NamedTuple):
    allow: tuple[str, ...] | None = None
    """None: every tool. Empty: none."""
    deny: tuple[str, ...] = ()
    """Wins over `allow`."""
    root: str = ""
    """The agent's working directory, which relative paths in rules and calls refer to."""

    @property
    def allows_all(self) -> bool:
        return self.allow is None and not self.deny

    def decide(self, tool: str, given: Mapping[str, object]) -> PolicyDecision:
        for text in self.deny:
            if parsed(text).forbids(tool, given, self.root):
                return PolicyDecision(False, f"{tool} is denied by the rule {text}")
        if self.allow is None:
            return PolicyDecision(True, "every tool is allowed" if not self.deny else "no rule denies it")
        rules = [parsed(text) for text in self.allow]
        return self._allowed([rule for rule in rules if rule.names(tool)], tool, given)

    def decide_request(self, tool: str | None, given: object) -> PolicyDecision:
        """Decide about a request, valid or not. Never raises: a CLI that gets an error as its answer uses the tool."""
        if not tool:
            return PolicyDecision(False, "the request names no tool")
        if not isinstance(given, Mapping):
            return PolicyDecision(False, "the tool's input is not an object")
        try:
            return self.decide(tool, given)
        except Exception as error:  # noqa: BLE001
            return PolicyDecision(False, f"it could not be decided: {type(error).__name__}")

    def _allowed(self, rules: list[Rule], tool: str, given: Mapping[str, object]) -> PolicyDecision:
        if not rules:
            return PolicyDecision(False, f"no rule allows {tool}")
        whole = next((rule for rule in rules if rule.argument is None), None)
        if whole is not None:
            return PolicyDecision(True, f"{tool} is allowed by the rule {whole}")
        found = covering(rules, tool, given, self.root)
        if found.missing is not None:
            return PolicyDecision(False, f"no rule allows {tool} with {found.missing}")
        return PolicyDecision(True, f"{tool} is allowed by the rule {' and '.join(found.rules)}")


ALLOW_ALL = ToolPolicy()


def rule_error(rule: str) -> str | None:
    """Return what is wrong with a rule, or None."""
    if not rule.strip():
        return "a rule is empty"
    if rule != rule.strip():
        return f"the rule {rule!r} begins or ends with a space"
    if _RULE.fullmatch(rule):
        return None
    if "(" in rule or ")" in rule:
        return f"the rule {rule!r} is not of the form Tool(argument)"
    return f"the rule {rule!r} has a space in the tool's name: for an argument write Tool(argument)"


# Split a line of shell into its simple commands, for rules that check each of them.
#
# This is not a complete shell parser: what cannot be parsed with certainty is an `UnparsableCommand`, and a rule with
# an argument does not allow it. Quotes, comments and escapes are parsed, because a command hidden in them would bypass
# the rules.

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
"""A digit before `>` belongs to the redirection only at the start of a word: not in `foo2>…`."""

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


class UnparsableCommand(Exception):
    """Its message names what cannot be parsed."""


def commands_in(line: str) -> list[str]:
    """The simple commands, without comments and redirections to /dev/null. Raises `UnparsableCommand`."""
    commands: list[list[str]] = [[]]
    for kind, piece in _pieces(line):
        if kind == "separator":
            commands.append([])
        elif kind not in ("joined", "comment", "quiet"):
            commands[-1].append(piece)
    texts = ("".join(pieces).strip(" \t") for pieces in commands)
    return [text for text in texts if text]


def plain_commands(line: str) -> list[str]:
    """The commands of the line, for `deny` rules; the whole line if it cannot be parsed."""
    try:
        return commands_in(line)
    except UnparsableCommand:
        return [line.strip()]


def _pieces(line: str) -> Iterator[tuple[str, str]]:
    at, before = 0, "separator"
    while at < len(line):
        found = _ONLY_AT_WORD.match(line, at) if before in ("separator", "space") else None
        found = found or _PIECE.match(line, at)
        kind = found.lastgroup if found else None
        if found is None or kind is None or (kind == "hash" and before == "input"):
            raise UnparsableCommand(_WHY.get(line[at], "a redirection to a file"))
        yield kind, found.group()
        at, before = found.end(), before if kind == "joined" else kind
