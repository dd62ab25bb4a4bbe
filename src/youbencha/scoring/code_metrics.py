"""Score how code is divided into files, and tell which files are source, tests, their configuration, and reports."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class SourceFile(NamedTuple):
    path: str
    """Relative to the tree, with forward slashes."""
    lines: int


def code_metrics_score(files: Iterable[SourceFile]) -> float:
    """By the number of source files, the length of the largest, and the number of test files."""
    raise NotImplementedError


def is_source_file(path: str) -> bool:
    """Whether a file is source code, and not a test or its configuration."""
    raise NotImplementedError


def is_test_file(path: str) -> bool:
    raise NotImplementedError


def is_test_configuration(path: str) -> bool:
    """Whether a file decides which tests run, and how. Restored before tests that count."""
    raise NotImplementedError


def is_report_file(path: str) -> bool:
    """Whether a file looks like what a test run writes: JUnit XML, coverage, results."""
    raise NotImplementedError
