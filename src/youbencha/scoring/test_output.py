"""Count tests in what test runners print, which is not trusted: the agent's code may have printed it.

Output that is not understood, or contradicts itself, gives None: nothing is guessed. Expected failures count as
skipped, as in pytest's JUnit reports.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

TestFormat = Literal["pytest", "unittest", "vitest", "jest", "mocha", "node", "go", "cargo", "tap"]
TestResult = Literal["passed", "failures", "errors", "skipped", "ignored"]
"""`ignored`: not a test."""


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
        """Of the tests that were run. None if there were none."""
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
    def total(cls, parts: Iterable[TestCounts]) -> TestCounts:
        counts = cls()
        for part in parts:
            counts.add(part)
        return counts

    def metrics(self) -> dict[str, Any]:
        return {**asdict(self), "pass_rate": self.pass_rate}


class ParsedTests(NamedTuple):
    format: TestFormat
    counts: TestCounts


class Contradiction(Exception):
    """The output is of a test runner, but its numbers do not fit together, or runs cannot be told apart."""


def parse_test_output(text: str) -> ParsedTests | None:
    """The number of tests in the output of a test command. None if it cannot be determined.

    Several runs of one test runner are added up if each has a beginning and a summary of its own.
    """
    from youbencha.scoring.test_formats import FORMATS  # many patterns, which a run with JUnit reports does not need

    text = _plain(text)
    found: list[ParsedTests] = []
    for each in FORMATS:
        if any(word in text for word in each.words):
            try:
                counts = each.parse(text)
            except Contradiction:
                return None
            if counts is not None:
                found.append(ParsedTests(each.name, counts))
    return found[0] if len(found) == 1 else None


_ESCAPE = re.compile(r"\x1b(?:\[[0-?]{0,99}[ -/]{0,9}[@-~]|\][^\x07\x1b\n]{0,999}(?:\x07|\x1b\\)|[@-Z\\^_])")


def _plain(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _ESCAPE.sub("", text) if "\x1b" in text else text
