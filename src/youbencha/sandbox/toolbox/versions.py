"""Version numbers: which texts are one, which comes first, and which one a CLI says it is."""

from __future__ import annotations

import re
from collections.abc import Iterable

from youbencha.errors import YouBenchaError

LATEST = "latest"

# A version becomes the name of a directory: a digit first, and no separators, so that it cannot leave its parent.
_VERSION = re.compile(r"\d+(\.\d+)*([-.+]?[0-9A-Za-z]+)*", re.ASCII)
_PRINTED = re.compile(r"\d+(?:\.\d+)+(?:[-+][0-9A-Za-z]+(?:\.[0-9A-Za-z]+)*)?", re.ASCII)
_NUMBERS = re.compile(r"\d+(\.\d+)*", re.ASCII)
_LONGEST = 64

_Part = tuple[int, int, str]
SortKey = tuple[tuple[int, ...], bool, tuple[_Part, ...]]


def is_version(text: str) -> bool:
    return len(text) <= _LONGEST and _VERSION.fullmatch(text) is not None


def wanted_version(text: str | None) -> str | None:
    """What a person asked for: a version, or None for the newest."""
    if text is None or text == LATEST:
        return None
    if not is_version(text):
        raise YouBenchaError(
            "AGENT_VERSION_INVALID",
            f"{text!r} is not a version",
            hint="Give a number such as 2.0.62, or `latest`.",
        )
    return text


def sort_key(version: str) -> SortKey:
    """2.0.9 < 2.0.10-beta.2 < 2.0.10-beta.10 < 2.0.10."""
    head = _NUMBERS.match(version)
    numbers = head.group() if head else ""
    rest = version[len(numbers) :]
    return (
        tuple(int(part) for part in numbers.split(".") if part),
        not rest or rest.startswith("+"),
        tuple(_part(part) for part in re.split(r"[-.+]", rest) if part),
    )


def _part(text: str) -> _Part:
    return (0, int(text), "") if text.isdecimal() else (1, 0, text)


def newest_first(versions: Iterable[str]) -> list[str]:
    return sorted(versions, key=sort_key, reverse=True)


def printed_version(output: str) -> str | None:
    """The version in what `--version` printed: `2.0.62 (Claude Code)`, `codex-cli 0.166.0`, `aider 0.86.2`."""
    found = _PRINTED.search(output)
    return found.group() if found else None
