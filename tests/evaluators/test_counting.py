"""Which tests count in a validation, by name or by number, and what a reward file is worth."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from youbencha.evaluators.validation.reports import NOBODY, Authorship, ExpectedTests, Report, expect_tests, tally
from youbencha.scoring.measures import parse_reward
from youbencha.scoring.runner_results import TestCounts, TestId, TestResult

NUMBER = st.integers(0, 1000)
A, B, C = TestId("test_a", file="tests/a.py"), TestId("test_b", file="tests/a.py"), TestId("test_c", file="own.py")
AGENT = Authorship(files=frozenset({"own.py"}))


def numbers(counts: TestCounts) -> Report:
    return Report("printed", counts, None)


def named(**results: TestResult) -> Report:
    tests = {"a": A, "b": B, "c": C}
    return Report(
        "pytest", TestCounts.of_results(results.values()), {tests[name]: result for name, result in results.items()}
    )


@pytest.mark.parametrize(
    ("counts", "expected", "score"),
    [
        (TestCounts(10, failures=2, errors=1), 10, 0.7),
        (TestCounts(10, failures=2, errors=1), None, 0.7),
        (TestCounts(5), 10, 0.5),  # five tests were deleted
        (TestCounts(10, skipped=5), 10, 0.5),  # or skipped
        (TestCounts(20), 10, 1.0),  # ten are the agent's own
        (TestCounts(20, failures=1), 10, 0.9),
        (TestCounts(), 10, 0.0),
    ],
)
def test_without_names_the_numbers_count(counts: TestCounts, expected: int | None, score: float) -> None:
    counted = tally(numbers(counts), ExpectedTests(number=expected), NOBODY)
    assert counted is not None
    assert counted.score == pytest.approx(score)


@given(NUMBER, NUMBER, NUMBER, NUMBER, st.none() | NUMBER)
def test_a_passed_test_never_lowers_the_score(
    passed: int, failures: int, errors: int, skipped: int, expected: int | None
) -> None:
    counts = TestCounts(passed + failures + errors + skipped, failures, errors, skipped)
    better = TestCounts(counts.tests + 1, failures, errors, skipped)
    before, after = (tally(numbers(each), ExpectedTests(number=expected), NOBODY) for each in (counts, better))
    score = (before.score if before else None) or 0.0
    assert after is not None
    assert after.score is not None
    assert 0 <= score <= after.score <= 1


@pytest.mark.parametrize(
    ("reported", "score", "missing"),
    [
        (named(a="passed", b="passed"), 1.0, 0),
        (named(a="passed", b="failures"), 0.5, 0),
        (named(a="passed"), 0.5, 1),
        (named(a="passed", b="skipped"), 0.5, 1),
        (named(a="passed", b="passed", c="failures"), 1.0, 0),  # the agent's own test does not harm
        (named(b="failures", c="passed"), 0.0, 1),  # nor help
        (None, 0.0, 2),
    ],
)
def test_the_tests_of_the_reference_count(reported: Report | None, score: float, missing: int) -> None:
    reference = named(a="passed", b="passed", c="passed")
    expected = expect_tests(None, reference, AGENT, has_reference=True, sources=frozenset({"pytest"}))
    counted = tally(reported, expected, AGENT)
    assert counted is not None
    assert (counted.score, counted.missing) == (score, missing)


def test_tests_in_a_file_that_the_reference_changes_do_not_count() -> None:
    """The given version may contradict the solution, and the agent's is the agent's."""
    both = named(a="passed", c="passed")  # AGENT changed the file of c
    expected = expect_tests(both, both, AGENT, has_reference=True, sources=frozenset({"pytest"}))
    assert [test.name for test in expected.names or ()] == ["test_a"]


def test_tests_of_one_name_are_told_apart_by_their_files() -> None:
    tests = [TestId("add", file=f"{package}/calc.test.js") for package in "ab"]
    expected = ExpectedTests(names=frozenset(tests), is_complete=True, number=2)
    results: dict[TestId, TestResult] = {tests[0]: "failures", tests[1]: "passed"}
    counted = tally(Report("node", TestCounts.of_results(results.values()), results), expected, NOBODY)
    assert counted is not None
    assert counted.results == {"a/calc.test.js: add": "failures", "b/calc.test.js: add": "passed"}


def test_without_a_reference_what_the_agent_did_not_write_counts() -> None:
    start = named(a="failures")  # the file of b cannot be loaded at the start
    expected = expect_tests(start, None, NOBODY, has_reference=False, sources=frozenset({"pytest"}))
    counted = tally(named(a="passed", b="failures", c="passed"), expected, AGENT)
    assert counted is not None
    assert counted.results == {"test_a": "passed", "test_b": "failures"}
    assert counted.others.tests == 1


@pytest.mark.parametrize(
    ("test", "is_own"),
    [
        (TestId("TestOwn/some_case", "example.org/calc"), True),
        (TestId("TestHidden", "example.org/calc"), False),
        (TestId("tests::adds_twice"), True),
        (TestId("tests::adds_twice::case_1"), True),
        (TestId("adds_twice::given::case_1"), False),
        (TestId("add", "doc tests", "src/lib.rs"), True),
        (TestId("add", "doc tests", "src/main.rs"), True),
        (TestId("add", "doc tests", "src/other.rs"), False),
        (TestId("adds 3", "generated"), False),  # found nowhere: what cannot be told counts
    ],
)
def test_who_wrote_a_test_is_told_by_its_file_or_by_its_name(test: TestId, is_own: bool) -> None:
    author = Authorship(
        files=frozenset({"src/lib.rs", "crates/app/src/main.rs"}),
        own_text="fn adds_twice() {} func TestOwn(t *testing.T) {} TestHidden",
        given_text="mod given {} func TestHidden(t *testing.T) {}",
    )
    assert author.wrote(test) is is_own


@pytest.mark.parametrize(
    ("text", "score"),
    [
        (b"1", 1.0),
        (b"0.25\n", 0.25),
        (b'{"reward": 0.5, "tests": 12}', 0.5),
        (b'{"score": 0.75}', 0.75),
        (b'{"a": 1, "b": 0}', None),  # which of them decides?
        (b"", None),
        (b"NaN", None),
        (b"1.5", None),
        (b"-1", None),
        (b"true", None),
        (b'{"reward": "1"}', None),
        (b"[1]", None),
        (b"[" * 100_000, None),
    ],
)
def test_a_reward(text: bytes, score: float | None) -> None:
    reward = parse_reward(text)
    assert (reward.score if reward else None) == score


@pytest.mark.parametrize("report", ["reports/", "missing/"])
def test_tests_pass_whether_or_not_their_report_can_be_written(tmp_path: Path, report: str) -> None:
    (tmp_path / "reports").mkdir()
    (tmp_path / "test_a.py").write_text("import unittest\nclass A(unittest.TestCase):\n    def test_a(self): pass\n")
    hooks = str(files("youbencha.evaluators.validation.runner_hooks"))
    env = {**os.environ, "PYTHONPATH": hooks, "YOUBENCHA_TEST_REPORT": f"{tmp_path}/{report}"}
    subprocess.run([sys.executable, "-m", "unittest"], cwd=tmp_path, env=env, check=True, capture_output=True)
    assert (tmp_path / "reports" / "unittest.jsonl").exists() == (report == "reports/")
