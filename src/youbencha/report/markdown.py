"""Render `report.md` in GitHub's Markdown. Untrusted text is escaped, also in tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from youbencha.report import figures
from youbencha.report.figures import STATUS_SIGNS, Figure
from youbencha.report.findings import AssertionRow, FileTable, findings
from youbencha.text import count, duration, one_line, shortened, visible

if TYPE_CHECKING:
    from youbencha.log.model import ErrorRecord
    from youbencha.store.bundle import AgentRun, EvaluationError, EvaluationResult, HookResult, ResultsBundle


_AGENT_IN_SHORT = frozenset({"Agent", "Agent status", "Model", "Tokens", "Cost"})

_GAP = "&#8203;"
"""An invisible character that keeps `@name` and `#1` from becoming mentions and references."""

_ESCAPED = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;", "\\": "&#92;", "@": "@" + _GAP, "#": "#" + _GAP}
_ESCAPED |= {sign: f"\\{sign}" for sign in "`*_[]~"}
"""Escapes for characters that have a meaning in GitHub's Markdown.

They are entities if a backslash is not enough: `\\|` ends a cell after another backslash.
"""

_MEANINGFUL = re.compile(r"[&<>|\\`*_\[\]~]|@(?=\w)|#(?=\d)")
_BLOCK_START = re.compile(r"^(\d*)([-+#=:]|(?<=\d)[.)])")
_BACKTICKS = re.compile("`+")
_LONGEST_BLOCK = 8000


def render_markdown(bundle: ResultsBundle) -> str:
    sections = (*_title(bundle), *_summary(bundle), *_outcome(bundle), *_test_case(bundle), *_execution(bundle))
    sections += (*_agent(bundle), *_evaluators(bundle), *_hooks(bundle), *_artifacts(bundle))
    return "\n\n".join(sections) + "\n"


def summary_table(bundle: ResultsBundle) -> str:
    """Return the most important figures of the run."""
    sign = STATUS_SIGNS[bundle.summary.overall_status]
    rows = [
        Figure("Verdict", f"{sign} {figures.verdict(bundle)}"),
        Figure("Evaluators", figures.evaluator_counts(bundle)),
    ]
    rows += figures.outcome_figures(bundle)[:2]
    rows += [Figure("Duration", duration(bundle.execution.duration_ms))]
    if bundle.agent is not None:
        rows += [each for each in figures.agent_figures(bundle.agent) if each.label in _AGENT_IN_SHORT]
    if judging := figures.judging_cost(bundle):
        rows.append(Figure("Judging cost", judging))
    return _figure_table(rows)


def verdict_table(bundle: ResultsBundle) -> str:
    """Return a table with a row for each evaluator."""
    rows = (
        (STATUS_SIGNS[each.status], escaped(each.evaluator), escaped(each.message), duration(each.duration_ms))
        for each in bundle.evaluators
    )
    return table(("", "Evaluator", "Message", "Time"), rows, numbers=(3,))


def title(bundle: ResultsBundle) -> str:
    return f"{STATUS_SIGNS[bundle.summary.overall_status]} {escaped(bundle.test_case.name)}"


def _title(bundle: ResultsBundle) -> Iterator[str]:
    yield f"# {title(bundle)}"
    if bundle.test_case.description:
        yield paragraph(bundle.test_case.description)


def _summary(bundle: ResultsBundle) -> Iterator[str]:
    yield "## Summary"
    yield summary_table(bundle)
    if bundle.evaluators:
        yield verdict_table(bundle)


def _outcome(bundle: ResultsBundle) -> Iterator[str]:
    if bundle.outcome is not None:
        yield "## Outcome"
        yield _figure_table(figures.outcome_figures(bundle))


def _test_case(bundle: ResultsBundle) -> Iterator[str]:
    yield "## Test Case"
    yield _figure_table(figures.case_figures(bundle))


def _execution(bundle: ResultsBundle) -> Iterator[str]:
    yield "## Execution"
    yield _figure_table(figures.execution_figures(bundle))
    if bundle.execution.phases_ms:
        rows = ((escaped(name), duration(spent)) for name, spent in figures.phases(bundle))
        yield table(("Phase", "Time"), rows, numbers=(1,))
    yield _folded("Run identity", _figure_table(figures.identity_figures(bundle)))


def _agent(bundle: ResultsBundle) -> Iterator[str]:
    yield "## Agent"
    agent = bundle.agent
    if agent is None:
        yield "No agent ran: a directory was judged."
        return
    yield _figure_table(figures.agent_figures(agent))
    if agent.tools_used:
        rows = ((code(name), count(number)) for name, number in figures.most_used(agent.tools_used))
        yield table(("Tool", "Calls"), rows, numbers=(1,))
    yield from _records(agent)


def _records(agent: AgentRun) -> Iterator[str]:
    for heading, records in (("Errors", agent.errors), ("Warnings", agent.warnings)):
        if records:
            yield f"### {heading}"
            yield "\n".join(map(_record, records))


def _record(record: ErrorRecord) -> str:
    name = f"{code(record.code)}: " if record.code else ""
    hint = f"  \n  {escaped(record.hint)}" if record.hint else ""
    return f"- {name}{escaped(record.message)}{hint}"


def _evaluators(bundle: ResultsBundle) -> Iterator[str]:
    yield "## Evaluators"
    if not bundle.evaluators:
        yield "None ran."
    for result in bundle.evaluators:
        yield from evaluator_section(result)


def _hooks(bundle: ResultsBundle) -> Iterator[str]:
    moments = (("before the agent", bundle.hooks.pre_execution), ("after", bundle.hooks.post_evaluation))
    rows = [_hook(moment, hook) for moment, hooks in moments for hook in hooks]
    if rows:
        yield "## Hooks"
        yield table(("", "Hook", "When", "Message", "Time"), rows, numbers=(4,))


def _hook(moment: str, hook: HookResult) -> tuple[str, ...]:
    message = f"{hook.message} ({hook.error.message})" if hook.error else hook.message
    sign = STATUS_SIGNS[hook.status]
    return (sign, escaped(hook.hook), moment, escaped(message), duration(hook.duration_ms))


def _artifacts(bundle: ResultsBundle) -> Iterator[str]:
    rows = [(each.label, code(each.value)) for each in figures.artifacts(bundle)]
    yield "## Artifacts"
    yield table(("What", "File"), rows) if rows else "None."


def _figure_table(rows: Iterable[Figure]) -> str:
    shown = ((f"**{each.label}**", code(each.value) if each.is_code else escaped(each.value)) for each in rows)
    return table(("", ""), shown)


def _folded(heading: str, content: str) -> str:
    return f"<details>\n<summary>{heading}</summary>\n\n{content}\n\n</details>"


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
    """Return a table of assertions; for a judge with scores, thresholds and reasons."""
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
        yield _folded("Stack trace", block(error.stack_trace))


def escaped(text: str, limit: int = 300) -> str:
    """Escape a text for cells and sentences: one line, without markup."""
    text = _MEANINGFUL.sub(lambda found: _ESCAPED[found.group()], one_line(text, limit))
    return text.replace("$", "&#36;") if text.count("$") > 1 else text  # two are needed for a formula


def paragraph(text: str, limit: int = 2000) -> str:
    """Escape a text for a paragraph, so that it is not a heading, a list or a table."""
    return _BLOCK_START.sub(lambda found: f"{found[1]}&#{ord(found[2])};", escaped(text, limit))


def code(text: str, limit: int = 300) -> str:
    """Format a name, a path or a hash as code; as HTML if it contains backticks or a bar."""
    line = one_line(text, limit)
    if not line:
        return ""
    if _BACKTICKS.search(line) or "|" in line:
        return f"<code>{escaped(line, limit * 2)}</code>"
    return f"`{line}`"


def block(text: str, language: str = "text") -> str:
    """Format several lines as a code block. The fence is longer than any in the text."""
    body = shortened(visible(text[: _LONGEST_BLOCK * 2]), _LONGEST_BLOCK).strip("\n")
    fence = "`" * max(3, 1 + max((len(run) for run in _BACKTICKS.findall(body)), default=0))
    return f"{fence}{language}\n{body}\n{fence}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """Format a table of escaped cells. The columns in `numbers` are aligned to the right."""
    line = ["---:" if column in numbers else "---" for column in range(len(header))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, line, *rows))
