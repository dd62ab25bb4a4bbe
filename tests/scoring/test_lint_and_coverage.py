"""Linters and coverage tools. The files in tests/data were written by the real ones."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from youbencha.scoring.measures import CodeCoverage, count_issues, parse_coverage

DATA = Path(__file__).parents[1] / "data"
LINT = DATA / "lint_outputs"
REPORTS = DATA / "coverage_reports"

ISSUES = {
    "clippy": (0, 4),
    "eslint": (1, 5),
    "eslint-colour": (1, 5),
    "flake8": (1, 6),
    "gcc": (0, 2),
    "go-vet": (2, 2),
    "mypy": (1, 2),
    "mypy-clean": (0, 0),
    "pylint": (20, 5),
    "ruff-broken": (2, None),
    "ruff-clean": (0, 0),
    "ruff-colour": (1, 4),
    "ruff-concise": (1, 4),
    "ruff-full": (1, 4),
    "tsc": (1, 2),
    "tsc-pretty": (1, 2),
}


def test_every_lint_output_is_expected() -> None:
    assert {path.stem for path in LINT.iterdir()} == set(ISSUES)


@pytest.mark.parametrize("name", ISSUES)
def test_real_linters(name: str) -> None:
    exit_code, issues = ISSUES[name]
    text = (LINT / f"{name}.txt").read_text(encoding="utf-8")
    assert count_issues(text, exit_code) == issues
    assert count_issues(text.replace("\n", "\r\n"), exit_code) == issues


def test_several_linters_in_one_command() -> None:
    both = "".join((LINT / f"{name}.txt").read_text() for name in ("flake8", "mypy"))
    assert count_issues(both, 1) == 8


@pytest.mark.parametrize(
    ("text", "exit_code", "issues"),
    [
        ("", 0, 0),
        ("", 1, None),
        ("a.py:1:1: E1 x\n", None, None),  # it did not end
        ("Traceback (most recent call last):\n  File \"x.py\", line 3, in <module>\n", 1, None),
        ("a.py:1: error: x\na.py:1: note: see y\n", 1, 1),
        ("main.go:3:1: undefined: x (typecheck)\n1 issues:\n* typecheck: 1\n", 1, 1),
        ("Would reformat: a.py\n", 1, None),
        ("12:30: lunch\n", 0, 0),
    ],
)  # fmt: skip
def test_other_outputs_of_linters(text: str, exit_code: int | None, issues: int | None) -> None:
    assert count_issues(text, exit_code) == issues


def test_the_ruff_of_this_project(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import os\nimport sys\n")
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "a.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert count_issues(done.stdout, done.returncode) == 2


@given(st.text(alphabet=":1a.-> \n(),|[]error", max_size=200), st.none() | st.integers(0, 2))
def test_no_lint_output_raises(text: str, exit_code: int | None) -> None:
    issues = count_issues(text, exit_code)
    assert issues is None or issues >= 0


@pytest.mark.parametrize("part", ["\n", "a", ":", "1:1", "a:1:", "error: a\n", "(1,", " 1:1 ", "F401 x\n", "\x1b[0"])
def test_linting_garbage_takes_linear_time(part: str) -> None:
    started = time.process_time()
    count_issues(part * (400_000 // len(part)), 1)
    assert time.process_time() - started < 4


COVERAGE = {
    "coverage-py-lines.json": CodeCoverage(0.75, None),
    "coverage-py-lines.xml": CodeCoverage(0.75, None),
    "coverage-py.json": CodeCoverage(0.75, 0.75),
    "coverage-py.lcov": CodeCoverage(0.75, 0.75),
    "coverage-py.xml": CodeCoverage(0.75, 0.75),
    "go-cover.out": CodeCoverage(0.5, None),
    "vitest-cobertura-coverage.xml": CodeCoverage(5 / 9, 0.5),
    "vitest-coverage-summary.json": CodeCoverage(5 / 9, 0.5),
    "vitest-lcov.info": CodeCoverage(5 / 9, 0.5),
}


def test_every_coverage_report_is_expected() -> None:
    assert {path.name for path in REPORTS.iterdir()} == set(COVERAGE)


@pytest.mark.parametrize("name", COVERAGE)
def test_real_coverage_reports(name: str) -> None:
    assert parse_coverage((REPORTS / name).read_bytes()) == COVERAGE[name]


@pytest.mark.parametrize(
    "report",
    [
        b"",
        b"{}",
        b"[1]",
        b"{" * 100_000,
        b'{"a":' * 100_000,
        b'{"total": {"lines": {"covered": 5, "total": 4}, "branches": {}}}',
        b'{"total": {"lines": {"covered": 0, "total": 0}, "branches": {"covered": 0, "total": 0}}}',
        b'{"total": {"lines": {"covered": "5", "total": "5"}, "branches": {}}}',
        b'{"totals": {"covered_lines": -1, "num_statements": 4}}',
        b'{"totals": {"covered_lines": 1, "num_statements": 4, "covered_branches": 9, "num_branches": 2}}',
        b"<coverage/>",
        b"<report lines-covered='1' lines-valid='1'/>",
        b"<coverage lines-covered='1' lines-valid='1'>",
        b"<!DOCTYPE coverage [<!ENTITY a 'b'>]><coverage lines-covered='1' lines-valid='1'/>",
        b"<?xml version='1.0' encoding='no-such'?><coverage lines-covered='1' lines-valid='1'/>",
        b"LF:4\nLH:5\nend_of_record\n",
        b"TN:\nSF:a.js\nend_of_record\n",
        b"mode: set\n",
        b"mode: set\na.go:1.1,2.2 x 1\n",
    ],
)
def test_reports_that_say_nothing(report: bytes) -> None:
    assert parse_coverage(report) is None


def test_records_of_lcov_are_added_up() -> None:
    assert parse_coverage(b"LF:4\nLH:1\nBRF:2\nBRH:1\nend_of_record\nLF:6\nLH:4\nend_of_record\n") == CodeCoverage(
        0.5, 0.5
    )


def test_blocks_of_go_that_several_packages_cover() -> None:
    block = b"a.go:1.1,2.2 3"
    assert parse_coverage(b"mode: set\n%s 0\n%s 1\nb.go:1.1,2.2 1 0\n" % (block, block)) == CodeCoverage(0.75, None)


def test_coverage_score() -> None:
    assert CodeCoverage(0.5, 1.0).score == 0.75
    assert CodeCoverage(0.5, None).score == 0.5


NUMBERS = st.integers(-5, 10**12)


@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS)
def test_shares_are_between_0_and_1(covered: int, total: int, branches: int, all_branches: int) -> None:
    lines = {"covered": covered, "total": total, "pct": 3}
    report = {"total": {"lines": lines, "branches": {"covered": branches, "total": all_branches}}}
    coverage = parse_coverage(json.dumps(report).encode())
    assert coverage is None or 0 <= coverage.score <= 1


@given(st.binary(max_size=200) | st.text(alphabet='{}[]":,1<>/ LFHmode\n', max_size=100).map(str.encode))
def test_no_report_raises(report: bytes) -> None:
    parse_coverage(report)
