"""Sort an evaluator's metrics for display: figures, lists of files, and the rest as JSON.

They are sorted by their types, not by the evaluator's name, so that evaluators of other packages are shown as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from youbencha.report.figures import Figure, cost, tokens
from youbencha.text import format_count, format_duration, format_percent, label, short_value, visible

if TYPE_CHECKING:
    from youbencha.store.bundle import AssertionResult, EvaluationResult

MAX_CHANGED_FILES = 50
MAX_SIMILAR_FILES = 20
_SHARES = frozenset({"similarity", "aggregate_similarity", "threshold", "score", "pass_rate"})
"""Metrics from 0 to 1 that are shown as a percentage."""
_MAX_COLUMNS = 6
_OMITTED = "_omitted"
_NOTHING = frozenset({"signal"})
"""Metrics for which null means that there was none, not that it is unknown."""
_IN_OTHER_COLUMNS = frozenset({"binary"})
"""The columns for lines show that a file is binary."""


class FileTable(NamedTuple):
    title: str
    columns: tuple[str, ...]
    numbers: tuple[int, ...]
    """Which columns have numbers."""
    rows: tuple[tuple[str, ...], ...]
    shares: tuple[float | None, ...]
    """For each row a value from 0 to 1, for a bar."""
    left_out: int

    @property
    def note(self) -> str:
        return f"and {format_count(self.left_out)} more" if self.left_out else ""


class AssertionRow(NamedTuple):
    name: str
    passed: bool
    expected: str
    actual: str
    message: str
    score: float | None
    """From 0 to 1, if there is one."""
    threshold: float | None


class Findings(NamedTuple):
    figures: tuple[Figure, ...]
    texts: tuple[Figure, ...]
    """Texts of several lines, such as a program's output."""
    files: tuple[FileTable, ...]
    assertions: tuple[AssertionRow, ...]


class Explanation(NamedTuple):
    reasons: tuple[str, ...]
    """The failed assertions, with a judge's reasons; without those that the message already explains."""
    output: tuple[str, ...]


def explanation(result: EvaluationResult, most: int = 12) -> Explanation:
    """Say why an evaluator did not pass, in at most that many reasons and lines of output."""
    if result.status == "passed":
        return Explanation((), ())
    failed = [assertion for assertion in map(_assertion, result.assertions) if not assertion.passed]
    reasons = [
        _reason(assertion) for assertion in failed if not (assertion.message and assertion.message in result.message)
    ]
    more = [f"and {format_count(len(reasons) - most)} more"] if len(reasons) > most else []
    return Explanation((*reasons[:most], *more), last_lines(result.metrics, most))


def last_lines(metrics: Mapping[str, Any], most: int = 12) -> tuple[str, ...]:
    """Return the last lines that are not blank of a program's output, in the metric `output_tail`."""
    output = metrics.get("output_tail")
    lines = output.split("\n") if isinstance(output, str) else []
    # A program that shows its progress prints a line over the one before.
    shown = (visible(line.rstrip("\r").rpartition("\r")[2]).rstrip() for line in lines)
    return tuple(line for line in shown if line)[-most:]


def _reason(row: AssertionRow) -> str:
    expected = f"expected {row.expected or 'it to hold'}, got {row.actual or 'no'}"
    return ": ".join(filter(None, (row.name, expected, row.message)))


def findings(result: EvaluationResult) -> Findings:
    metrics = {name: value for name, value in result.metrics.items() if value is not None or name not in _NOTHING}
    tables = {name: rows for name, rows in metrics.items() if _is_file_list(rows)}
    texts = {name: text for name, text in metrics.items() if isinstance(text, str) and "\n" in text.strip()}
    shown_elsewhere = {*tables, *(name + _OMITTED for name in tables), *texts, *_in_assertions(result)}
    figures = [_figure(name, value) for name, value in metrics.items() if name not in shown_elsewhere]
    if result.usage is not None:
        figures += [Figure("Its own tokens", tokens(result.usage)), Figure("Its own cost", cost(result.usage))]
    return Findings(
        figures=tuple(figures),
        texts=tuple(Figure(label(name), text) for name, text in texts.items()),
        files=tuple(_file_table(name, rows, metrics.get(name + _OMITTED)) for name, rows in tables.items()),
        assertions=tuple(map(_assertion, result.assertions)),
    )


def _in_assertions(result: EvaluationResult) -> set[str]:
    """Metrics that the assertions show already: a judge's scores and reasons."""
    metrics = result.metrics
    shown = {
        assertion.name
        for assertion in result.assertions
        if assertion.name in metrics and metrics[assertion.name] == assertion.actual
    }
    reasons = metrics.get("reasons")
    messages = {assertion.name: assertion.message for assertion in result.assertions}
    if isinstance(reasons, Mapping) and all(messages.get(name) == reason for name, reason in reasons.items()):
        shown.add("reasons")
    return shown


def share(value: Any) -> float | None:
    """A number from 0 to 1, else None."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= 1 else None


def _is_file_list(value: Any) -> bool:
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and bool(value)
        and all(isinstance(row, Mapping) and isinstance(row.get("path"), str) for row in value)
    )


def _figure(name: str, value: Any) -> Figure:
    if name.endswith("_ms") and isinstance(value, int | float):
        return Figure(label(name.removesuffix("_ms")), format_duration(value))
    return Figure(label(name), _metric(name, value))


def _file_table(name: str, rows: Sequence[Mapping[str, Any]], omitted: Any) -> FileTable:
    """`omitted` is the number of files that the evaluator itself left out."""
    more = omitted if isinstance(omitted, int) else 0
    if not all("similarity" in row for row in rows):
        return _table(label(name), rows[:MAX_CHANGED_FILES], max(0, len(rows) - MAX_CHANGED_FILES) + more)
    differing = [row for row in rows if row["similarity"] != 1]
    differing.sort(key=lambda row: (share(row["similarity"]) or 0.0, row["path"]))
    shown = differing[:MAX_SIMILAR_FILES]
    return _table("Least similar files", shown, len(differing) - len(shown) + more)


def _table(title: str, rows: Sequence[Mapping[str, Any]], left_out: int) -> FileTable:
    keys = dict.fromkeys(["path", *(key for row in rows for key in row if key not in _IN_OTHER_COLUMNS)])
    columns = list(keys)[:_MAX_COLUMNS]
    return FileTable(
        title=title,
        columns=tuple("File" if key == "path" else label(key) for key in columns),
        numbers=tuple(at for at, key in enumerate(columns) if _all_numbers(key, rows)),
        rows=tuple(tuple(_cell(key, row) for key in columns) for row in rows),
        shares=tuple(share(row.get("similarity")) for row in rows),
        left_out=left_out,
    )


def _all_numbers(key: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    return all(isinstance(row.get(key), int | float | None) for row in rows)


def _cell(key: str, row: Mapping[str, Any]) -> str:
    value = row.get(key)
    if value is None and key in ("additions", "deletions") and key in row:
        return "binary"
    return _metric(key, value)


def _metric(name: str, value: Any) -> str:
    fraction = share(value)
    if name in _SHARES and fraction is not None:
        return format_percent(fraction)
    return "none" if value in ([], (), {}) else short_value(value)


def _assertion(result: AssertionResult) -> AssertionRow:
    no_values = result.expected is None and result.actual is None
    is_score = isinstance(result.actual, float) or isinstance(result.expected, float)  # 1 of 1 files is not a score
    return AssertionRow(
        name=result.name,
        passed=result.passed,
        expected="" if result.expected is None else short_value(result.expected),
        actual="" if no_values else short_value(result.actual),
        message=result.message,
        score=share(result.actual) if is_score else None,
        threshold=share(result.expected) if is_score else None,
    )
