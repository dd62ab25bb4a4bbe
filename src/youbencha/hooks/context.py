"""The directories, variables and environment of hooks, and what a hook reports."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from youbencha.errors import YouBenchaError
from youbencha.process import Redactor
from youbencha.spec.variables import REFERENCE
from youbencha.store.bundle import ResultsBundle, TestCaseInfo


@dataclass(frozen=True, kw_only=True)
class HookContext:
    """The directories, variables and environment of hooks.

    `${NAME}` is looked up in the hooks' own variables (`RESULTS_PATH` …), then in the hook's `env`, then in youBencha's
    environment.
    """

    working_dir: Path
    """The directory in which scripts run; their own `working_dir` is relative to it."""
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
        """Return the context of one hook, with the `env` of its configuration."""
        return replace(self, hook_env={name: self.lenient(value) for name, value in hook_env.items()})

    def lenient(self, text: str) -> str:
        """Substitute variables. An unknown one stays unchanged: it may be meant for the program, such as `bash -c`."""
        return REFERENCE.sub(self._value_or_reference, text)

    def exact(self, text: str, key: str) -> str:
        """Substitute variables. An unknown one is an error: results must not go to an address or file of that name."""
        for reference in REFERENCE.finditer(text):
            if self._value(reference) is None:
                raise YouBenchaError(
                    "HOOK_VARIABLE_UNKNOWN",
                    f"The variable {reference[2]} in `{key}` is not defined.",
                    hint=f"Set {reference[2]} in the environment, or define it under `variables` in .youbencharc.",
                )
        return self.lenient(text)

    def path(self, text: str, *, start: Path | None = None) -> Path:
        """Return an absolute path. A relative one starts at `config_dir` unless `start` is given."""
        return (start or self.config_dir).absolute() / Path(text).expanduser()

    def environment(self) -> dict[str, str]:
        """Return the environment of a program. The hooks' own variables cannot be overridden."""
        return {**self.env, **self.hook_env, **self.variables}

    def _value_or_reference(self, reference: re.Match[str]) -> str:
        value = self._value(reference)
        return reference.group() if value is None else value

    def _value(self, reference: re.Match[str]) -> str | None:
        escape, name = reference.groups()
        if escape:
            return reference.group()[1:]
        return next((values[name] for values in (self.variables, self.hook_env, self.env) if name in values), None)


def pre_execution_variables(test_case: TestCaseInfo, *, workspace_dir: Path, artifacts_dir: Path) -> dict[str, str]:
    """Return the variables of pre-execution hooks. `workspace_dir` is the directory in which the agent will work."""
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
    """Return the variables of post-evaluation hooks. `workspace_dir` is the directory of the run, `repo_dir` what was
    judged, and `results_path` is `results.json`, which is already written."""
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
    """What a hook that ran reports."""

    message: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    """The code of its error, if it failed."""
    hint: str | None = None
