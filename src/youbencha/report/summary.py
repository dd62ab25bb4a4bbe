"""Summarise a run: for a terminal, and for GitHub."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from youbencha.report import figures
from youbencha.report.document import Block, Heading, Paragraph, Preformatted, Strong
from youbencha.report.findings import explanation, last_lines
from youbencha.report.markdown import render_markdown
from youbencha.report.run_document import run_title, summary_blocks
from youbencha.store.bundle import AgentRun, EvaluationResult, HookResult, Outcome, ResultsBundle
from youbencha.text import UNKNOWN, format_count, format_duration, one_line, shorten, visible

_MAX_LINE = 200
_MAX_REASON = 500
_MAX_WARNINGS = 5
_MAX_EXPLAINED = 20

_MAX_ANNOTATIONS = 10
"""GitHub shows no more of one step."""

_MAX_SUMMARY_BYTES = 900_000
"""GitHub accepts 1 MiB from a step, and drops all of it if it is more."""

_IN_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_IN_PROPERTIES = {**_IN_DATA, ":": "%3A", ",": "%2C"}


def render_terminal(bundle: ResultsBundle, where: Path | None = None) -> list[tuple[str, str]]:
    """Return labels and values, each on one line, and without escape sequences or commands for CI."""
    hooks = (*bundle.hooks.pre_execution, *bundle.hooks.post_evaluation)
    above, below = _plain(_above(bundle)), _plain(_warnings(bundle.agent) if bundle.agent else [])
    evaluators = [line for evaluator in bundle.evaluators for line in _evaluator(evaluator)]
    failed = [line for hook in hooks if hook.status == "failed" for line in _hook(hook)]
    path = str(where) if where else bundle.execution.environment.workspace_dir
    # The path is not shortened: users copy it.
    return [*above, *evaluators, *below, *failed, ("Results", one_line(path, 4096))]


def _above(bundle: ResultsBundle) -> list[tuple[str, str]]:
    """Return what is above the evaluators: the verdict and the figures of the agent."""
    lines = [("Verdict", figures.verdict(bundle))]
    if bundle.outcome is not None:
        lines.append(("Outcome", f"{bundle.outcome.name.replace('_', ' ')}: {bundle.outcome.reason}"))
    lines += _what_to_do(bundle.agent, bundle.outcome) if bundle.agent else []
    lines += _agent(bundle.agent) if bundle.agent else []
    lines.append(("Duration", format_duration(bundle.execution.duration_ms)))
    if judging := figures.judging_cost(bundle):
        lines.append(("Judging cost", judging))
    return lines


def terminal_text(lines: Iterable[tuple[str, str]]) -> str:
    """Align the values below each other."""
    pairs = list(lines)
    width = label_width(pairs)
    return "\n".join(f"{label:<{width}}{value}".rstrip() for label, value in pairs)


def label_width(lines: Iterable[tuple[str, str]]) -> int:
    return max((len(label) + 2 for label, value in lines if value), default=0)


def _agent(agent: AgentRun) -> list[tuple[str, str]]:
    """Return the agent's figures, with the unknown ones on one line: most of a plain program's are unknown."""
    shown = figures.agent_figures(agent)
    unknown = ", ".join(figure.label.lower() for figure in shown if figure.value == UNKNOWN)
    known = [(figure.label, figure.value) for figure in shown if figure.value != UNKNOWN]
    return [*known, ("Not known", unknown)] if unknown else known


def _what_to_do(agent: AgentRun, outcome: Outcome | None) -> list[tuple[str, str]]:
    """Return the hint for why the agent failed: of the error that is the outcome's reason, else of the first."""
    if agent.status == "success":
        return []
    reason = outcome.reason if outcome else None
    errors = sorted(agent.errors, key=lambda e: (e.message != reason, not (e.context or {}).get("unanswered")))
    return [("", f"→ {error.hint}") for error in errors if error.hint][:1]


def _warnings(agent: AgentRun) -> list[tuple[str, str]]:
    """Return the warnings: an agent that was denied its tools can still pass."""
    lines = [("Warning", warning.message) for warning in agent.warnings[:_MAX_WARNINGS]]
    more = len(agent.warnings) - len(lines)
    return [*lines, ("Warning", f"and {format_count(more)} more: see the report")] if more else lines


def _evaluator(result: EvaluationResult) -> list[tuple[str, str]]:
    """Return the evaluator's result, why it did not pass, and a hint."""
    why = explanation(result)
    error = result.error.message if result.error and result.error.message not in result.message else ""
    hint = [("", f"→ {result.error.hint}")] if result.error and result.error.hint else []
    text = ": ".join(part for part in (result.status, result.message, error) if part)
    reasons = _plain((("", f"✗ {reason}") for reason in why.reasons), _MAX_REASON)
    return [*_plain([(result.evaluator, text)]), *reasons, *_output(why.output), *_plain(hint)]


def _hook(hook: HookResult) -> list[tuple[str, str]]:
    return [*_plain([("Hook", f"{hook.hook} failed: {hook.message}")]), *_output(last_lines(hook.metadata))]


def _output(lines: Iterable[str]) -> list[tuple[str, str]]:
    """Return lines of a program's output as labels without a value; marked, so that CI takes none for a command."""
    return [(f"  │ {shorten(line, _MAX_LINE)}", "") for line in lines]


def _plain(lines: Iterable[tuple[str, str]], limit: int = _MAX_LINE) -> list[tuple[str, str]]:
    return [(one_line(label, 40), one_line(value, limit)) for label, value in lines]


def write_step_summary(text: str, env: Mapping[str, str] | None = None) -> bool:
    """Append to the summary on the workflow's page. Return False, and do not fail, if that cannot be done."""
    target = (os.environ if env is None else env).get("GITHUB_STEP_SUMMARY")
    if not target or len(text.encode(errors="replace")) > _MAX_SUMMARY_BYTES:
        return False
    try:
        with Path(target).open("a", encoding="utf-8", errors="replace") as file:
            file.write(f"{text}\n")
    except OSError:
        return False
    return True


def render_step_summary(bundle: ResultsBundle) -> str:
    blocks: list[Block] = [Heading(run_title(bundle), 3), *summary_blocks(bundle)]
    explained = [(result.evaluator, why) for result in bundle.evaluators if (why := _why(result))]
    for name, why in explained[:_MAX_EXPLAINED]:
        blocks += [Paragraph(Strong(name)), Preformatted(why)]
    return render_markdown(blocks)


def _why(result: EvaluationResult) -> str:
    why = explanation(result)
    return "\n".join((*why.reasons, *why.output))


def github_annotations(bundle: ResultsBundle, env: Mapping[str, str] | None = None) -> list[str]:
    """Return lines for stdout or stderr that GitHub Actions shows as annotations; none elsewhere."""
    return list(_annotations(bundle))[:_MAX_ANNOTATIONS] if in_github_actions(env) else []


def in_github_actions(env: Mapping[str, str] | None = None) -> bool:
    return (os.environ if env is None else env).get("GITHUB_ACTIONS") == "true"


def _annotations(bundle: ResultsBundle) -> Iterator[str]:
    name = bundle.test_case.name
    agent = bundle.agent
    if agent is not None and agent.status in ("failed", "timeout"):
        reason = agent.errors[0].message if agent.errors else f"The agent ended with {agent.status}."
        yield annotation("error", f"{name}: agent", reason)
    for result in bundle.evaluators:
        if result.status == "failed":
            kind: Literal["error", "warning"] = "warning" if result.advisory else "error"
            yield annotation(kind, f"{name}: {result.evaluator}", f"{result.message}\n{_why(result)}".strip())
        elif result.error is not None:
            yield annotation(
                "warning", f"{name}: {result.evaluator}", f"{result.error.message}\n{_why(result)}".strip()
            )


def annotation(kind: Literal["error", "warning", "notice"], title: str, message: str) -> str:
    """Return a line that GitHub Actions shows as an annotation."""
    return f"::{kind} title={_replaced(one_line(title, 120), _IN_PROPERTIES)}::{_replaced(message[:4000], _IN_DATA)}"


def _replaced(text: str, table: Mapping[str, str]) -> str:
    return "".join(table.get(sign, sign) for sign in visible(text))
