"""Read what test runners print about each test: go, and the Test Anything Protocol (TAP, versions 12 to 14)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from youbencha.scoring.runner_results import Contradiction, TestCounts, TestId, TestResult, TestResults, collect_results

MAX_MISSING_POINTS = 1_000_000
"""A plan can announce any number."""

_GO_RESULTS: dict[str, TestResult] = {"pass": "passed", "fail": "failures", "skip": "skipped"}
_GO_WORST: tuple[TestResult, ...] = ("failures", "skipped", "passed", "errors")
_GO_LINE = re.compile(
    r"^=== RUN   (?P<run>\S{1,500})$"
    r"|--- (?P<result>PASS|FAIL|SKIP): (?P<test>\S{1,500}) \(\d{1,9}\.\d\ds\)$"  # may follow what the test printed
    r"|^(?P<verdict>ok  |FAIL)\t(?P<package>\S{1,500})(?P<rest>[\t ].{1,300})$"
    r"|^(?P<end>PASS|FAIL)$",
    re.MULTILINE,
)
_GO_EVENT = re.compile(r'^\{".{1,100000}\}$', re.MULTILINE)


@dataclass(slots=True)
class _Package:
    """The tests of a Go package."""

    name: str = ""
    tests: dict[str, TestResult] = field(default_factory=dict)
    """One that began and did not end is an error."""
    failed: bool | None = None
    """None: it did not end."""
    verdict: TestResult = "passed"
    """The whole package's verdict."""

    def begin(self, test: str) -> None:
        self.tests.setdefault(test, "errors")

    def end(self, test: str, result: str) -> None:
        self.tests[test] = min(self.tests.get(test, "errors"), _GO_RESULTS[result], key=_GO_WORST.index)

    @property
    def bad_tests(self) -> set[str]:
        return {test for test, result in self.tests.items() if result in ("failures", "errors")}

    def leaves(self) -> dict[str, TestResult]:
        """A test with subtests counts only if it failed although they did not."""
        parents = {parent for test in self.tests for parent in _parents(test)}
        bad = self.bad_tests
        with_bad_subtests = {parent for test in bad for parent in _parents(test)}
        return {
            test: result
            for test, result in self.tests.items()
            if test not in parents or (test in bad and test not in with_bad_subtests)
        }

    def counts(self) -> TestCounts:
        counts = TestCounts.of_results(self.leaves().values())
        if self.failed and not self.bad_tests:
            counts.count("errors")  # it could not be built, or ended early
        return counts


def _parents(test: str) -> Iterator[str]:
    return (test[:at] for at, character in enumerate(test) if character == "/")


def count_go(text: str) -> TestCounts | None:
    """Count tests with `-v` or `-json`; otherwise packages, because passed tests are not printed."""
    packages = _packages_in_events(text) or _packages_in_lines(text)
    if not packages:
        return None
    counts = TestCounts()
    by_test = any(package.tests for package in packages)
    for package in packages:
        if package.failed is None:
            raise Contradiction
        if by_test:
            counts.add(package.counts())
        else:
            counts.count(package.verdict)
    return counts


def list_go(text: str) -> TestResults:
    packages = _packages_in_events(text) or _packages_in_lines(text)
    return collect_results(
        (TestId(test, package.name), result) for package in packages for test, result in package.leaves().items()
    )


def _packages_in_lines(text: str) -> list[_Package]:
    packages, package = [], _Package()
    verbose = "=== RUN " in text
    for line in _GO_LINE.finditer(text):
        if line["run"]:
            package.begin(line["run"])
        elif line["test"] and verbose:
            package.end(line["test"], line["result"].lower())
        elif line["verdict"]:
            package.failed = line["verdict"] == "FAIL"
            package.verdict = _verdict(package.failed, line["rest"])
            package.name = line["package"]
            packages.append(package)
            package = _Package()
        elif line["end"] and package.tests:  # of a test binary that was started without `go test`
            package.failed = line["end"] == "FAIL"
    return [*packages, package] if package.tests else packages


def _verdict(failed: bool, rest: str) -> TestResult:
    if failed:
        return "errors" if rest.endswith(" failed]") else "failures"  # [build failed], [setup failed]
    return "ignored" if rest.endswith("[no tests to run]") else "passed"


def _packages_in_events(text: str) -> list[_Package]:
    packages: dict[str, _Package] = {}
    for line in _GO_EVENT.finditer(text):
        match _decoded(line[0]):
            case {"Action": "run", "Package": str(name), "Test": str(test)}:
                packages.setdefault(name, _Package(name)).begin(test)
            case {"Action": "pass" | "fail" | "skip" as result, "Package": str(name), "Test": str(test)}:
                packages.setdefault(name, _Package(name)).end(test, result)
            case {"Action": "pass" | "fail" | "skip" as result, "Package": str(name)}:
                package = packages.setdefault(name, _Package(name))
                package.failed = result == "fail"
                package.verdict = "ignored" if result == "skip" else _GO_RESULTS[result]
    return list(packages.values())


def _decoded(line: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


_TAP_LINE = re.compile(
    r"^(?P<indent> {0,80})(?:(?P<status>ok|not ok)(?=[ \t]|$)(?P<text>.*)|1\.\.(?P<plan>\d{1,9})(?: *#.*)?"
    r"|(?P<yaml>---)|(?P<yaml_end>\.\.\.))[ \t]*$"
    r"|^(?P<version>TAP version \d{1,3})$",
    re.MULTILINE,
)
_TAP_DIRECTIVE = re.compile(r"(?<!\\)# {0,9}(?:skip|todo)", re.IGNORECASE)


class _Point(NamedTuple):
    name: str
    """Empty for a test that the plan announced, and that is missing."""
    result: TestResult


@dataclass(slots=True)
class _Document:
    """Test points of one indentation: the whole output, or a subtest."""

    indent: int
    plan: int | None = None
    points: int = 0
    leaves: list[_Point] = field(default_factory=list)
    """The points that have no subtests."""
    opened: _Point | None = None
    """A point whose subtests follow it, in braces."""
    subtests: list[_Point] = field(default_factory=list)
    """Those since the last point: of the point in braces, or of the next one."""

    def point(self, point: _Point, *, opens: bool) -> None:
        self.close_opened()
        self.points += 1
        if opens:
            self.opened = point
        else:
            self._add(point)

    def close_opened(self) -> None:
        if self.opened is not None:
            self._add(self.opened)
            self.opened = None

    def _add(self, point: _Point) -> None:
        """A point with subtests counts only if it failed although they did not."""
        subtests, self.subtests = self.subtests, []
        self.leaves += (_Point(name and f"{point.name} > {name}", result) for name, result in subtests)
        failed_below = any(result in ("failures", "errors") for _, result in subtests)
        if not subtests or (point.result == "failures" and not failed_below):
            self.leaves.append(point)

    def closed(self) -> list[_Point]:
        """Return the points at the end. Those that are missing are errors."""
        self.close_opened()
        self.leaves += self.subtests
        if self.plan is not None:
            if self.points > self.plan:
                raise Contradiction
            self.leaves += [_Point("", "errors")] * min(self.plan - self.points, MAX_MISSING_POINTS)
        return self.leaves


class _TapReader:
    """The documents that are open, from the outermost in."""

    def __init__(self) -> None:
        self._open = [_Document(0)]

    def at(self, indent: int) -> _Document:
        """Return the document of this indentation; deeper ones have ended."""
        while self._open[-1].indent > indent:
            closed = self._open.pop()
            if self._open[-1].indent < indent:
                self._open.append(_Document(indent))
            self._open[-1].subtests += closed.closed()
        if self._open[-1].indent < indent:
            self._open.append(_Document(indent))
        return self._open[-1]

    def planned(self, indent: int, plan: int) -> None:
        document = self.at(indent)
        if document.plan is not None:
            raise Contradiction
        document.plan = plan

    def end(self) -> list[_Point] | None:
        """None if there is nothing. A document needs a plan: without one it may have been cut off."""
        document = self.at(0)
        if document.plan is None and (document.points or document.subtests):
            raise Contradiction
        return document.closed() if document.plan is not None else None


def count_tap(text: str) -> TestCounts | None:
    """Count test points without subtests of their own. Points with a TODO count as skipped."""
    points = _tap_points(text)
    return None if points is None else TestCounts.of_results(result for _, result in points)


def list_tap(text: str) -> TestResults:
    points = _tap_points(text) or []
    return collect_results((TestId(name), result) for name, result in points if name)


def _tap_points(text: str) -> list[_Point] | None:
    """Return the test points of all documents. None if there is no document."""
    if not re.search(r"^(?:1\.\.\d|TAP version \d)", text, re.MULTILINE):
        return None
    runs, reader = [], _TapReader()
    yaml: str | None = None
    for line in _TAP_LINE.finditer(text):
        if yaml is not None:
            yaml = None if line["yaml_end"] and line["indent"] == yaml else yaml
        elif line["yaml"] and line["indent"]:
            yaml = line["indent"]
        elif line["version"]:
            runs.append(reader.end())
            reader = _TapReader()
        elif line["plan"]:
            reader.planned(len(line["indent"]), int(line["plan"]))
        elif line["status"]:
            point = _Point(_tap_name(line["text"]), _tap_result(line["status"], line["text"]))
            reader.at(len(line["indent"])).point(point, opens=line["text"].endswith(" {"))
    documents = [points for points in (*runs, reader.end()) if points is not None]
    return [point for points in documents for point in points] if documents else None


_TAP_NAME = re.compile(r"[ \t]{0,9}(?P<number>\d{0,9})(?:[ \t]{1,9}-)?[ \t]{0,9}(?P<name>.*?)(?: \{)?[ \t]*")


def _tap_name(text: str) -> str:
    """Return the description; the number of a point that has none."""
    match = _TAP_NAME.fullmatch(_TAP_DIRECTIVE.split(text, maxsplit=1)[0])
    return (match["name"] or match["number"] or "-") if match else text.strip()


def _tap_result(status: str, text: str) -> TestResult:
    if _TAP_DIRECTIVE.search(text):
        return "skipped"
    return "passed" if status == "ok" else "failures"
