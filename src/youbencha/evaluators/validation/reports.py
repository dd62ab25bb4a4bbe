"""Read what the test command of a validation reports, from all sources, and count the tests that count.

Tests count by name: those of the reference solution, or those of the untouched task and the hidden ones. What an agent
adds neither helps nor harms.
"""

from __future__ import annotations

import json
import os
import posixpath
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from youbencha.evaluators.junit import MAX_REPORT_BYTES, MAX_REPORTS, Stamp, UnusableReport, find_reports, read_cases
from youbencha.files import read_nofollow
from youbencha.scoring.measures import Reward
from youbencha.scoring.runner_output import parse_test_output
from youbencha.scoring.runner_results import DOC_TESTS, TestCounts, TestId, TestResult, TestResults, collect_results
from youbencha.workspace.trees import TreeFile

EXIT_CODE = "exit code"
"""The source of a command that reports nothing: it is one test, which passes if its exit code is 0."""

XML_FILES = ("**/*.xml",)
_JEST_RESULTS: dict[str, TestResult] = {
    "passed": "passed",
    "failed": "failures",
    "pending": "skipped",
    "skipped": "skipped",
    "todo": "skipped",
    "disabled": "skipped",
}


_ONLY_PRINTED = frozenset({"go", "cargo", "node", "tap"})
"""Test runners that name each test in what they print, and write no report at our request."""


class Report(NamedTuple):
    """The tests of one source."""

    source: str
    counts: TestCounts
    results: TestResults | None
    """The result of each test. None: only the numbers are known."""


@dataclass(frozen=True, kw_only=True)
class RunReports:
    """Everything that a test command reported."""

    exit_code: int | None
    requested: tuple[Report, ...] = ()
    """Reports that test runners wrote at our request: pytest, unittest, vitest, jest, mocha."""
    junit: tuple[Report, ...] = ()
    """JUnit reports that the command wrote into the tree."""
    printed: tuple[Report, ...] = ()
    reward: Reward | None = None
    """The reward that the command wrote to the file that the task names."""

    @property
    def _by_trust(self) -> tuple[tuple[Report, ...], ...]:
        """The reports that count together, the most trustworthy first. A command may start several test runners."""
        others = tuple(report for report in self.printed if report.results and report.source in _ONLY_PRINTED)
        return (*self.requested, *others) if self.requested else (), self.junit, self.printed

    @property
    def sources(self) -> frozenset[str]:
        """The names of the sources that count: the most trustworthy ones that there are."""
        best = next(filter(None, self._by_trust), ())
        return frozenset(report.source for report in best)

    def report(self, accepted: frozenset[str]) -> Report | None:
        """Return the tests, of accepted sources only. Without any, all are, and a command that reports nothing is one
        test."""
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
        """Return the same without the tests that have this in their names."""
        return replace(
            self,
            requested=tuple(_without(report, name) for report in self.requested),
            junit=tuple(_without(report, name) for report in self.junit),
            printed=tuple(_without(report, name) for report in self.printed),
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


def read_reports(
    directory: Path,
    step: str,
    tree: Path,
    inside: str,
    *,
    before: Mapping[TreeFile, Stamp],
    exit_code: int | None,
    printed: str,
) -> RunReports:
    """Return everything that a test command reported: in `directory`, in the tree, and in what it printed.

    `inside` is the path of the tree for the command. JUnit reports in `before` were there already.
    """
    written = sorted(file for file, stamp in find_reports(tree, XML_FILES).items() if before.get(file) != stamp)
    in_tree = (_junit(file.tree, file.path, f"junit:{file.path}") for file in written[:MAX_REPORTS])
    return RunReports(
        exit_code=exit_code,
        requested=tuple(_requested(directory, step, tree, inside)),
        junit=tuple(report for report in in_tree if report),
        printed=tuple(_in_output(printed, exit_code, tree, inside)),
    )


def _requested(directory: Path, step: str, tree: Path, inside: str) -> Iterator[Report]:
    for path in sorted(directory.glob(f"{step}-pytest*.xml"))[:MAX_REPORTS]:
        if pytest := _junit(directory, path.name, "pytest"):
            working_dir = _read(directory, f"{path.name}.directory").decode(errors="replace")
            yield _in_tree(pytest, tree, _relative(working_dir, inside))
    if unittest := list(_in_unittest_report(_read(directory, f"{step}-unittest.jsonl"), inside)):
        yield _named("unittest", unittest)
    for path in sorted(directory.glob(f"{step}-node-*.json"))[:MAX_REPORTS]:
        yield _named("javascript", list(_in_jest_report(_read(directory, path.name), inside)))


def _in_output(printed: str, exit_code: int | None, tree: Path, inside: str) -> Iterator[Report]:
    """`node --test` names a file without tests of its own by its path, which is another one in each sandbox."""
    for runner, counts, results in parse_test_output(printed):
        if results is not None:
            located = {_with_file(test, tree, inside): result for test, result in results.items()}
            yield Report(runner, counts, located)
        elif counts.passed < counts.ran or exit_code == 0:
            # Else there are only numbers, and they say that nothing failed: something killed it, or lies.
            yield Report(runner, counts, None)


def _with_file(test: TestId, tree: Path, inside: str) -> TestId:
    path = _relative(test.name, inside)
    return replace(test, name=path, file=path) if path != test.name and os.path.lexists(tree / path) else test


def _read(directory: Path, name: str) -> bytes:
    try:
        return read_nofollow(directory, name, MAX_REPORT_BYTES)
    except OSError:
        return b""


def _junit(root: Path, name: str, source: str) -> Report | None:
    """Read a JUnit report; None if it is another file, or unusable."""
    try:
        return _named(source, read_cases(_read(root, name)))
    except UnusableReport:
        return None


def _decoded(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _relative(path: str, tree: str) -> str:
    """Return a path relative to the tree, if it is in there."""
    return posixpath.relpath(path, tree) if path == tree or path.startswith(f"{tree}/") else path


def _in_tree(report: Report, tree: Path, directory: str) -> Report:
    """Locate the files of a report of pytest, whose files are relative to its root: the directory in which it ran, or
    one above."""
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
    """Read the JSON of jest, which vitest also writes. A file that could not be loaded is an error."""
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


@dataclass(frozen=True, kw_only=True)
class Authorship:
    """Which tests of a tree the author of its changes wrote: an agent, or that of the reference solution."""

    files: frozenset[str] = frozenset()
    """The files that were added or changed, and that were not restored."""
    own_text: str = ""
    """The content of these files."""
    given_text: str = ""
    """The content of the hidden tests, and of the restored ones."""

    def wrote(self, test: TestId) -> bool:
        """Whether the test is the author's, by its file, or by the text that has its name."""
        if test.file is not None:
            return test.file in self.files or (
                test.group == DOC_TESTS and any(path.endswith(f"/{test.file}") for path in self.files)
            )
        known = (name for name in test.identifiers if name in self.own_text or name in self.given_text)
        return next((name not in self.given_text for name in known), False)


NOBODY = Authorship()
"""The author of a tree without changes."""


@dataclass(frozen=True, kw_only=True)
class ExpectedTests:
    """The tests of a task that count, as far as they are known from runs without an agent."""

    sources: frozenset[str] = frozenset()
    """The sources that report the tests. Other sources are not believed. Empty: unknown."""
    names: frozenset[TestId] | None = None
    """The tests that must pass. None: only their number is known, if that."""
    is_complete: bool = False
    """Whether `names` are all tests that count, because a reference solution ran them."""
    number: int | None = None
    """The number of tests that must run. None: unknown."""


@dataclass(frozen=True, kw_only=True)
class TestTally:
    """The tests that count, and how they ended."""

    __test__ = False  # its name makes pytest collect it

    counts: TestCounts
    missing: int = 0
    """Tests that count, and did not run."""
    results: Mapping[str, TestResult | None] = field(default_factory=dict)
    """The result of each test that counts, by its label; None: it did not run. Empty if only their number is known."""
    others: TestCounts = field(default_factory=TestCounts)
    """Tests that do not count: the agent's own."""

    @property
    def total(self) -> int:
        return self.counts.ran + self.missing

    @property
    def score(self) -> float | None:
        return self.counts.passed / self.total if self.total else None

    def metrics(self) -> dict[str, Any]:
        return {**self.counts.metrics(), "missing": self.missing}


def tally(report: Report | None, expected: ExpectedTests, author: Authorship) -> TestTally | None:
    """Count the tests of a run. None: it reports nothing, and it is not known what it should."""
    if report is None:
        return _tally_nothing(expected)
    if report.results is not None and (expected.names is not None or expected.number is None):
        return _tally_names(report.results, expected, author)
    return _tally_numbers(report.counts, expected.number)


def _tally_nothing(expected: ExpectedTests) -> TestTally | None:
    if not expected.number:
        return None
    results = dict.fromkeys(_labels(expected.names or ()).values())
    return TestTally(counts=TestCounts(), missing=expected.number, results=results)


def _labels(tests: Iterable[TestId]) -> dict[TestId, str]:
    """Return a label for each test, with its file if several would have the same."""
    in_order = sorted(tests, key=lambda test: (test.file or "", test.group, test.name))
    number = Counter(test.label for test in in_order)
    return {test: test.label if number[test.label] == 1 else f"{test.file}: {test.label}" for test in in_order}


def _tally_names(results: TestResults, expected: ExpectedTests, author: Authorship) -> TestTally | None:
    names = set(expected.names or ())
    if not expected.is_complete:
        names |= {test for test, result in results.items() if result != "skipped" and not author.wrote(test)}
    if not names:
        return None
    ended = {label: results.get(test) for test, label in _labels(names).items()}
    ran = [result for result in ended.values() if result is not None and result != "skipped"]
    others = [result for test, result in results.items() if test not in names]
    return TestTally(
        counts=TestCounts.of_results(ran),
        missing=len(names) - len(ran),
        results=ended,
        others=TestCounts.of_results(others),
    )


def _tally_numbers(counts: TestCounts, expected: int | None) -> TestTally | None:
    """Count tests without names. Every failed test counts; passed tests beyond the expected number do not."""
    if not expected:
        return TestTally(counts=counts) if counts.ran else None
    failed = min(expected, counts.failures + counts.errors)
    passed = min(counts.passed, expected - failed)
    counted = TestCounts(passed + failed, failures=failed)
    return TestTally(counts=counted, missing=expected - counted.ran, others=TestCounts(counts.ran - counted.ran))


def expect_tests(
    start: Report | None, reference: Report | None, author: Authorship, *, has_reference: bool, sources: frozenset[str]
) -> ExpectedTests:
    """Conclude from runs of the untouched task and of the reference solution which tests count.

    `author` is that of the reference solution: tests in files that it added or changed do not count. What the agent
    starts from may contradict the solution there, and what the agent leaves there is the agent's.
    """
    if not has_reference or reference is None or reference.results is None:
        best = reference or start
        number = max((report.counts.ran for report in (start, reference) if report), default=None)
        names = _names(start, without_errors=True) if best is start else None
        return ExpectedTests(sources=sources, names=names, number=number or None)
    ran = _names(reference, without_errors=False) or frozenset()
    names = frozenset(test for test in ran if not author.wrote(test))
    names = names or ran & (_names(start, without_errors=True) or frozenset())  # tests within the code, as in Rust
    return ExpectedTests(sources=sources, names=names, is_complete=True, number=len(names))


def _names(report: Report | None, *, without_errors: bool) -> frozenset[TestId] | None:
    """Return the tests that ran. An error may stand for a file that could not be loaded, with a name of its own."""
    if report is None or report.results is None:
        return None
    left_out = ("skipped", "errors") if without_errors else ("skipped",)
    return frozenset(test for test, result in report.results.items() if result not in left_out)
