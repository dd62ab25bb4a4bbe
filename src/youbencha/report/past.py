"""The runs of a workspace, a line each: what was run, how it went, what it took."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.report.formatting import THIN, UNKNOWN, count, duration, usd
from youbencha.report.loading import load_results, runs_below
from youbencha.report.text import one_line
from youbencha.workspace.layout import LOCK
from youbencha.workspace.lock import is_locked

if TYPE_CHECKING:
    from youbencha.log import ResultsBundle, Usage

_COLUMNS = ("BEGAN", "VERDICT", "OUTCOME", "TEST CASE", "AGENT", "MODEL", "TOKENS", "COST", "TIME", "RUN")
_TO_THE_RIGHT = {"TOKENS", "COST", "TIME"}
_LONGEST_CELL = 40


class PastRun(NamedTuple):
    path: Path
    began: datetime
    state: str
    """Its verdict; without one, `running`, `died` or `unreadable`."""
    bundle: ResultsBundle | None


def past_runs(root: Path, newest: int | None = None) -> list[PastRun]:
    """The newest first. A run that died, or whose results nobody can read, is one, too."""
    found = sorted(runs_below(root), reverse=True)[:newest]
    return [_read(run.path, run.results, datetime.fromtimestamp(run.began).astimezone()) for run in found]


def table(runs: Sequence[PastRun]) -> list[str]:
    """Columns as wide as what is in them: the name of a run is there to be copied, and comes last."""
    rows = [_COLUMNS, *(_row(run) for run in runs)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(_cell, _COLUMNS, row, widths)).rstrip() for row in rows]


def as_data(run: PastRun) -> dict[str, Any]:
    """For programs. What is not known is null."""
    bundle = run.bundle
    agent = bundle.agent if bundle else None
    usage = agent.usage if agent else None
    return {
        "run": run.path.name,
        "path": str(run.path),
        "began": run.began.isoformat(timespec="seconds"),
        "state": run.state,
        "outcome": bundle.outcome.name if bundle and bundle.outcome else None,
        "test_case": bundle.test_case.name if bundle else None,
        "agent": agent.type if agent else None,
        "agent_version": agent.version if agent else None,
        "model": agent.model if agent else None,
        "total_tokens": usage.total_tokens if usage else None,
        "cost_usd": usage.cost_usd if usage else None,
        "partial": usage.partial if usage else None,
        "duration_ms": bundle.execution.duration_ms if bundle else None,
    }


def _read(path: Path, results: Path, began: datetime) -> PastRun:
    if not results.is_file():
        return PastRun(path, began, "running" if is_locked(path / LOCK) else "died", None)
    try:
        bundle = load_results(results)
    except YouBenchaError:
        return PastRun(path, began, "unreadable", None)
    return PastRun(path, began, bundle.summary.overall_status, bundle)


def _row(run: PastRun) -> tuple[str, ...]:
    told = as_data(run)
    usage = run.bundle.agent.usage if run.bundle and run.bundle.agent else None
    outcome = (told["outcome"] or "").replace("_", " ")
    words = (outcome, told["test_case"] or "", told["agent"] or "", told["model"] or "")
    figures = (count(told["total_tokens"]), usd(told["cost_usd"]), duration(told["duration_ms"]))
    return (
        f"{run.began:%Y-%m-%d %H:%M}",
        run.state,
        *(one_line(word, _LONGEST_CELL) or "-" for word in words),
        *(_at_least(usage, figure) for figure in figures[:2]),
        _known(figures[2]),
        one_line(run.path.name, 4096),
    )


def _at_least(usage: Usage | None, figure: str) -> str:
    known = _known(figure)
    return f"≥ {known}" if usage and usage.partial and known != "-" else known


def _known(figure: str) -> str:
    return "-" if figure == UNKNOWN else figure.replace(THIN, " ")


def _cell(column: str, text: str, width: int) -> str:
    return text.rjust(width) if column in _TO_THE_RIGHT else text.ljust(width)
