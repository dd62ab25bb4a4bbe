"""Read tests in JUnit XML, which is not trusted: the agent's code may have written it.

The parser builds no tree, and stops at a document type, so that there are no entities to expand or to fetch.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from xml.parsers import expat

from youbencha.evaluators.base import printable
from youbencha.evaluators.globs import Glob
from youbencha.files import read_nofollow
from youbencha.scoring.runner_results import TestCounts, TestId, TestResult
from youbencha.workspace.trees import TreeFile, files_below

MAX_REPORT_BYTES = 32 * 1024 * 1024
MAX_REPORTS = 2_000
_RESULTS: dict[str, TestResult] = {"failure": "failures", "error": "errors", "skipped": "skipped"}
_NOT_RUN = frozenset({"notrun", "disabled"})
Stamp = tuple[int, int, int, int]


class UnusableReport(Exception):
    """A report cannot be used; the message explains why."""


def find_reports(tree: Path, patterns: Iterable[str]) -> dict[TreeFile, Stamp]:
    """Find the matching files, each with a stamp that changes when it is written. Links are ignored."""
    globs = tuple(map(Glob, patterns))
    if not globs:
        return {}
    matching = (file for file in files_below(tree) if not file.is_link and any(g.matches(file.path) for g in globs))
    return {file: stamp for file in matching if (stamp := _stamp(file))}


def junit_metrics(tree: Path, patterns: Iterable[str], before: Mapping[TreeFile, Stamp]) -> dict[str, Any]:
    """Return the counts, or `junit_error`: a missing or unusable report is a failure."""
    try:
        return count_tests(tree, patterns, before).metrics()
    except UnusableReport as error:
        return {"junit_error": str(error)}


def count_tests(tree: Path, patterns: Iterable[str], before: Mapping[TreeFile, Stamp]) -> TestCounts:
    """Count the tests in reports written by the command. Those in `before` were left by the agent."""
    patterns = tuple(patterns)
    written = sorted(file for file, stamp in find_reports(tree, patterns).items() if before.get(file) != stamp)
    if not written:
        raise UnusableReport(f"no JUnit report was written to {', '.join(patterns)}")
    if len(written) > MAX_REPORTS:
        raise UnusableReport(f"there are more than {MAX_REPORTS:,} JUnit reports")
    counts = TestCounts()
    for file in written:
        count_in(_read(file), counts, _name(file))
    return counts


def _name(file: TreeFile) -> str:
    return printable(file.path.rpartition("/")[2])


def _read(file: TreeFile) -> bytes:
    try:
        return read_nofollow(file.tree, file.path, MAX_REPORT_BYTES)
    except OSError as error:
        raise UnusableReport(f"the JUnit report {_name(file)} {error.strerror}") from None


def count_in(xml: bytes, counts: TestCounts, name: str = "report") -> None:
    """Add the test cases of one report. They are counted, because the sums that a report states may be wrong."""
    for _, result in read_cases(xml, name):
        counts.count(result)


def read_cases(xml: bytes, name: str = "report") -> list[tuple[TestId, TestResult]]:
    """Read the test cases of one report."""
    reader = _Reader(name)
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = reader.refuse
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    try:
        parser.Parse(xml, True)
    except (expat.ExpatError, LookupError, ValueError) as error:  # the latter two: an unknown encoding
        raise UnusableReport(f"the JUnit report {name} is not valid XML: {error}") from None
    if not reader.is_junit:
        raise UnusableReport(f"the XML file {name} is not a JUnit report")
    return reader.cases


class _Reader:
    def __init__(self, name: str) -> None:
        self._name = name
        self._depth = 0
        self._test = TestId("")
        self._result: TestResult | None = None
        self._test_at: int | None = None
        self.is_junit = False
        self.cases: list[tuple[TestId, TestResult]] = []

    def refuse(self, *_: object) -> None:
        raise UnusableReport(f"the JUnit report {self._name} has a document type, which is not allowed")

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        self._depth += 1
        if self._depth == 1:
            self.is_junit = name in ("testsuites", "testsuite")
        elif name == "testcase" and self._test_at is None:
            file = _relative(attributes.get("file", ""))
            self._test = TestId(attributes.get("name", ""), attributes.get("classname", ""), file)
            self._test_at = self._depth
            self._result = "skipped" if attributes.get("status") in _NOT_RUN else None
        elif self._test_at is not None and self._depth == self._test_at + 1:
            self._result = self._result or _RESULTS.get(name)  # a test whose teardown also fails counts once

    def end(self, _: str) -> None:
        if self._depth == self._test_at:
            self.cases.append((self._test, self._result or "passed"))
            self._test_at = None
        self._depth -= 1


def _relative(file: str) -> str | None:
    """Return a path below the tree, as far as it is known."""
    path = posixpath.normpath(file.replace("\\", "/"))
    return None if path == "." or path.startswith(("/", "../")) else path


def _stamp(file: TreeFile) -> Stamp | None:
    """Identify the file's content. Includes the time of the last status change, which programs cannot set."""
    try:
        state = file.full_path.lstat()
    except OSError:  # removed, or its path is too long
        return None
    return state.st_ino, state.st_ctime_ns, state.st_mtime_ns, state.st_size
