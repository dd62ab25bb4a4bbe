"""Count tests in JUnit XML, which is not trusted: the agent's code may have written it.

The parser builds no tree, and stops at a document type, so that there are no entities to expand or to fetch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from youbencha.evaluators.base import printable
from youbencha.evaluators.globs import Glob
from youbencha.files import read_untrusted
from youbencha.scoring.test_output import TestCounts
from youbencha.workspace.trees import TreeFile, files_below

LARGEST_REPORT = 32 * 1024 * 1024
MOST_REPORTS = 2_000
_ENDS = {"failure": "failures", "error": "errors", "skipped": "skipped"}
_NOT_RUN = frozenset({"notrun", "disabled"})
Stamp = tuple[int, int, int, int]


class Unusable(Exception):
    """Why a report cannot be used."""


def reports(tree: Path, patterns: Iterable[str]) -> dict[TreeFile, Stamp]:
    """The matching files, each with a stamp that changes when it is written. Links are ignored."""
    globs = tuple(map(Glob, patterns))
    if not globs:
        return {}
    found = (file for file in files_below(tree) if not file.is_link and any(g.matches(file.path) for g in globs))
    return {file: stamp for file in found if (stamp := _stamp(file))}


def junit_metrics(tree: Path, patterns: Iterable[str], before: Mapping[TreeFile, Stamp]) -> dict[str, Any]:
    """The counts, or `junit_error`: a missing or unusable report is a failure."""
    try:
        return count_tests(tree, patterns, before).metrics()
    except Unusable as unusable:
        return {"junit_error": str(unusable)}


def count_tests(tree: Path, patterns: Iterable[str], before: Mapping[TreeFile, Stamp]) -> TestCounts:
    """Count the tests in reports written by the command. Those in `before` were left by the agent."""
    patterns = tuple(patterns)
    written = sorted(file for file, stamp in reports(tree, patterns).items() if before.get(file) != stamp)
    if not written:
        raise Unusable(f"no JUnit report was written to {', '.join(patterns)}")
    if len(written) > MOST_REPORTS:
        raise Unusable(f"there are more than {MOST_REPORTS:,} JUnit reports")
    counts = TestCounts()
    for file in written:
        count_in(_read(file), counts, _name(file))
    return counts


def _name(file: TreeFile) -> str:
    return printable(file.path.rpartition("/")[2])


def _read(file: TreeFile) -> bytes:
    try:
        return read_untrusted(file.tree, file.path, LARGEST_REPORT)
    except OSError as error:
        raise Unusable(f"the JUnit report {_name(file)} {error.strerror}") from None


def count_in(xml: bytes, counts: TestCounts, name: str = "report") -> None:
    """Add the test cases of one report. They are counted, because the sums that a report states may be wrong."""
    from xml.parsers import expat

    reader = _Reader(counts, name)
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = reader.refuse
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    try:
        parser.Parse(xml, True)
    except (expat.ExpatError, LookupError, ValueError) as error:  # the latter two: an unknown encoding
        raise Unusable(f"the JUnit report {name} is not valid XML: {error}") from None
    if not reader.is_junit:
        raise Unusable(f"the XML file {name} is not a JUnit report")


class _Reader:
    def __init__(self, counts: TestCounts, name: str) -> None:
        self._counts, self._name = counts, name
        self._depth = 0
        self._end: str | None = None
        self._test_at: int | None = None
        self.is_junit = False

    def refuse(self, *_: object) -> None:
        raise Unusable(f"the JUnit report {self._name} has a document type, which is not allowed")

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        self._depth += 1
        if self._depth == 1:
            self.is_junit = name in ("testsuites", "testsuite")
        elif name == "testcase" and self._test_at is None:
            self._counts.tests += 1
            self._test_at = self._depth
            self._end = "skipped" if attributes.get("status") in _NOT_RUN else None
        elif self._test_at is not None and self._depth == self._test_at + 1:
            self._end = self._end or _ENDS.get(name)  # a test whose teardown also fails counts once

    def end(self, _: str) -> None:
        if self._depth == self._test_at:
            if self._end is not None:
                setattr(self._counts, self._end, getattr(self._counts, self._end) + 1)
            self._test_at = None
        self._depth -= 1


def _stamp(file: TreeFile) -> Stamp | None:
    """Identify the file's content. Includes the time of the last status change, which programs cannot set."""
    try:
        state = file.full_path.lstat()
    except OSError:  # removed, or its path is too long
        return None
    return state.st_ino, state.st_ctime_ns, state.st_mtime_ns, state.st_size
