"""Make the test runners of a task report each test by its name, and run only the tests that count."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from youbencha.sandbox.base import Sandbox
from youbencha.scoring.test_output import TestId

SELECT_BY_NAME = frozenset({"go", "cargo"})
"""Runners that can be told which tests to run. Others can be told which files to leave out."""

_HOOKS = "youbencha.evaluators.validation.runner_hooks"
_CARGO_HOOK = "youbencha-cargo"
_HOOK_DIRECTORIES = {
    "sitecustomize.py": "python",
    _CARGO_HOOK: "programs",
    "node.cjs": "node",
    "mocha.cjs": "node",
    "jest-filter.cjs": "node",
}
"""The directory of each file. Those of the first two are in PYTHONPATH and PATH."""
_MAX_OPTION_CHARS = 100_000
"""Length of the options in a variable, which can hold 131,071 bytes."""
_GO_TEST = re.compile(r"((?:Test|Example|Fuzz)\w*)(?:/.*)?", re.DOTALL)
_CARGO_TARGETS = tuple(
    f"{cpu}_{system}"
    for cpu in ("AARCH64", "X86_64")
    for system in ("UNKNOWN_LINUX_GNU", "UNKNOWN_LINUX_MUSL", "APPLE_DARWIN")
)


@dataclass(frozen=True, kw_only=True)
class TestSelection:
    """Which tests run, as far as their runners can be told."""

    left_out: frozenset[str] = frozenset()
    """Files in which no test counts, relative to the tree."""
    names: Collection[TestId] | None = None
    """The tests that count, for runners that select by name. None: all run."""


class RunnerHooks:
    """Files that change what test runners do, and a directory for their reports, both shared with a sandbox."""

    def __init__(self, scratch_dir: Path, tree: Path, sandbox: Sandbox) -> None:
        unique = os.urandom(8).hex()
        self._tree, self._sandbox = tree, sandbox
        self._hooks = Path(scratch_dir, f"hooks-{unique}")
        self.reports_dir = Path(scratch_dir, f"reports-{unique}")
        self.reports_dir.mkdir(parents=True)
        for name, directory in _HOOK_DIRECTORIES.items():
            path = self._hooks / directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes((files(_HOOKS) / name).read_bytes())
            path.chmod(0o755)
        sandbox.share(self._hooks)
        sandbox.share(self.reports_dir, writable=True)

    def environment(
        self, step: str, env: Mapping[str, str], selection: TestSelection, canary: str | None
    ) -> dict[str, str]:
        """Return variables that make runners report to files whose names begin with `step`, and select tests.

        Tests with `canary` in their names are always selected.
        """
        hooks, report = self._sandbox.inside(self._hooks), f"{self._sandbox.inside(self.reports_dir)}/{step}-"
        left_out = [self._sandbox.inside(self._tree / path) for path in sorted(selection.left_out)]
        (self._hooks / f"{step}-left-out.json").write_text(json.dumps(left_out))
        # pytest does not collect what is left out: a file that it cannot load would end the run of all others.
        ignoring = shlex.join(f"--ignore={path}" for path in left_out if path.endswith(".py"))
        pytest = f"-o junit_family=xunit1 {shlex.quote(f'--junit-xml={report}pytest.xml')}"
        added = {
            "PYTEST_ADDOPTS": f"{pytest} {ignoring}".strip() if len(ignoring) < _MAX_OPTION_CHARS else pytest,
            "NODE_OPTIONS": f'--require "{hooks}/node/node.cjs"',
            "GOFLAGS": " ".join(("-test.v", *_go_options(selection, canary))),
        }
        extended = {name: f"{env.get(name, '')} {value}".strip() for name, value in added.items()}
        python_path = os.pathsep.join(filter(None, (f"{hooks}/python", env.get("PYTHONPATH"))))
        return {
            **extended,
            **self._cargo_environment(step, env, selection, canary),
            "PYTHONPATH": python_path,
            "YOUBENCHA_TEST_REPORT": report,
            "YOUBENCHA_LEFT_OUT": f"{hooks}/{step}-left-out.json",
        }

    def _cargo_environment(
        self, step: str, env: Mapping[str, str], selection: TestSelection, canary: str | None
    ) -> Mapping[str, str]:
        if selection.names is None:
            return {}
        hooks, counted = self._sandbox.inside(self._hooks), f"{step}-counted-tests.txt"
        (self._hooks / counted).write_text("".join(f"{test.name}\n" for test in selection.names), encoding="utf-8")
        runners = {f"CARGO_TARGET_{target}_RUNNER": _CARGO_HOOK for target in _CARGO_TARGETS}
        return {
            **{name: runner for name, runner in runners.items() if name not in env},
            # The runners are found here: cargo would split their path at its spaces.
            "PATH": f"{hooks}/programs{os.pathsep}{env.get('PATH', os.defpath)}",
            "YOUBENCHA_COUNTED_TESTS": f"{hooks}/{counted}",
            "YOUBENCHA_CANARY": canary or "",
        }


def _go_options(selection: TestSelection, canary: str | None) -> Iterator[str]:
    """With `test.`, options are for `go test` alone: a test may start `go run`, and read what it prints."""
    names = {match[1] for test in selection.names or () if (match := _GO_TEST.fullmatch(test.name))}
    pattern = "|".join((f"^({'|'.join(sorted(names))})$", *([canary] if canary else ())))
    if names and len(pattern) < _MAX_OPTION_CHARS:
        yield f"-test.run={pattern}"
