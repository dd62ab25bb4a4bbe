"""What `${NAME}` stands for in a hook, and where its relative paths start.

A hook's own variables (`RESULTS_PATH` …) come first, then those of its `env`, then the environment of youBencha.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.spec.variables import REFERENCE


@dataclass(frozen=True)
class Scope:
    own: Mapping[str, str]
    """The hook's variables."""
    outer: Mapping[str, str]
    """The environment that youBencha itself runs in. Hooks are their writer's own programs: they get all of it."""
    config_dir: Path
    env: Mapping[str, str]
    """What the hook's configuration adds, references resolved."""

    @classmethod
    def of(
        cls,
        own: Mapping[str, str],
        outer: Mapping[str, str],
        config_dir: Path,
        *,
        env: Mapping[str, str] | None = None,
    ) -> Scope:
        bare = cls(own, outer, config_dir, {})
        return cls(own, outer, config_dir, {name: bare.lenient(value) for name, value in (env or {}).items()})

    def lenient(self, text: str) -> str:
        """An unknown reference stays as it is: it may be meant for the program, `bash -c` say."""
        return REFERENCE.sub(self._value_or_as_it_is, text)

    def exact(self, text: str, what: str) -> str:
        """An unknown reference is an error: results must not go to an address or a file of that odd name."""
        unknown = [found[2] for found in REFERENCE.finditer(text) if self._value(found) is None]
        if unknown:
            raise YouBenchaError(
                "HOOK_VARIABLE_UNKNOWN",
                f"{what}: ${{{unknown[0]}}} is not defined",
                hint=f"Set {unknown[0]} in the environment, or define it under `variables` in .youbencharc.",
            )
        return self.lenient(text)

    def path(self, text: str, *, start: Path | None = None) -> Path:
        """Absolute. Relative paths start at the test case's file unless something else is said."""
        return (start or self.config_dir).absolute() / Path(text).expanduser()

    def environment(self) -> dict[str, str]:
        """For a program. The hook's own variables cannot be overridden: what they say is so."""
        return {**self.outer, **self.env, **self.own}

    def _value_or_as_it_is(self, found: re.Match[str]) -> str:
        value = self._value(found)
        return found.group() if value is None else value

    def _value(self, found: re.Match[str]) -> str | None:
        escape, name = found.groups()
        if escape:
            return found.group()[1:]
        return next((each[name] for each in (self.own, self.env, self.outer) if name in each), None)
