"""Read coverage reports, which are not trusted: the agent's code may have written them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple


class CodeCoverage(NamedTuple):
    """Shares between 0 and 1."""

    lines: float
    branches: float | None
    """None if the report does not have them, or the code has none."""


class _Tally(NamedTuple):
    covered: int
    total: int

    @property
    def share(self) -> float | None:
        return self.covered / self.total if 0 <= self.covered <= self.total and self.total else None


def parse_coverage(report: bytes) -> CodeCoverage | None:
    """The totals of a report: istanbul's summary, JSON of coverage.py, Cobertura XML, lcov, or a profile of Go.

    The format is recognised by the content. None if it is none of these, contradicts itself, or is about no code.
    """
    begin = report[:200].lstrip().removeprefix(b"\xef\xbb\xbf")
    if begin.startswith(b"{"):
        return _in_json(report)
    if begin.startswith(b"<"):
        return _in_cobertura(report)
    text = report.decode("utf-8", "replace")
    return _in_go_profile(text) if text.startswith("mode: ") else _in_lcov(text)


def coverage_score(coverage: CodeCoverage | None) -> float | None:
    """The mean of lines and branches; lines alone if branches are unknown."""
    if coverage is None:
        return None
    return coverage.lines if coverage.branches is None else (coverage.lines + coverage.branches) / 2


def _of(lines: _Tally, branches: _Tally | None) -> CodeCoverage | None:
    share = lines.share
    if share is None or (branches is not None and branches.total and branches.share is None):
        return None
    return CodeCoverage(share, branches.share if branches is not None else None)


def _in_json(report: bytes) -> CodeCoverage | None:
    try:
        data = json.loads(report)
    except (ValueError, RecursionError):
        return None
    match data:
        case {"total": {"lines": {"covered": int(covered), "total": int(total)}, "branches": dict(branches)}}:
            return _of(_Tally(covered, total), _tally(branches, "covered", "total"))
        case {"totals": {"covered_lines": int(covered), "num_statements": int(total)} as totals}:
            return _of(_Tally(covered, total), _tally(totals, "covered_branches", "num_branches"))
    return None


def _tally(values: Mapping[str, Any], covered: str, total: str) -> _Tally | None:
    match values.get(covered), values.get(total):
        case int(part), int(whole):
            return _Tally(part, whole)
    return None


def _in_cobertura(report: bytes) -> CodeCoverage | None:
    """Read the attributes of the root. Definitions of entities are refused, and a document type is not fetched."""
    from xml.parsers import expat

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
    return _of(lines, _tally(root, "branches-covered", "branches-valid")) if lines else None


_NUMBER = re.compile(r"[0-9]{1,9}")
_LCOV = re.compile(r"^(LF|LH|BRF|BRH):([0-9]{1,9})\r?$", re.MULTILINE)
_GO_BLOCK = re.compile(r"^(\S{1,1000}:[0-9.]{1,30},[0-9.]{1,30}) ([0-9]{1,9}) ([0-9]{1,20})$", re.MULTILINE)


def _in_lcov(text: str) -> CodeCoverage | None:
    sums: Counter[str] = Counter()
    for name, number in _LCOV.findall(text):
        sums[name] += int(number)
    return _of(_Tally(sums["LH"], sums["LF"]), _Tally(sums["BRH"], sums["BRF"]))


def _in_go_profile(text: str) -> CodeCoverage | None:
    """Go counts statements. A block is repeated if tests of several packages cover it."""
    statements: dict[str, int] = {}
    covered: dict[str, int] = {}
    for block, size, times in _GO_BLOCK.findall(text):
        statements[block] = int(size)
        if int(times):
            covered[block] = int(size)
    return _of(_Tally(sum(covered.values()), sum(statements.values())), None)
