"""One evaluator's section of the markdown report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from youbencha.report.figures import STATUS_SIGNS
from youbencha.report.findings import AssertionRow, FileTable, findings
from youbencha.report.formatting import duration
from youbencha.report.markdown_text import block, code, escaped, paragraph, table

if TYPE_CHECKING:
    from youbencha.log import EvaluationError, EvaluationResult


def evaluator_section(result: EvaluationResult) -> Iterator[str]:
    found = findings(result)
    yield f"### {STATUS_SIGNS[result.status]} {escaped(result.evaluator)}"
    yield from _message(result)
    if found.assertions:
        yield _assertions(found.assertions)
    if found.figures:
        rows = ((escaped(each.label), escaped(each.value, 600)) for each in found.figures)
        yield table(("Metric", "Value"), rows)
    for text in found.texts:
        yield f"**{escaped(text.label)}**"
        yield block(text.value)
    for files in found.files:
        yield from _files(files)
    if result.error is not None:
        yield from _error(result.error)
    if result.artifacts:
        yield "\n".join(f"- {code(each.path)} {escaped(each.description or each.type)}" for each in result.artifacts)


def _message(result: EvaluationResult) -> Iterator[str]:
    verdict = f"**{result.status}** in {duration(result.duration_ms)}"
    if "\n" in result.message.strip():
        yield f"{verdict}:"
        yield block(result.message)
    else:
        yield f"{verdict}: {escaped(result.message, 2000)}"


def _assertions(assertions: tuple[AssertionRow, ...]) -> str:
    """For a judge: its scores, the thresholds, and its reasons."""
    if any(each.score is not None and each.threshold is not None for each in assertions):
        header = ("", "Assertion", "Score", "Threshold", "Reason")
    else:
        header = ("", "Assertion", "Actual", "Expected", "Note")
    return table(header, map(_assertion, assertions), numbers=(2, 3))


def _assertion(row: AssertionRow) -> tuple[str, ...]:
    sign = STATUS_SIGNS["passed" if row.passed else "failed"]
    return (sign, escaped(row.name), escaped(row.actual), escaped(row.expected), escaped(row.message, 600))


def _files(files: FileTable) -> Iterator[str]:
    if not files.rows:
        return
    yield f"**{escaped(files.title)}**"
    rows = [(code(path), *map(escaped, others)) for path, *others in files.rows]
    yield table(tuple(map(escaped, files.columns)), rows, numbers=files.numbers)
    if files.note:
        yield f"… {files.note}"


def _error(error: EvaluationError) -> Iterator[str]:
    name = f"{code(error.code)}: " if error.code else ""
    yield f"**Error** {name}{escaped(error.message, 2000)}"
    if error.hint:
        yield paragraph(error.hint)
    if error.stack_trace:
        trace = block(error.stack_trace)
        yield f"<details>\n<summary>Stack trace</summary>\n\n{trace}\n\n</details>"
