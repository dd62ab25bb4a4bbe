"""Identify tests and count how they ended, whichever test runner ran them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

TestResult = Literal["passed", "failures", "errors", "skipped", "ignored"]
"""`ignored`: not a test."""
DOC_TESTS = "doc tests"
"""The group of cargo's doc tests, whose files are relative to their package."""
_WORST_FIRST: tuple[TestResult, ...] = ("errors", "failures", "skipped", "passed", "ignored")


@dataclass(frozen=True, slots=True)
class TestId:
    """Identifies a test, independently of its runner."""

    __test__: ClassVar = False  # its name makes pytest collect it

    name: str
    group: str = ""
    """Its class, suite or package, if the test runner reports one."""
    file: str | None = None
    """Relative to the tree, with forward slashes. None if the test runner does not report it."""

    @property
    def label(self) -> str:
        return f"{self.group}: {self.name}" if self.group else self.name

    @property
    def identifiers(self) -> list[str]:
        """Its possible names in its source, without parameters and subtests: itself, then the modules that it is in.

        Macros make up names, such as `tests::adds::case_1` for `adds` with rstest.
        """
        path = re.split(r"[\[/(]", self.name, maxsplit=1)[0].split("::")
        return [part for name in reversed(path) if (part := name.strip())]


TestResults = Mapping[TestId, TestResult]


def collect_results(tests: Iterable[tuple[TestId, TestResult]]) -> dict[TestId, TestResult]:
    """Collect the result of each test. If one is reported several times, the worst counts."""
    results: dict[TestId, TestResult] = {}
    for test, result in tests:
        results[test] = min(result, results.get(test, result), key=_WORST_FIRST.index)
    return results


@dataclass(slots=True)
class TestCounts:
    __test__ = False  # its name makes pytest collect it

    tests: int = 0
    failures: int = 0
    errors: int = 0
    skipped: int = 0

    @property
    def ran(self) -> int:
        return self.tests - self.skipped

    @property
    def passed(self) -> int:
        return self.ran - self.failures - self.errors

    @property
    def pass_rate(self) -> float | None:
        """The share of the tests that ran. None if none did."""
        return self.passed / self.ran if self.ran else None

    def count(self, result: TestResult, number: int = 1) -> None:
        if result != "ignored":
            self.tests += number
        if result in ("failures", "errors", "skipped"):
            setattr(self, result, getattr(self, result) + number)

    def add(self, other: TestCounts) -> None:
        self.tests += other.tests
        self.failures += other.failures
        self.errors += other.errors
        self.skipped += other.skipped

    @classmethod
    def of_results(cls, results: Iterable[TestResult]) -> TestCounts:
        counts = cls()
        for result in results:
            counts.count(result)
        return counts

    @classmethod
    def total(cls, parts: Iterable[TestCounts]) -> TestCounts:
        counts = cls()
        for part in parts:
            counts.add(part)
        return counts

    def metrics(self) -> dict[str, Any]:
        return {**asdict(self), "pass_rate": self.pass_rate}


class Contradiction(Exception):
    """The output is of a test runner, but its numbers do not fit together, or runs cannot be told apart."""
