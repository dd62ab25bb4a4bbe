"""The last lines of `yb run`: plain, one fact a line, fit for a pipe."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from youbencha.report import figures as told
from youbencha.report.formatting import THIN, duration
from youbencha.report.text import one_line

if TYPE_CHECKING:
    from youbencha.log import EvaluationResult, ResultsBundle

_LONGEST = 200


def render_terminal(bundle: ResultsBundle, where: Path | None = None) -> list[tuple[str, str]]:
    """Labels and values, each on one line: whatever is in them, it gives the terminal (or CI) no orders."""
    lines = [("Verdict", told.verdict(bundle))]
    if bundle.outcome is not None:
        lines.append(("Outcome", f"{bundle.outcome.name.replace('_', ' ')}: {bundle.outcome.reason}"))
    lines += told.agent_figures(bundle.agent) if bundle.agent else []
    lines.append(("Duration", duration(bundle.execution.duration_ms)))
    if judging := told.judging_cost(bundle):
        lines.append(("Judging cost", judging))
    lines += [(each.evaluator, _evaluator(each)) for each in bundle.evaluators]
    lines.append(("Results", str(where) if where else bundle.execution.environment.workspace_dir))
    return [(one_line(label, 40), _plain(value, path=label == "Results")) for label, value in lines]


def terminal_text(lines: Iterable[tuple[str, str]]) -> str:
    """The values below each other."""
    pairs = list(lines)
    width = max((len(label) for label, _ in pairs), default=0)
    return "\n".join(f"{label:<{width}}  {value}" for label, value in pairs)


def _evaluator(result: EvaluationResult) -> str:
    reason = result.error.message if result.error and result.error.message not in result.message else ""
    return ": ".join(part for part in (result.status, result.message, reason) if part)


def _plain(text: str, *, path: bool) -> str:
    # Not every console knows a thin space. A path is never cut: people copy it.
    return one_line(text.replace(THIN, " "), 4096 if path else _LONGEST)
