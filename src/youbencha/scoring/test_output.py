"""Count tests in what test runners print, which is not trusted: the agent's code may have printed it.

Output that is not understood, or contradicts itself, gives None: nothing is guessed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

TestFormat = Literal["pytest", "unittest", "vitest", "jest", "mocha", "node", "go", "cargo", "tap"]


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

    def metrics(self) -> dict[str, Any]:
        return {**asdict(self), "pass_rate": self.pass_rate}


class ParsedTests(NamedTuple):
    format: TestFormat
    counts: TestCounts


def parse_test_output(text: str) -> ParsedTests | None:
    """The number of tests in the output of a test command. None if it cannot be determined."""
    raise NotImplementedError
