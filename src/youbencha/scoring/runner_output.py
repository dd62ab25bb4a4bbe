"""Count and name the tests in what test runners print, which is not trusted: the agent's code may have printed it.

Output that is not understood, or contradicts itself, gives nothing: nothing is guessed. Expected failures count as
skipped, as in pytest's JUnit reports. Here are the summaries of pytest, unittest, vitest, jest, mocha, node and cargo;
`runner_lines.py` reads the lines of go and TAP. The time is linear in the length of the text: every pattern begins at
the beginning of a line or with a literal, and repeats at most a few hundred times.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from youbencha.scoring.runner_lines import count_go, count_tap, list_go, list_tap
from youbencha.scoring.runner_results import (
    DOC_TESTS,
    Contradiction,
    TestCounts,
    TestId,
    TestResult,
    TestResults,
    collect_results,
)

TestFormat = Literal["pytest", "unittest", "vitest", "jest", "mocha", "node", "go", "cargo", "tap", "plain"]
_SCRIPT = re.compile(r"^(?:> \S{1,200}@\S{1,100} \S|yarn run v\d)", re.MULTILINE)
"""npm, pnpm and yarn print this line before the script of each package."""


def _summaries(text: str, start: re.Pattern[str], summary: re.Pattern[str], *, strict: bool) -> list[re.Match[str]]:
    """Find the summaries of separate runs. `strict`: each run that started has one."""
    summaries = list(summary.finditer(text))
    starts = [match.start() for match in start.finditer(text)]
    run_of = [bisect(starts, match.start()) for match in summaries]
    if len(set(run_of)) < len(run_of) or (strict and starts and run_of != list(range(1, len(starts) + 1))):
        raise Contradiction
    return summaries


def _count_items(items: Iterable[str], kinds: Mapping[str, TestResult]) -> TestCounts:
    """Add up items such as `3 passed`."""
    counts = TestCounts()
    for item in items:
        number, _, word = item.strip().partition(" ")
        kind = kinds.get(word)
        if kind is None or not (number.isascii() and number.isdecimal() and len(number) < 10):
            raise Contradiction
        counts.count(kind, int(number))
    return counts


def _total(parts: list[TestCounts]) -> TestCounts | None:
    return TestCounts.total(parts) if parts else None


_PYTEST_START = re.compile(r"^={2,200} test session starts \(?.{0,200}={2,200}$", re.MULTILINE)
_PYTEST_ITEMS = (
    r"(no tests ran|\d{1,9} [a-z]{1,20}(?:(?:, | )[a-z0-9, ]{1,300})?) in \d{1,9}\.\d{1,3} ?s[a-z]{0,9}.{0,40}"
)
_PYTEST_SUMMARY = re.compile(rf"^={{1,200}} {_PYTEST_ITEMS} ={{1,200}}$", re.MULTILINE)
_PYTEST_QUIET = re.compile(rf"^{_PYTEST_ITEMS}$", re.MULTILINE)
_PYTEST_KINDS: dict[str, TestResult] = {
    "passed": "passed",
    "xpassed": "passed",
    "failed": "failures",
    "error": "errors",
    "errors": "errors",
    "skipped": "skipped",
    "xfailed": "skipped",
    "subtests passed": "ignored",
    "subtests skipped": "ignored",
    "subtests failed": "failures",
    "deselected": "ignored",
    "rerun": "ignored",
    "reruns": "ignored",
    "retried": "ignored",
    "warning": "ignored",
    "warnings": "ignored",
}


def _pytest(text: str) -> TestCounts | None:
    summary = _PYTEST_SUMMARY if _PYTEST_START.search(text) else _PYTEST_QUIET
    summaries = _summaries(text, _PYTEST_START, summary, strict=True)
    return _total([_count_items(_listed(match[1]), _PYTEST_KINDS) for match in summaries])


def _listed(items: str) -> list[str]:
    return [] if items == "no tests ran" else items.split(", ")


_UNITTEST = re.compile(
    r"^Ran (\d{1,9}) tests? in \d{1,9}\.\d{1,9}s\n{1,3}(OK|FAILED|NO TESTS RAN)(?: \(([^()\n]{1,300})\))?$",
    re.MULTILINE,
)
_UNITTEST_KINDS: dict[str, TestResult] = {
    "failures": "failures",
    "errors": "errors",
    "skipped": "skipped",
    "expected failures": "skipped",
    "unexpected successes": "failures",
}


def _unittest(text: str) -> TestCounts | None:
    return _total([_unittest_run(match) for match in _summaries(text, _SCRIPT, _UNITTEST, strict=False)])


def _unittest_run(summary: re.Match[str]) -> TestCounts:
    ran, verdict, items = summary.groups(default="")
    pairs = [item.partition("=") for item in items.split(", ") if item]
    counts = _count_items((f"{number} {name}" for name, _, number in pairs), _UNITTEST_KINDS)
    if (verdict == "FAILED") != (counts.failures + counts.errors > 0):
        raise Contradiction
    # A failed subTest, and a setUpClass that fails, is in the list, but not a test of its own.
    counts.tests = max(counts.tests, int(ran))
    return counts


_JS_KINDS: dict[str, TestResult] = {
    "passed": "passed",
    "failed": "failures",
    "skipped": "skipped",
    "todo": "skipped",
    "expected fail": "skipped",
}
_VITEST_START = re.compile(r"^ RUN  v\d", re.MULTILINE)
_VITEST = re.compile(
    r"^No test files found, exiting with code \d"
    r"|^ *Test Files  (no tests|[a-z0-9 |]{1,200} \(\d{1,9}\))\n *Tests  (no tests|[a-z0-9 |]{1,200} \(\d{1,9}\))"
    r"(?:\n *Type Errors  .{1,200})?(?:\n *Errors  (\d{1,9}) errors?)?$",
    re.MULTILINE,
)


def _vitest(text: str) -> TestCounts | None:
    parts = []
    for summary in _summaries(text, _VITEST_START, _VITEST, strict=True):
        files, tests, errors = summary.groups()
        counts = _with_broken_files(_vitest_items(tests), _vitest_items(files))
        counts.count("errors", int(errors or 0))
        parts.append(counts)
    return _total(parts)


def _vitest_items(items: str | None) -> TestCounts:
    if items is None or items == "no tests":
        return TestCounts()
    listed, _, total = items.removesuffix(")").rpartition(" (")
    return _require_total(_count_items(listed.split(" | "), _JS_KINDS), int(total))


def _require_total(counts: TestCounts, total: int) -> TestCounts:
    if counts.tests != total:
        raise Contradiction
    return counts


def _with_broken_files(tests: TestCounts, files: TestCounts) -> TestCounts:
    """A file that failed although no test did could not be loaded."""
    if tests.failures == 0:
        tests.count("errors", files.failures)
    return tests


_JEST = re.compile(
    r"^No tests found, exiting with code \d"
    r"|^Test Suites: +([a-z0-9, ]{1,200}) total\nTests: +((?:[a-z0-9, ]{1,200} )?\d{1,9}) total\nSnapshots: ",
    re.MULTILINE,
)


def _jest(text: str) -> TestCounts | None:
    return _total([_jest_run(*match.groups()) for match in _summaries(text, _SCRIPT, _JEST, strict=False)])


def _jest_run(suites: str | None, tests: str | None) -> TestCounts:
    if suites is None or tests is None:
        return TestCounts()
    *listed, total = tests.split(", ")
    *listed_suites, _ = suites.split(", ")  # with --bail, `1 of 3`
    counts = _require_total(_count_items(listed, _JS_KINDS), int(total))
    return _with_broken_files(counts, _count_items(listed_suites, _JS_KINDS))


_MOCHA = re.compile(
    r"^  (\d{1,9}) passing \(.{1,40}\)$(?:\n  (\d{1,9}) pending$)?(?:\n  (\d{1,9}) failing$)?", re.MULTILINE
)


def _mocha(text: str) -> TestCounts | None:
    parts = []
    for summary in _summaries(text, _SCRIPT, _MOCHA, strict=False):
        passed, skipped, failures = map(int, summary.groups(default="0"))
        parts.append(TestCounts(passed + skipped + failures, failures=failures, skipped=skipped))
    return _total(parts)


_NODE_NAMES = ("tests", "suites", "pass", "fail", "cancelled", "skipped", "todo")
_NODE_TAP = re.compile("^" + "\n".join(rf"# {name} (\d{{1,9}})" for name in _NODE_NAMES) + "$", re.MULTILINE)
_NODE_SPEC = re.compile("^" + "\n".join(rf"ℹ {name} (\d{{1,9}})" for name in _NODE_NAMES) + "$", re.MULTILINE)
_TAP_START = re.compile(r"^TAP version \d{1,3}$", re.MULTILINE)


def _node(text: str) -> TestCounts | None:
    runs = [match.start() for match in _TAP_START.finditer(text)]
    # Lines that tests print are also comments, but come before the summary: the last one of each run counts.
    last = {bisect(runs, match.start()): match for match in _NODE_TAP.finditer(text)}
    parts = []
    for summary in (*_summaries(text, _SCRIPT, _NODE_SPEC, strict=False), *last.values()):
        tests, _, passed, failures, cancelled, skipped, todo = map(int, summary.groups())
        counts = TestCounts(passed + failures + cancelled + skipped + todo, failures, cancelled, skipped + todo)
        parts.append(_require_total(counts, tests))
    return _total(parts)


_NODE_SPEC_LINE = re.compile(
    r"^(?P<indent> {0,80})(?:▶ (?P<suite>.{1,500}?)(?P<ended> \(\d{1,9}(?:\.\d{1,9})?ms\))?"
    r"|(?P<mark>[✔✖﹣⚠]) (?P<name>.{1,500}?) \(\d{1,9}(?:\.\d{1,9})?ms\)(?P<directive> # \S.{0,300})?)$"
    r"|^(?P<end>ℹ tests \d)",
    re.MULTILINE,
)
_NODE_MARKS: dict[str, TestResult] = {"✔": "passed", "✖": "failures", "﹣": "skipped", "⚠": "skipped"}


def _list_node(text: str) -> TestResults:
    """List the tests that have no subtests, each with the names of those around it."""
    return list_tap(text) if _NODE_TAP.search(text) else collect_results(_node_spec(text))


def _node_spec(text: str) -> Iterator[tuple[TestId, TestResult]]:
    suites: list[str] = []
    for line in _NODE_SPEC_LINE.finditer(text):
        if line["end"]:  # what failed is repeated after it
            return
        depth = len(line["indent"]) // 2
        name = line["suite"] or line["name"]
        if depth < len(suites) and suites[depth] == name:
            del suites[depth:]  # the end of a suite
        elif line["suite"]:
            suites[depth:] = [name]
        else:
            result = "skipped" if line["directive"] else _NODE_MARKS[line["mark"]]
            yield TestId(" > ".join((*suites[:depth], name))), result


_CARGO = re.compile(
    r"^running (\d{1,9}) tests?$"
    r"|^test result: (ok|FAILED)\. (\d{1,9}) passed; (\d{1,9}) failed; (\d{1,9}) ignored; (\d{1,9}) measured;",
    re.MULTILINE,
)


def _cargo(text: str) -> TestCounts | None:
    """Each test binary announces how many tests it runs. If it does not end with a result, all of them failed."""
    counts, announced = TestCounts(), None
    lines = [match.groups() for match in _CARGO.finditer(text)]
    for running, verdict, *numbers in lines:
        if running is not None:
            counts.count("errors", announced or 0)
            announced = int(running)
            continue
        passed, failures, ignored, measured = map(int, numbers)
        part = TestCounts(passed + failures + ignored + measured, failures=failures, skipped=ignored)
        if part.tests != announced or (verdict == "FAILED") != (failures > 0):
            raise Contradiction
        counts.add(part)
        announced = None
    counts.count("errors", announced or 0)
    return counts if any(verdict for _, verdict, *_ in lines) else None


_CARGO_TEST = re.compile(r"^test (\S.{0,500}?)(?: - should panic)? \.\.\. (ok|FAILED|ignored)\b", re.MULTILINE)
_CARGO_DOC_TEST = re.compile(r"(\S{1,300}\.rs) - (.{0,300}?) ?\(line \d{1,9}\)(.{0,100})")
_CARGO_RESULTS: dict[str, TestResult] = {"ok": "passed", "FAILED": "failures", "ignored": "skipped"}


def _list_cargo(text: str) -> TestResults:
    return collect_results((_cargo_test(name), _CARGO_RESULTS[result]) for name, result in _CARGO_TEST.findall(text))


def _cargo_test(name: str) -> TestId:
    """A doc test is named by its file and the item that it documents; the number of its line changes easily."""
    doc_test = _CARGO_DOC_TEST.fullmatch(name)
    return TestId(f"{doc_test[2]}{doc_test[3]}", DOC_TESTS, doc_test[1]) if doc_test else TestId(name)


def _tap(text: str) -> TestCounts | None:
    """Node prints TAP, too, with a summary of its own, which counts a test with subtests once."""
    return None if _NODE_TAP.search(text) else count_tap(text)


_PLAIN = re.compile(r"^[^\d\n]{0,80}(\d{1,9}) passed(?:,? (?:and )?(\d{1,9}) failed)?\b", re.MULTILINE)


def _plain(text: str) -> TestCounts | None:
    """Read the last `3 passed, 1 failed` at the beginning of a line, or after a few words. Any program can print it."""
    *_, last = [None, *_PLAIN.finditer(text)]
    if last is None:
        return None
    passed, failures = (int(number or 0) for number in last.groups())
    return TestCounts(passed + failures, failures=failures)


class OutputFormat(NamedTuple):
    name: TestFormat
    words: tuple[str, ...]
    """One of them is in every output of this format."""
    parse: Callable[[str], TestCounts | None]
    """Counts the tests. Returns None if the output is not of this format."""
    list_tests: Callable[[str], TestResults] = lambda _: {}
    """Lists the tests that the output names."""


FORMATS = (
    OutputFormat("pytest", (" in ",), _pytest),
    OutputFormat("unittest", ("Ran ",), _unittest),
    OutputFormat("vitest", ("Test Files ", "No test files ", " RUN "), _vitest),
    OutputFormat("jest", ("Test Suites:", "No tests found"), _jest),
    OutputFormat("mocha", (" passing (",), _mocha),
    OutputFormat("node", (" cancelled ",), _node, _list_node),
    OutputFormat("go", ("=== RUN", "ok  \t", "FAIL\t", '"Action":'), count_go, list_go),
    OutputFormat("cargo", ("test result: ",), _cargo, _list_cargo),
    OutputFormat("tap", ("1..", "TAP version"), _tap, list_tap),
)
PLAIN = OutputFormat("plain", (), _plain)
"""The format of any program. It counts if no test runner is recognised."""


class ParsedTests(NamedTuple):
    format: TestFormat
    counts: TestCounts
    results: TestResults | None = None
    """The verdict of each test. None if the output does not name them all."""


def parse_test_output(text: str) -> list[ParsedTests]:
    """Return the tests in the output of a test command, for each test runner; none if they cannot be determined.

    Several runs of one test runner are added up if each has a beginning and a summary of its own. If there are several
    test runners, only those that name their tests count.
    """
    text = _strip_escapes(text)
    parsed: list[ParsedTests] = []
    contradictory = False
    for output_format in FORMATS:
        if any(word in text for word in output_format.words):
            try:
                counts = output_format.parse(text)
            except Contradiction:
                contradictory = True
                continue
            if counts is not None:
                parsed.append(ParsedTests(output_format.name, counts, output_format.list_tests(text) or None))
    if not parsed and not contradictory and (counts := PLAIN.parse(text)) is not None:
        return [ParsedTests(PLAIN.name, counts)]
    is_single = len(parsed) == 1 and not contradictory
    return parsed if is_single else [tests for tests in parsed if tests.results is not None]


_ESCAPE = re.compile(r"\x1b(?:\[[0-?]{0,99}[ -/]{0,9}[@-~]|\][^\x07\x1b\n]{0,999}(?:\x07|\x1b\\)|[@-Z\\^_])")


def _strip_escapes(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _ESCAPE.sub("", text) if "\x1b" in text else text
