"""Read what the steps of a validation report besides tests: lint issues, coverage, a reward.

The reports are not trusted: the agent's code may have written them.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple
from xml.parsers import expat

ISSUE_COST = 0.1

_ESCAPE = re.compile(r"\x1b\[[0-?]{0,99}[ -/]{0,9}[@-~]")

_ISSUE = re.compile(
    r"^(?:"
    # path:1:2: message, of ruff (concise), flake8, mypy, pylint, gcc, go vet, golangci-lint, shellcheck -f gcc
    r"(?!\s|[0-9]{1,20}:)[^\n:]{1,500}:[0-9]{1,9}(?::[0-9]{1,9})?: (?!note\b|info\b|help\b)\S"
    # path(1,2): error TS2322: message, of tsc; and MSBuild
    r"|(?!\s)[^\n(]{1,500}\([0-9]{1,9},[0-9]{1,9}\): (?:error|warning)\b"
    # path:1:2 - error TS2322: message, of tsc --pretty
    r"|(?!\s)[^\n:]{1,500}:[0-9]{1,9}:[0-9]{1,9} - (?:error|warning)\b"
    # 1:2  error  message  rule, of eslint
    r"|[ \t]{1,20}[0-9]{1,9}:[0-9]{1,9}[ \t]{1,20}(?:error|warning)[ \t]"
    # F401 [*] message, on the line before ` --> path:1:2`, of ruff
    r"|[A-Z]{1,6}[0-9]{2,5} [^\n]{1,500}\n *--> "
    # error[E0308]: message, on the line before ` --> path:1:2`, of rustc and clippy
    r"|(?:error|warning)(?:\[[A-Za-z0-9:_-]{1,60}\])?: [^\n]{1,500}\n *--> "
    r")",
    re.MULTILINE,
)
_TOTAL = re.compile(
    r"^(?:Found ([0-9]{1,9}) errors?\b"  # ruff, mypy, tsc
    r"|[✖×] ([0-9]{1,9}) problems? \("  # eslint
    r"|([0-9]{1,9}) issues?:?$)",  # golangci-lint
    re.MULTILINE,
)


def count_issues(text: str, exit_code: int | None) -> int | None:
    """Count the reported issues. None if their number is unknown: the command failed and lists none, or did not end.

    Some linters list every issue, some also print how many there are, and a command may run several: the larger number
    counts.
    """
    if exit_code is None:
        return None
    text = _ESCAPE.sub("", text.replace("\r\n", "\n"))
    listed = sum(1 for _ in _ISSUE.finditer(text))
    stated = sum(int(number) for numbers in _TOTAL.findall(text) for number in numbers if number)
    issues = max(listed, stated)
    return issues if issues or exit_code == 0 else None


def lint_score(issues: int | None, baseline_issues: int | None) -> float | None:
    """Return 1, less a tenth for each issue more than in the untouched task.

    Output that could not be parsed scores 0 if that of the untouched task could be; otherwise nothing is measured.
    """
    if baseline_issues is None:
        return None
    if issues is None:
        return 0.0
    return round(max(0.0, 1 - ISSUE_COST * max(0, issues - baseline_issues)), 9)


class CodeCoverage(NamedTuple):
    """Shares between 0 and 1."""

    lines: float
    branches: float | None
    """None if the report does not have them, or the code has none."""

    @property
    def score(self) -> float:
        """The mean of lines and branches; lines alone if branches are unknown."""
        return self.lines if self.branches is None else (self.lines + self.branches) / 2


_Tally = tuple[int, int]
"""How many are covered, of how many."""


def parse_coverage(report: bytes) -> CodeCoverage | None:
    """Read the totals of a report: istanbul's summary, JSON of coverage.py, Cobertura XML, lcov, or a profile of Go.

    The format is recognised by the content. None if it is none of these, contradicts itself, or is about no code.
    """
    begin = report[:200].lstrip().removeprefix(b"\xef\xbb\xbf")
    if begin.startswith(b"{"):
        return _read_json(report)
    if begin.startswith(b"<"):
        return _read_cobertura(report)
    text = report.decode("utf-8", "replace")
    return _read_go_profile(text) if text.startswith("mode: ") else _read_lcov(text)


def _coverage_from(lines: _Tally, branches: _Tally | None) -> CodeCoverage | None:
    line_share, branch_share = _share(lines), _share(branches or (0, 0))
    if line_share is None or (branches is not None and branches[1] and branch_share is None):
        return None
    return CodeCoverage(line_share, branch_share)


def _share(tally: _Tally) -> float | None:
    covered, total = tally
    return covered / total if 0 <= covered <= total and total else None


def _read_json(report: bytes) -> CodeCoverage | None:
    try:
        data = json.loads(report)
    except (ValueError, RecursionError):
        return None
    match data:
        case {"total": {"lines": {"covered": int(covered), "total": int(total)}, "branches": dict(branches)}}:
            return _coverage_from((covered, total), _tally(branches, "covered", "total"))
        case {"totals": {"covered_lines": int(covered), "num_statements": int(total)} as totals}:
            return _coverage_from((covered, total), _tally(totals, "covered_branches", "num_branches"))
    return None


def _tally(values: Mapping[str, Any], covered: str, total: str) -> _Tally | None:
    match values.get(covered), values.get(total):
        case int(part), int(whole):
            return part, whole
    return None


def _read_cobertura(report: bytes) -> CodeCoverage | None:
    """Read the attributes of the root. Definitions of entities are refused, and a document type is not fetched."""
    elements: list[Mapping[str, str]] = []

    def start(name: str, attributes: Mapping[str, str]) -> None:
        if not elements:
            elements.append(attributes if name == "coverage" else {})

    def doctype(_name: str, _system: str | None, _public: str | None, has_definitions: int) -> None:
        if has_definitions:
            raise ValueError("definitions are not allowed")

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.StartDoctypeDeclHandler = doctype
    try:
        parser.Parse(report, True)
    except (expat.ExpatError, LookupError, ValueError):  # the latter two: an unknown encoding
        return None
    root = {name: int(value) for name, value in elements[0].items() if _NUMBER.fullmatch(value)}
    lines = _tally(root, "lines-covered", "lines-valid")
    return _coverage_from(lines, _tally(root, "branches-covered", "branches-valid")) if lines else None


_NUMBER = re.compile(r"[0-9]{1,9}")
_LCOV = re.compile(r"^(LF|LH|BRF|BRH):([0-9]{1,9})\r?$", re.MULTILINE)
_GO_BLOCK = re.compile(r"^(\S{1,1000}:[0-9.]{1,30},[0-9.]{1,30}) ([0-9]{1,9}) ([0-9]{1,20})$", re.MULTILINE)


def _read_lcov(text: str) -> CodeCoverage | None:
    sums: Counter[str] = Counter()
    for name, number in _LCOV.findall(text):
        sums[name] += int(number)
    return _coverage_from((sums["LH"], sums["LF"]), (sums["BRH"], sums["BRF"]))


def _read_go_profile(text: str) -> CodeCoverage | None:
    """Go counts statements. A block is repeated if tests of several packages cover it."""
    statements: dict[str, int] = {}
    covered: dict[str, int] = {}
    for block, size, times in _GO_BLOCK.findall(text):
        statements[block] = int(size)
        if int(times):
            covered[block] = int(size)
    return _coverage_from((sum(covered.values()), sum(statements.values())), None)


REWARD = "reward"


class Reward(NamedTuple):
    score: float
    """Between 0 and 1."""
    values: Mapping[str, float]
    """All numbers that were written."""


def parse_reward(text: bytes) -> Reward | None:
    """Read the reward in a file. None if it is empty, not finite, out of range, or if none of its keys decides."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    values = data if isinstance(data, dict) else {REWARD: data}
    if not values or not all(_is_finite(value) for value in values.values()):
        return None
    score = values.get(REWARD, next(iter(values.values())) if len(values) == 1 else None)
    return Reward(float(score), values) if score is not None and 0 <= score <= 1 else None


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
