"""What the test command of a validation reports, and the hooks that make test runners report each test by its name."""

from __future__ import annotations

import json
import os
import posixpath
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from youbencha.evaluators.junit import LARGEST_REPORT, MOST_REPORTS, Stamp, Unusable, read_cases, reports
from youbencha.files import read_untrusted
from youbencha.sandbox.base import Sandbox
from youbencha.scoring.reward import Reward
from youbencha.scoring.test_output import (
    TestCounts,
    TestId,
    TestResult,
    TestResults,
    collect_results,
    parse_test_output,
)
from youbencha.workspace.trees import TreeFile

EXIT_CODE = "exit code"
"""The source of a command that reports nothing: it is one test, which passes if its exit code is 0."""

XML_FILES = ("**/*.xml",)
_MAX_OPTIONS = 100_000
"""A variable can hold 131,071 bytes."""
_HOOKS = "youbencha.evaluators.validation.runner_hooks"
_PYTHON_HOOK, _NODE_HOOKS = "sitecustomize.py", ("node.cjs", "mocha.cjs")
_JEST_RESULTS: dict[str, TestResult] = {
    "passed": "passed",
    "failed": "failures",
    "pending": "skipped",
    "skipped": "skipped",
    "todo": "skipped",
    "disabled": "skipped",
}


class Report(NamedTuple):
    """The tests of one source."""

    source: str
    counts: TestCounts
    results: TestResults | None
    """By test. None: only the numbers are known."""


@dataclass(frozen=True, kw_only=True)
class RunReports:
    """What a test command reported."""

    exit_code: int | None
    requested: tuple[Report, ...] = ()
    """Reports that test runners wrote at our request: pytest, unittest, vitest, jest, mocha."""
    junit: tuple[Report, ...] = ()
    """JUnit reports that the command wrote into the tree."""
    printed: Report | None = None
    reward: Reward | None = None
    """What the command wrote to the file that the task names."""

    @property
    def _by_trust(self) -> tuple[tuple[Report, ...], ...]:
        return self.requested, self.junit, (self.printed,) if self.printed else ()

    @property
    def sources(self) -> frozenset[str]:
        """The names of the sources that count: the most trustworthy ones that there are."""
        best = next(filter(None, self._by_trust), ())
        return frozenset(report.source for report in best)

    def report(self, accepted: frozenset[str]) -> Report | None:
        """The tests, of accepted sources only. Without any, all are, and a command that reports nothing is one test."""
        if accepted == {EXIT_CODE}:
            return self.exit_code_report
        for group in self._by_trust:
            if chosen := [report for report in group if not accepted or report.source in accepted]:
                return _combine(chosen)
        return None if accepted else self.exit_code_report

    @property
    def exit_code_report(self) -> Report:
        result: TestResult = "passed" if self.exit_code == 0 else "failures"
        return Report(EXIT_CODE, TestCounts.of_results([result]), {TestId(EXIT_CODE): result})

    def without_test(self, name: str) -> RunReports:
        """The same without the tests that have this in their names."""
        return replace(
            self,
            requested=tuple(_without(report, name) for report in self.requested),
            junit=tuple(_without(report, name) for report in self.junit),
            printed=self.printed and _without(self.printed, name),
        )

    def foreign_reports(self, accepted: frozenset[str]) -> list[str]:
        """Reports in the tree that a run of the untouched task does not write."""
        return [report.source for report in self.junit if accepted and report.source not in accepted]


def _without(report: Report, name: str) -> Report:
    if report.results is None:
        return report
    results = {test: result for test, result in report.results.items() if name not in test.name}
    return Report(report.source, TestCounts.of_results(results.values()), results)


def _combine(chosen: list[Report]) -> Report:
    if len(chosen) == 1:
        return chosen[0]
    results = [report.results for report in chosen if report.results is not None]
    return Report(
        " and ".join(report.source for report in chosen),
        TestCounts.total(report.counts for report in chosen),
        collect_results(item for part in results for item in part.items()) if len(results) == len(chosen) else None,
    )


def _named(source: str, tests: list[tuple[TestId, TestResult]]) -> Report:
    return Report(source, TestCounts.of_results(result for _, result in tests), collect_results(tests))


class ReportHooks:
    """Files that make test runners report each test, and where they report it, both shared with a sandbox."""

    def __init__(self, scratch_dir: Path, sandbox: Sandbox) -> None:
        unique = os.urandom(8).hex()
        self._sandbox = sandbox
        self._hooks, self._reports = Path(scratch_dir, f"hooks-{unique}"), Path(scratch_dir, f"reports-{unique}")
        for directory in (self._hooks / "python", self._reports):
            directory.mkdir(parents=True)
        hooks = files(_HOOKS)
        (self._hooks / "python" / _PYTHON_HOOK).write_bytes((hooks / _PYTHON_HOOK).read_bytes())
        for name in _NODE_HOOKS:
            (self._hooks / name).write_bytes((hooks / name).read_bytes())
        sandbox.share(self._hooks)
        sandbox.share(self._reports, writable=True)

    def environment(self, step: str, env: Mapping[str, str], ignored: Iterable[str] = ()) -> dict[str, str]:
        """Variables that make pytest, unittest, vitest, jest and mocha write reports, and go name its tests.

        pytest does not collect the files `ignored`: one that it cannot load would end the run of all others.
        """
        hooks, report = self._sandbox.inside(self._hooks), f"{self._sandbox.inside(self._reports)}/{step}-"
        ignoring = shlex.join(f"--ignore={path}" for path in ignored)
        pytest = f"-o junit_family=xunit1 {shlex.quote(f'--junit-xml={report}pytest.xml')}"
        added = {
            "PYTEST_ADDOPTS": f"{pytest} {ignoring}".strip() if len(ignoring) < _MAX_OPTIONS else pytest,
            "NODE_OPTIONS": f'--require "{hooks}/node.cjs"',
            "GOFLAGS": "-v",
        }
        variables = {name: f"{env.get(name, '')} {value}".strip() for name, value in added.items()}
        python_path = os.pathsep.join(filter(None, (f"{hooks}/python", env.get("PYTHONPATH"))))
        return {**variables, "PYTHONPATH": python_path, "YOUBENCHA_TEST_REPORT": report}

    def read(
        self, step: str, tree: Path, before: Mapping[TreeFile, Stamp], exit_code: int | None, printed: str
    ) -> RunReports:
        """Everything that a test command reported. JUnit reports in `before` were there already."""
        written = sorted(file for file, stamp in reports(tree, XML_FILES).items() if before.get(file) != stamp)
        in_tree = (_junit(file.tree, file.path, f"junit:{file.path}") for file in written[:MOST_REPORTS])
        parsed = parse_test_output(printed)
        if (
            parsed is not None
            and parsed.results is None
            and parsed.counts.passed == parsed.counts.ran
            and exit_code != 0
        ):
            parsed = None  # numbers alone, and it says that nothing failed: something killed it, or lies
        return RunReports(
            exit_code=exit_code,
            requested=tuple(self._requested(step, tree)),
            junit=tuple(report for report in in_tree if report),
            printed=Report(*parsed) if parsed else None,
        )

    def _requested(self, step: str, tree: Path) -> Iterator[Report]:
        inside = self._sandbox.inside(tree)
        for path in sorted(self._reports.glob(f"{step}-pytest*.xml"))[:MOST_REPORTS]:
            if pytest := _junit(self._reports, path.name, "pytest"):
                directory = _read(self._reports, f"{path.name}.directory").decode(errors="replace")
                yield _in_tree(pytest, tree, _relative(directory, inside))
        if unittest := list(_in_unittest_report(_read(self._reports, f"{step}-unittest.jsonl"), inside)):
            yield _named("unittest", unittest)
        for path in sorted(self._reports.glob(f"{step}-node-*.json"))[:MOST_REPORTS]:
            yield _named("node", list(_in_jest_report(_read(self._reports, path.name), inside)))


def _read(directory: Path, name: str) -> bytes:
    try:
        return read_untrusted(directory, name, LARGEST_REPORT)
    except OSError:
        return b""


def _junit(root: Path, name: str, source: str) -> Report | None:
    """A JUnit report; None if it is another file, or unusable."""
    try:
        return _named(source, read_cases(_read(root, name)))
    except Unusable:
        return None


def _decoded(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _relative(path: str, tree: str) -> str:
    """A path relative to the tree, if it is in there."""
    return posixpath.relpath(path, tree) if path == tree or path.startswith(f"{tree}/") else path


def _in_tree(report: Report, tree: Path, directory: str) -> Report:
    """A report of pytest, whose files are relative to its root: the directory in which it ran, or one above."""
    roots = [PurePosixPath(directory), *PurePosixPath(directory).parents]

    def located(test: TestId) -> TestId:
        paths = (str(root / test.file) for root in roots if test.file is not None)
        return replace(test, file=next((path for path in paths if os.path.lexists(tree / path)), test.file))

    return _named(report.source, [(located(test), result) for test, result in (report.results or {}).items()])


def _in_unittest_report(text: bytes, tree: str) -> Iterator[tuple[TestId, TestResult]]:
    for line in text.splitlines():
        match _decoded(line):
            case {
                "name": str(name),
                "file": str() | None as file,
                "result": "passed" | "failures" | "errors" | "skipped" as result,
            }:
                yield TestId(name, file=file and _relative(file.replace("\\", "/"), tree)), result


def _in_jest_report(text: bytes, tree: str) -> Iterator[tuple[TestId, TestResult]]:
    """The JSON of jest, which vitest writes, too. A file that could not be loaded is an error."""
    match _decoded(text):
        case {"testResults": [*suites]}:
            for suite in suites:
                yield from _in_jest_suite(suite, tree)


def _in_jest_suite(suite: object, tree: str) -> Iterator[tuple[TestId, TestResult]]:
    match suite:
        case {"name": str(path), "assertionResults": [*tests], **rest}:
            file = _relative(path, tree)
            if not tests and rest.get("status") == "failed":
                yield TestId("", file=file), "errors"
            for test in tests:
                match test:
                    case {"fullName": str(name), "status": str(status)} if status in _JEST_RESULTS:
                        yield TestId(name, file=file), _JEST_RESULTS[status]
