"""Describe a run as a document: the verdict first, then the agent, each evaluator, hooks and artifacts."""

from __future__ import annotations

from collections.abc import Iterator

from youbencha.log.model import ErrorRecord
from youbencha.report import figures
from youbencha.report.document import (
    Block,
    Code,
    Column,
    FactList,
    Folded,
    Heading,
    Line,
    NoteList,
    Paragraph,
    Preformatted,
    Span,
    Strong,
    Table,
)
from youbencha.report.figures import STATUS_SIGNS, Figure
from youbencha.report.findings import AssertionRow, FileTable, findings
from youbencha.store.bundle import AgentRun, EvaluationResult, HookResult, ResultsBundle
from youbencha.text import format_count, format_duration

_SUMMARY_LABELS = frozenset({"Agent", "Agent status", "Model", "Tokens", "Cost"})


def run_document(bundle: ResultsBundle) -> list[Block]:
    description = [Paragraph(bundle.test_case.description)] if bundle.test_case.description else []
    outcome: list[Block] = [Heading("Outcome"), _facts(figures.outcome_figures(bundle))] if bundle.outcome else []
    return [
        Heading(run_title(bundle), 1),
        *description,
        Heading("Summary"),
        *summary_blocks(bundle),
        *outcome,
        Heading("Test Case"),
        _facts(figures.case_figures(bundle)),
        *_execution(bundle),
        *_agent(bundle.agent),
        *_evaluators(bundle),
        *_hooks(bundle),
        *_artifacts(bundle),
    ]


def run_title(bundle: ResultsBundle) -> str:
    return f"{STATUS_SIGNS[bundle.summary.overall_status]} {bundle.test_case.name}"


def summary_blocks(bundle: ResultsBundle) -> list[Block]:
    """Return the most important figures of the run, and a row for each evaluator."""
    sign = STATUS_SIGNS[bundle.summary.overall_status]
    rows = [
        Figure("Verdict", f"{sign} {figures.verdict(bundle)}"),
        Figure("Evaluators", figures.evaluator_counts(bundle)),
        *figures.outcome_figures(bundle)[:2],
        Figure("Duration", format_duration(bundle.execution.duration_ms)),
    ]
    if bundle.agent is not None:
        rows += [figure for figure in figures.agent_figures(bundle.agent) if figure.label in _SUMMARY_LABELS]
    if judging := figures.judging_cost(bundle):
        rows.append(Figure("Judging cost", judging))
    if not bundle.evaluators:
        return [_facts(rows)]
    verdicts = [
        (STATUS_SIGNS[result.status], result.evaluator, result.message, format_duration(result.duration_ms))
        for result in bundle.evaluators
    ]
    columns = (Column(""), Column("Evaluator"), Column("Message"), Column("Time", number=True))
    return [_facts(rows), Table(columns, verdicts)]


def _facts(rows: list[Figure]) -> FactList:
    return FactList([(figure.label, Code(figure.value) if figure.is_code else figure.value) for figure in rows])


def _execution(bundle: ResultsBundle) -> Iterator[Block]:
    yield Heading("Execution")
    yield _facts(figures.execution_figures(bundle))
    if bundle.execution.phases_ms:
        rows = [(name, format_duration(milliseconds)) for name, milliseconds in figures.phases(bundle)]
        yield Table((Column("Phase"), Column("Time", number=True)), rows)
    yield Folded("Run identity", [_facts(figures.identity_figures(bundle))])


def _agent(agent: AgentRun | None) -> Iterator[Block]:
    yield Heading("Agent")
    if agent is None:
        yield Paragraph("No agent ran: a directory was judged.")
        return
    yield _facts(figures.agent_figures(agent))
    if agent.tools_used:
        rows = [(Code(name), format_count(number)) for name, number in figures.most_used(agent.tools_used)]
        yield Table((Column("Tool"), Column("Calls", number=True)), rows)
    for heading, records in (("Errors", agent.errors), ("Warnings", agent.warnings)):
        if records:
            yield Heading(heading, 3)
            yield NoteList([_record(record) for record in records])


def _record(record: ErrorRecord) -> Line:
    code: tuple[Span, ...] = (Code(record.code), ": ") if record.code else ()
    return (*code, record.message, f" → {record.hint}" if record.hint else "")


def _evaluators(bundle: ResultsBundle) -> Iterator[Block]:
    yield Heading("Evaluators")
    if not bundle.evaluators:
        yield Paragraph("None ran.")
    for result in bundle.evaluators:
        yield from evaluator_blocks(result)


def evaluator_blocks(result: EvaluationResult) -> Iterator[Block]:
    sorted_findings = findings(result)
    yield Heading(f"{STATUS_SIGNS[result.status]} {result.evaluator}", 3)
    verdict = (Strong(result.status), f" in {format_duration(result.duration_ms)}: ")
    if "\n" in result.message.strip():
        yield Paragraph(verdict)
        yield Preformatted(result.message)
    else:
        yield Paragraph((*verdict, result.message))
    if sorted_findings.assertions:
        yield _assertions(sorted_findings.assertions)
    if sorted_findings.figures:
        yield Table((Column("Metric"), Column("Value")), [(row.label, row.value) for row in sorted_findings.figures])
    for text in sorted_findings.texts:
        yield Paragraph(Strong(text.label))
        yield Preformatted(text.value)
    for files in sorted_findings.files:
        yield from _files(files)
    if error := result.error:
        code: tuple[Span, ...] = (Code(error.code), ": ") if error.code else ()
        yield Paragraph((Strong("Error"), " ", *code, error.message))
        yield from [Paragraph(error.hint)] if error.hint else []
        yield from [Folded("Stack trace", [Preformatted(error.stack_trace)])] if error.stack_trace else []
    if result.artifacts:
        yield NoteList([(Code(item.path), f" {item.description or item.type}") for item in result.artifacts])


def _assertions(assertions: tuple[AssertionRow, ...]) -> Table:
    """Return a table of assertions; for a judge with scores, thresholds and reasons."""
    judged = any(row.score is not None and row.threshold is not None for row in assertions)
    titles = ("Score", "Threshold", "Reason") if judged else ("Actual", "Expected", "Note")
    actual, expected = (Column(title, number=True) for title in titles[:2])
    columns = (Column(""), Column("Assertion"), actual, expected, Column(titles[2]))
    rows = [
        (STATUS_SIGNS["passed" if row.passed else "failed"], row.name, row.actual, row.expected, row.message)
        for row in assertions
    ]
    return Table(columns, rows)


def _files(files: FileTable) -> Iterator[Block]:
    if files.rows:
        yield Paragraph(Strong(files.title))
        columns = [Column(title, number=at in files.numbers) for at, title in enumerate(files.columns)]
        rows: list[list[Span]] = [[Code(path), *others] for path, *others in files.rows]
        yield Table(columns, rows, (f"… {files.note}",) if files.note else ())


def _hooks(bundle: ResultsBundle) -> Iterator[Block]:
    moments = (("before the agent", bundle.hooks.pre_execution), ("after", bundle.hooks.post_evaluation))
    rows = [_hook(moment, hook) for moment, hooks in moments for hook in hooks]
    if rows:
        yield Heading("Hooks")
        titles = (Column(""), Column("Hook"), Column("When"), Column("Message"), Column("Time", number=True))
        yield Table(titles, rows)


def _hook(moment: str, hook: HookResult) -> tuple[str, ...]:
    message = f"{hook.message} ({hook.error.message})" if hook.error else hook.message
    return STATUS_SIGNS[hook.status], hook.hook, moment, message, format_duration(hook.duration_ms)


def _artifacts(bundle: ResultsBundle) -> Iterator[Block]:
    rows = [(figure.label, Code(figure.value)) for figure in figures.artifacts(bundle)]
    yield Heading("Artifacts")
    yield Table((Column("What"), Column("File")), rows) if rows else Paragraph("None.")
