"""Split what an agent ran in a shell into simple commands, as far as that is possible without running it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import islice, pairwise, takewhile
from typing import NamedTuple

LONGEST = 20_000
"""Characters of a script. What comes after them is not looked at."""

_MOST_COMMANDS = 1_000
_DEEPEST = 4
_OPERATORS = ";&|()<>\n"
_WRAPPERS = frozenset(
    (
        *("if", "then", "elif", "else", "do", "while", "until", "!", "{", "}", "time", "exec", "command", "builtin"),
        *("nohup", "sudo", "doas", "env", "xargs", "timeout", "nice", "stdbuf"),
    )
)
"""Words before the program that is run."""

_RUNNERS = frozenset(("uv", "poetry", "pipenv", "pdm", "hatch", "rye"))
"""`uv run pytest` runs pytest."""

_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh"))
_INTERPRETERS = frozenset(("python", "node", "ruby", "perl", "deno", "bun"))
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_WRAPPER_ARGUMENT = re.compile(r"-|[0-9.]+[smhd]?$")
_VERSION = re.compile(r"(python|pip|node|ruby|perl)[0-9.]+")
_INLINE_CODE = re.compile(r"-[A-Za-z]*c|-e|--eval|-p|--print")
_SUBSTITUTION = re.compile(r"\$\(([^()]{1,2000})\)|`([^`]{1,2000})`")
_OPERATOR = re.compile(r"[;&|()<>\n]+")
_REDIRECTION = re.compile(r"&?[<>]{1,3}[&|]?")
_WORD = re.compile(r"[;&|()<>\n]+|[^\s;&|()<>]+")
_HERE_DOCUMENT = re.compile(r"<<-?[ \t]{0,9}(['\"]?)(\w{1,60})\1")


class SimpleCommand(NamedTuple):
    """One program and its arguments."""

    program: str
    """Without its directory and version: `pip` for `/usr/bin/python3 -m pip`."""
    arguments: tuple[str, ...]
    written: tuple[str, ...] = ()
    """Files that its output is redirected to."""
    code: str | None = None
    """What an interpreter gets with -c or -e, or as a here-document."""

    @property
    def line(self) -> str:
        return " ".join((self.program, *self.arguments))


class _Words(NamedTuple):
    words: list[str]
    written: list[str]


class _Section(NamedTuple):
    """Lines of a script, up to the end of a here-document."""

    text: str
    document: str | None = None


def simple_commands(script: str) -> list[SimpleCommand]:
    """All simple commands of a script, those in `bash -c` and in substitutions included."""
    return list(islice(_commands_in(script[:LONGEST], 0), _MOST_COMMANDS))


def _commands_in(script: str, depth: int) -> Iterator[SimpleCommand]:
    if depth > _DEEPEST:
        return
    for section in _sections(script):
        for words, written in _split(section.text):
            command = _command(words, tuple(written), section.document)
            if command is not None:
                yield command
                if command.program in _SHELLS and command.code is not None:
                    yield from _commands_in(command.code, depth + 1)
            for found in _SUBSTITUTION.finditer(" ".join(words)):
                yield from _commands_in(found[1] or found[2], depth + 1)


def _sections(script: str) -> Iterator[_Section]:
    """Lines stay together up to a here-document, because quotes may span several."""
    lines = iter(script.split("\n"))
    text: list[str] = []
    for line in lines:
        text.append(line)
        begin = _HERE_DOCUMENT.search(line)
        if begin:
            document = "\n".join(_up_to(begin[2], lines))
            yield _Section("\n".join(text), document)
            text = []
    yield _Section("\n".join(text))


def _up_to(end: str, lines: Iterator[str]) -> Iterator[str]:
    return takewhile(lambda line: line.strip() != end, lines)


def _split(text: str) -> Iterator[_Words]:
    current = _Words([], [])
    tokens = iter(_tokens(text))
    for token in tokens:
        if token.startswith("#"):
            token = next((each for each in tokens if _OPERATOR.fullmatch(each) and "\n" in each), "\n")
        if _REDIRECTION.fullmatch(token):
            if current.words and current.words[-1].isdecimal():
                current.words.pop()  # of `2>`
            target = next(tokens, "")
            if ">" in token and not target.isdecimal():
                current.written.append(target)
        elif _OPERATOR.fullmatch(token):
            yield current
            current = _Words([], [])
        else:
            current.words.append(token)
    yield current


def _tokens(text: str) -> list[str]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    try:
        return list(lexer)
    except ValueError:  # a quote that does not end
        return _WORD.findall(text)


def _command(words: list[str], written: tuple[str, ...], document: str | None) -> SimpleCommand | None:
    words = _unwrapped(words)
    if not words:
        return SimpleCommand("", (), written) if written else None
    program = words[0].rpartition("/")[2]
    if version := _VERSION.fullmatch(program):
        program = version[1]
    arguments = words[1:]
    if program == "python" and (module := _module(arguments)):
        return _command(module, written, document)
    if program in _RUNNERS and arguments[:1] in (["run"], ["pip"]):
        return _command(arguments[1:] if arguments[0] == "run" else arguments, written, document)
    code = _code(arguments) or document if program in _SHELLS | _INTERPRETERS else None
    return SimpleCommand(program, tuple(arguments), written, code)


def _module(arguments: list[str]) -> list[str]:
    """The words after `-m`, if only options are before it."""
    options = len(list(takewhile(lambda word: word.startswith("-") and word != "-m", arguments)))
    return arguments[options + 1 :] if arguments[options : options + 1] == ["-m"] else []


def _unwrapped(words: list[str]) -> list[str]:
    wrapped = False
    for at, word in enumerate(words):
        if word in _WRAPPERS:
            wrapped = True
        elif not _ASSIGNMENT.match(word) and not (wrapped and _WRAPPER_ARGUMENT.match(word)):
            return words[at:]
    return []


def _code(arguments: list[str]) -> str | None:
    return next((code for option, code in pairwise(arguments) if _INLINE_CODE.fullmatch(option)), None)
