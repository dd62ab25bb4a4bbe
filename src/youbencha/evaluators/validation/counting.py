"""Which tests count, and how many of them passed. Pure functions.

Tests count by name: those of the reference solution, or those of the untouched task and the hidden ones. What an agent
adds neither helps nor harms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from youbencha.evaluators.validation.reports import Report
from youbencha.scoring.test_output import DOC_TESTS, TestCounts, TestId, TestResult, TestResults


@dataclass(frozen=True, kw_only=True)
class Authorship:
    """Which tests of a tree the author of its changes wrote: an agent, or that of the reference solution."""

    files: frozenset[str] = frozenset()
    """The files that were added or changed, and that were not restored."""
    own_text: str = ""
    """What these files contain."""
    given_text: str = ""
    """The hidden tests, and the restored ones."""

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
    """What is known about the tests of a task, from runs without an agent."""

    sources: frozenset[str] = frozenset()
    """Where the tests are reported. Other sources are not believed. Empty: unknown."""
    names: frozenset[TestId] | None = None
    """The tests that must pass. None: only their number is known, if that."""
    is_complete: bool = False
    """Whether `names` are all tests that count, because a reference solution ran them."""
    number: int | None = None
    """How many tests must run. None: unknown."""


@dataclass(frozen=True, kw_only=True)
class TestTally:
    """The tests that count, and how they ended."""

    __test__ = False  # its name makes pytest collect it

    counts: TestCounts
    missing: int = 0
    """Tests that count, and did not run."""
    results: Mapping[str, TestResult | None] = field(default_factory=dict)
    """By the label of each test that counts; None: it did not run. Empty if only their number is known."""
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
    """Count tests without names: failed ones count, whoever wrote them, and more than expected do not help."""
    if not expected:
        return TestTally(counts=counts) if counts.ran else None
    failed = min(expected, counts.failures + counts.errors)
    passed = min(counts.passed, expected - failed)
    counted = TestCounts(passed + failed, failures=failed)
    return TestTally(counts=counted, missing=expected - counted.ran, others=TestCounts(counts.ran - counted.ran))


def expect_tests(
    start: Report | None, reference: Report | None, author: Authorship, *, has_reference: bool, sources: frozenset[str]
) -> ExpectedTests:
    """What the runs of the untouched task and of the reference solution say about the tests that count.

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
    """The tests that ran. An error may stand for a file that could not be loaded, with a name of its own."""
    if report is None or report.results is None:
        return None
    left_out = ("skipped", "errors") if without_errors else ("skipped",)
    return frozenset(test for test, result in report.results.items() if result not in left_out)
