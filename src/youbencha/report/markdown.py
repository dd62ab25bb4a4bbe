"""`report.md`: a run for people, made to be read on GitHub."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from youbencha.report import figures as told
from youbencha.report.figures import STATUS_SIGNS, Figure
from youbencha.report.formatting import count, duration
from youbencha.report.markdown_evaluators import evaluator_section
from youbencha.report.markdown_text import code, escaped, paragraph, table

if TYPE_CHECKING:
    from youbencha.log import AgentRun, ErrorRecord, HookResult, ResultsBundle

_AGENT_IN_SHORT = frozenset({"Agent", "Agent status", "Model", "Tokens", "Cost"})


def render_markdown(bundle: ResultsBundle) -> str:
    """Pure: the same bundle gives the same text."""
    sections = (*_title(bundle), *_summary(bundle), *_outcome(bundle), *_test_case(bundle), *_execution(bundle))
    sections += (*_agent(bundle), *_evaluators(bundle), *_hooks(bundle), *_artifacts(bundle))
    return "\n\n".join(sections) + "\n"


def summary_table(bundle: ResultsBundle) -> str:
    """The run on one screen."""
    sign = STATUS_SIGNS[bundle.summary.overall_status]
    figures = [Figure("Verdict", f"{sign} {told.verdict(bundle)}"), Figure("Evaluators", told.evaluator_counts(bundle))]
    figures += told.outcome_figures(bundle)[:2]
    figures += [Figure("Duration", duration(bundle.execution.duration_ms))]
    if bundle.agent is not None:
        figures += [each for each in told.agent_figures(bundle.agent) if each.label in _AGENT_IN_SHORT]
    if judging := told.judging_cost(bundle):
        figures.append(Figure("Judging cost", judging))
    return _figure_table(figures)


def verdict_table(bundle: ResultsBundle) -> str:
    """One line for each evaluator."""
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
        yield _figure_table(told.outcome_figures(bundle))


def _test_case(bundle: ResultsBundle) -> Iterator[str]:
    yield "## Test Case"
    yield _figure_table(told.case_figures(bundle))


def _execution(bundle: ResultsBundle) -> Iterator[str]:
    yield "## Execution"
    yield _figure_table(told.execution_figures(bundle))
    if bundle.execution.phases_ms:
        rows = ((escaped(name), duration(spent)) for name, spent in told.phases(bundle))
        yield table(("Phase", "Time"), rows, numbers=(1,))
    yield _folded("Run identity", _figure_table(told.identity_figures(bundle)))


def _agent(bundle: ResultsBundle) -> Iterator[str]:
    yield "## Agent"
    agent = bundle.agent
    if agent is None:
        yield "No agent ran: a directory was judged as it is."
        return
    yield _figure_table(told.agent_figures(agent))
    if agent.tools_used:
        rows = ((code(name), count(number)) for name, number in told.most_used(agent.tools_used))
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
    rows = [(each.label, code(each.value)) for each in told.artifacts(bundle)]
    yield "## Artifacts"
    yield table(("What", "File"), rows) if rows else "None."


def _figure_table(figures: Iterable[Figure]) -> str:
    return table(("", ""), ((f"**{each.label}**", _value(each)) for each in figures))


def _value(figure: Figure) -> str:
    return code(figure.value) if figure.is_code else escaped(figure.value)


def _folded(heading: str, content: str) -> str:
    return f"<details>\n<summary>{heading}</summary>\n\n{content}\n\n</details>"
