"""Describe one hook run: its directories and variables, and how it ended."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from youbencha.errors import YouBenchaError
from youbencha.log import EvaluationError, HookResult, ResultsBundle, iso_time
from youbencha.process import Redactor
from youbencha.spec.variables import REFERENCE


@dataclass(frozen=True, kw_only=True)
class PreHookPlaces:
    workspace_dir: Path
    """Where the agent will work (`src-modified`): what a hook puts there, the agent finds."""
    artifacts_dir: Path
    config_dir: Path
    """Where the test case's file lies: relative programs are looked for there."""
    test_case: str
    repo_url: str
    """Without credentials."""
    branch: str | None = None

    @property
    def working_dir(self) -> Path:
        """Where a script runs; its own `working_dir` is relative to it."""
        return self.workspace_dir

    def variables(self) -> dict[str, str]:
        return {
            "WORKSPACE_DIR": str(self.workspace_dir),
            "REPO_DIR": str(self.workspace_dir),
            "ARTIFACTS_DIR": str(self.artifacts_dir),
            "TEST_CASE_NAME": self.test_case,
            "REPO_URL": self.repo_url,
            "BRANCH": self.branch or "",  # there, though empty: a script under `set -u` must be able to ask
        }


@dataclass(frozen=True, kw_only=True)
class PostHookPlaces:
    workspace_dir: Path
    """What was judged: `src-modified`, or the directory that `yb eval` looked at."""
    artifacts_dir: Path
    config_dir: Path
    """Where the test case's file lies: scripts run there, and relative paths start there."""
    results_path: Path
    """`results.json`, already written."""

    @property
    def working_dir(self) -> Path:
        return self.config_dir

    def variables(self, bundle: ResultsBundle) -> dict[str, str]:
        return {
            "RESULTS_PATH": str(self.results_path),
            "ARTIFACTS_DIR": str(self.artifacts_dir),
            "WORKSPACE_DIR": str(self.workspace_dir),
            "REPO_DIR": str(self.workspace_dir),
            "TEST_CASE_NAME": bundle.test_case.name,
            "OVERALL_STATUS": bundle.summary.overall_status,
        }


# What `${NAME}` stands for in a hook, and where its relative paths start.
#
# A hook's own variables (`RESULTS_PATH` …) come first, then those of its `env`, then the environment of youBencha.


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


# How a hook's end is told.


@dataclass(frozen=True, kw_only=True)
class HookOutcome:
    """What a hook says of itself when it has done its work."""

    message: str
    metadata: Mapping[str, Any] = field(default_factory=dict)


class HookFailed(YouBenchaError):
    """The hook ran and did not succeed; `metadata` says how far it came."""

    def __init__(self, code: str, message: str, *, hint: str | None = None, metadata: Mapping[str, Any]) -> None:
        super().__init__(code, message, hint=hint)
        self.metadata = metadata


class Stopwatch:
    """Runs from the moment it is made; makes the result when the hook is through."""

    def __init__(self, hook: str) -> None:
        self._hook = hook
        self._at = time.time()
        self._started = time.monotonic()

    def success(self, done: HookOutcome) -> HookResult:
        return HookResult(
            hook=self._hook,
            status="success",
            message=done.message,
            duration_ms=self._duration_ms(),
            timestamp=iso_time(self._at),
            metadata=dict(done.metadata),
        )

    def failure(self, error: Exception, redactor: Redactor) -> HookResult:
        told = error if isinstance(error, YouBenchaError) else _unforeseen(error)
        message = redactor.text(told.message)
        return HookResult(
            hook=self._hook,
            status="failed",
            message=message,
            duration_ms=self._duration_ms(),
            timestamp=iso_time(self._at),
            metadata=dict(told.metadata) if isinstance(told, HookFailed) else {},
            error=EvaluationError(message=message, code=told.code, hint=told.hint),
        )

    def _duration_ms(self) -> int:
        return round((time.monotonic() - self._started) * 1000)


def _unforeseen(error: Exception) -> YouBenchaError:
    reason = f"{error.strerror}: {error.filename}" if isinstance(error, OSError) and error.filename else str(error)
    return YouBenchaError("HOOK_FAILED", " ".join(f"{type(error).__name__}: {reason}".split()))
