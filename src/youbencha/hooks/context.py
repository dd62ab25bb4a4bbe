"""The context of hooks, and their results."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from youbencha.errors import YouBenchaError
from youbencha.process import Redactor
from youbencha.spec.variables import REFERENCE
from youbencha.store.bundle import EvaluationError, HookResult, ResultsBundle, TestCaseInfo
from youbencha.text import iso_time


@dataclass(frozen=True, kw_only=True)
class HookContext:
    """The directories, variables and environment of hooks.

    `${NAME}` is one of the hooks' own variables (`RESULTS_PATH` …), else of the hook's `env`, else of the environment
    of youBencha.
    """

    working_dir: Path
    """Where scripts run; their own `working_dir` is relative to it."""
    artifacts_dir: Path
    config_dir: Path
    """The directory of the test case. Relative paths of programs and files start there."""
    variables: Mapping[str, str]
    """The hooks' own variables."""
    env: Mapping[str, str] = field(repr=False)
    """The environment that youBencha runs in. Hooks are the user's own programs, and get all of it."""
    redactor: Redactor = field(repr=False)
    on_note: Callable[[str], None] = lambda _: None
    """Called with notes about the progress."""
    hook_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """`env` of one hook's configuration, references resolved."""

    def for_hook(self, hook_env: Mapping[str, str]) -> HookContext:
        """The context of one hook, with the `env` of its configuration."""
        return replace(self, hook_env={name: self.lenient(value) for name, value in hook_env.items()})

    def lenient(self, text: str) -> str:
        """Substitute variables. An unknown one stays unchanged: it may be meant for the program, such as `bash -c`."""
        return REFERENCE.sub(self._value_or_reference, text)

    def exact(self, text: str, what: str) -> str:
        """Substitute variables. An unknown one is an error: results must not go to an address or file of that name."""
        unknown = [found[2] for found in REFERENCE.finditer(text) if self._value(found) is None]
        if unknown:
            raise YouBenchaError(
                "HOOK_VARIABLE_UNKNOWN",
                f"{what}: ${{{unknown[0]}}} is not defined",
                hint=f"Set {unknown[0]} in the environment, or define it under `variables` in .youbencharc.",
            )
        return self.lenient(text)

    def path(self, text: str, *, start: Path | None = None) -> Path:
        """An absolute path. A relative one starts at `config_dir` unless `start` is given."""
        return (start or self.config_dir).absolute() / Path(text).expanduser()

    def environment(self) -> dict[str, str]:
        """The environment of a program. The hooks' own variables cannot be overridden."""
        return {**self.env, **self.hook_env, **self.variables}

    def _value_or_reference(self, found: re.Match[str]) -> str:
        value = self._value(found)
        return found.group() if value is None else value

    def _value(self, found: re.Match[str]) -> str | None:
        escape, name = found.groups()
        if escape:
            return found.group()[1:]
        return next((each[name] for each in (self.variables, self.hook_env, self.env) if name in each), None)


def pre_execution_variables(test_case: TestCaseInfo, *, workspace_dir: Path, artifacts_dir: Path) -> dict[str, str]:
    """The variables of pre-execution hooks. `workspace_dir` is the directory in which the agent will work."""
    return {
        "WORKSPACE_DIR": str(workspace_dir),
        "REPO_DIR": str(workspace_dir),
        "ARTIFACTS_DIR": str(artifacts_dir),
        "TEST_CASE_NAME": test_case.name,
        "REPO_URL": test_case.repo or "",
        "BRANCH": test_case.branch or "",  # set even if empty, for scripts with `set -u`
    }


def post_evaluation_variables(
    bundle: ResultsBundle, *, workspace_dir: Path, repo_dir: Path, artifacts_dir: Path, results_path: Path
) -> dict[str, str]:
    """The variables of post-evaluation hooks. `workspace_dir` is the directory of the run, `repo_dir` what was judged,
    and `results_path` is `results.json`, which is already written."""
    return {
        "RESULTS_PATH": str(results_path),
        "ARTIFACTS_DIR": str(artifacts_dir),
        "WORKSPACE_DIR": str(workspace_dir),
        "REPO_DIR": str(repo_dir),
        "TEST_CASE_NAME": bundle.test_case.name,
        "OVERALL_STATUS": bundle.summary.overall_status,
    }


@dataclass(frozen=True, kw_only=True)
class HookOutcome:
    """What a hook that succeeded reports."""

    message: str
    metadata: Mapping[str, Any] = field(default_factory=dict)


class HookFailed(YouBenchaError):
    """A hook ran and failed."""

    def __init__(self, code: str, message: str, *, hint: str | None = None, metadata: Mapping[str, Any]) -> None:
        super().__init__(code, message, hint=hint)
        self.metadata = metadata


async def result_of(hook: str, work: Awaitable[HookOutcome], redactor: Redactor) -> HookResult:
    """Turn the outcome of a hook, or any exception, into its result."""
    at, started = time.time(), time.monotonic()
    error = None
    try:
        done = await work
        message, metadata = done.message, done.metadata
    except Exception as raised:  # noqa: BLE001 - a failure must affect neither the run nor the other hooks
        known = raised if isinstance(raised, YouBenchaError) else _unexpected(raised)
        message, metadata = redactor.text(known.message), known.metadata if isinstance(known, HookFailed) else {}
        error = EvaluationError(message=message, code=known.code, hint=known.hint)
    return HookResult(
        hook=hook,
        status="failed" if error else "success",
        message=message,
        duration_ms=round((time.monotonic() - started) * 1000),
        timestamp=iso_time(at),
        metadata=dict(metadata),
        error=error,
    )


def _unexpected(error: Exception) -> YouBenchaError:
    reason = f"{error.strerror}: {error.filename}" if isinstance(error, OSError) and error.filename else str(error)
    return YouBenchaError("HOOK_FAILED", " ".join(f"{type(error).__name__}: {reason}".split()))
