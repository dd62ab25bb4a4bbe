"""The errors that youBencha raises.

An error has a message, a hint about what to do next, and a stable code for programs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

ProblemKind = Literal["invalid", "unknown_key"]
"""The kind of a problem, for programs."""

Step = str | int
KeyPath = tuple[Step, ...]
"""The path to a part of a document: keys of mappings, and indexes of lists."""


def dotted(path: Sequence[Step]) -> str:
    return ".".join(map(str, path))


class YouBenchaError(Exception):
    """An error with a message for the user, a hint and a code."""

    def __init__(
        self, code: str, message: str, *, hint: str | None = None, context: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.context: Mapping[str, Any] = dict(context or {})

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


@dataclass(frozen=True, init=False)
class Problem:
    """One problem in a file or in options."""

    keys: KeyPath
    """The path to it, whose keys may contain dots; empty for the whole document."""
    message: str
    hint: str | None
    line: int | None
    column: int | None
    file: Path | None = field(compare=False)
    kind: ProblemKind

    def __init__(
        self,
        keys: KeyPath | str,
        message: str,
        hint: str | None = None,
        line: int | None = None,
        column: int | None = None,
        file: Path | None = None,
        kind: ProblemKind = "invalid",
    ) -> None:
        """Create a problem. `keys` may also be a single key, or an empty string for the whole document."""
        if isinstance(keys, str):
            keys = (keys,) if keys else ()
        vars(self).update(keys=keys, message=message, hint=hint, line=line, column=column, file=file, kind=kind)

    @property
    def path(self) -> str:
        """Return the keys as they are shown in messages: `agent.config.prompt`."""
        return dotted(self.keys)

    def __str__(self) -> str:
        where = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        subject = f"{self.path}: " if self.path else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{where + ': ' if where else ''}{subject}{self.message}{hint}"


class ConfigError(YouBenchaError):
    """A file or a set of options is invalid. Lists all problems."""

    def __init__(
        self, code: str, what: str, problems: Sequence[Problem], *, hint: str | None = None, verb: str = "has"
    ) -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        title = f"{what} {verb} {count} problem{'s' if count != 1 else ''}:"
        lines = "".join(f"\n  - {problem}" for problem in self.problems)
        super().__init__(code, title + lines, hint=hint)
