"""Describe a leaderboard as a document: the table, what its columns mean, what is left out, flags, and baselines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import NamedTuple, get_args

from youbencha.report.comparison_document import baseline_blocks
from youbencha.report.document import MAX_LISTED, Block, Column, Heading, NoteList, Paragraph, Table, limit_rows
from youbencha.report.formatting import (
    MAX_NAME,
    UNKNOWN_CELL,
    format_coverage,
    format_interval,
    format_mean,
    format_rate,
    format_seconds,
    format_share,
    limit_lines,
    remarks,
)
from youbencha.report.leaderboard import Leaderboard, Row, ScoreBounds, Total
from youbencha.stats.model import Interval
from youbencha.store.arena import FlagSeverity
from youbencha.store.bundle import OutcomeName
from youbencha.store.read import ArenaTrial
from youbencha.text import first_few, format_count, format_usd, one_line

MAX_EVIDENCE = 300
_MAX_CHANGES = 5

FLAG_SECTIONS: Mapping[FlagSeverity, tuple[str, str]] = {
    "evidence": ("flag", "Integrity flags"),
    "note": ("integrity note", "Integrity notes"),
}
"""The name of a flag of each severity, and the heading of their list."""

_OUTCOME_ORDER = (*get_args(OutcomeName), "unknown")


class Grouping(StrEnum):
    AGENT = "agent"
    TASK = "task"
    SUITE = "suite"


class RowColumn(NamedTuple):
    """A column of the leaderboard, and how to fill it from a row."""

    column: Column
    cell: Callable[[Row], str]


def leaderboard_document(board: Leaderboard, by: Grouping) -> list[Block]:
    blocks: list[Block] = [
        Heading("Leaderboard" if by is Grouping.AGENT else f"Leaderboard by {by.value}", 1),
        leaderboard_table(board, by) if select_rows(board, by) else Paragraph("No trials."),
        NoteList(list(leaderboard_remarks(board))),
    ]
    for severity, (noun, heading) in FLAG_SECTIONS.items():
        if flags := list(list_flags(board, severity)):
            rows, more = limit_rows(flags, noun)
            blocks += [Heading(heading), Table((Column("Trial"), Column("Kind"), Column("Evidence")), rows, more)]
    if board.compared is not None:
        blocks += baseline_blocks(board.compared)
    return blocks


def leaderboard_table(board: Leaderboard, by: Grouping) -> Table:
    rows = select_rows(board, by)
    columns = _choose_columns(board, rows, by)
    cells = [[cell(row) for _, cell in columns] for row in rows]
    return Table([column for column, _ in columns], cells, list(_table_notes(rows, by)))


def select_rows(board: Leaderboard, by: Grouping) -> tuple[Row, ...]:
    return {Grouping.AGENT: board.agents, Grouping.TASK: board.tasks, Grouping.SUITE: board.suites}[by]


def _choose_columns(board: Leaderboard, rows: Sequence[Row], by: Grouping) -> list[RowColumn]:
    """Return the columns to show; those for missing trials and for calibration only if there are any."""
    over_trials = by is Grouping.TASK
    columns = [*_KEYS[by], *(_suite_columns(rows) if by is Grouping.AGENT else ())]
    columns.append(_SCORE_OVER_TRIALS if over_trials else _SCORE_OVER_TASKS)
    if any(row.bounds is not None for row in rows):
        columns.append(_with_missing_column(board))
    if any(row.calibrated is not None for row in rows):
        columns.append(_CALIBRATED)
    columns.append(_PASSED_OVER_TRIALS if over_trials else _PASSED)
    columns += [_trials_column(board), *_FIGURES]
    return [*columns, _FRONTIER] if by is Grouping.AGENT else columns


def _suite_columns(rows: Sequence[Row]) -> list[RowColumn]:
    """Return the columns that `--suite` adds: a score for each suite, the mean of these, and the cost of a trial."""
    names = list(rows[0].by_suite) if rows else []
    columns = [RowColumn(Column(one_line(name, 20), number=True), partial(_suite_score, name)) for name in names]
    return [*columns, _MEAN_OVER_SUITES, _COST_PER_TRIAL] if names else []


def _suite_score(name: str, row: Row) -> str:
    return format_mean(row.by_suite[name])


def _with_missing_column(board: Leaderboard) -> RowColumn:
    kinds = "missing and retried" if board.coverage.retried else "missing"
    note = f"the mean score if all {kinds} trials had failed, or been solved."
    return RowColumn(Column("With missing", number=True, note=note, drop=9), lambda row: _mean_range(row.bounds))


def _trials_column(board: Leaderboard) -> RowColumn:
    planned = "planned" if board.coverage.planned is not None else "planned (unknown)"
    note = f"valid/finished/{planned}."
    return RowColumn(Column("Trials", number=True, note=note), lambda row: format_coverage(row.trials))


def _table_notes(rows: Sequence[Row], by: Grouping) -> Iterator[str]:
    if by is not Grouping.TASK:
        yield from sorted({f"No interval: {row.score.reason}." for row in rows if row.score.reason})
    changes = [
        f"{_row_name(row, by)} {row.bounds.best_rank} to {row.bounds.worst_rank}"
        for row in rows
        if row.bounds and row.bounds.best_rank != row.bounds.worst_rank
    ]
    if changes:
        yield f"Ranks that these trials could change: {first_few(changes, _MAX_CHANGES)}."


def _row_name(row: Row, by: Grouping) -> str:
    return " · ".join(cell(row) for _, cell in _KEYS[by])


def _mean_range(bounds: ScoreBounds | None) -> str:
    """Return the mean score if all missing trials had failed, and if all had been solved."""
    if bounds is None or bounds.if_failed.mean is None or bounds.if_solved.mean is None:
        return ""
    return f"{bounds.if_failed.mean:.2f} to {bounds.if_solved.mean:.2f}"


def _rate_interval(rate: Interval) -> str:
    """`67% [21%, 94%]`."""
    if rate.low is None or rate.high is None:
        return format_rate(rate)
    return f"{format_rate(rate)} [{rate.low:.0%}, {rate.high:.0%}]"


def format_outcomes(counts: Mapping[str, int]) -> str:
    """Return a list such as `3 solved, 1 provider error`."""
    ordered = sorted(counts.items(), key=lambda item: _OUTCOME_ORDER.index(item[0]))
    return ", ".join(f"{format_count(number)} {name.replace('_', ' ')}" for name, number in ordered) or UNKNOWN_CELL


def _money(total: Total) -> str:
    return UNKNOWN_CELL if total.value is None else ("≥ " if total.partial else "") + format_usd(total.value)


def _tokens(total: Total) -> str:
    return UNKNOWN_CELL if total.value is None else ("≥ " if total.partial else "") + format_count(round(total.value))


_AGENT = RowColumn(Column("Agent"), lambda row: one_line(row.agent, MAX_NAME))
_KEYS = {
    Grouping.AGENT: (_AGENT,),
    Grouping.TASK: (RowColumn(Column("Task"), lambda row: one_line(row.task or UNKNOWN_CELL, MAX_NAME)), _AGENT),
    Grouping.SUITE: (RowColumn(Column("Suite"), lambda row: one_line(row.suite or UNKNOWN_CELL, MAX_NAME)), _AGENT),
}
_INTERVAL_OF_TASKS = "interval of the mean for tasks like these: the tasks are a sample, not only the trials."
_INTERVAL_OF_TRIALS = "Wilson interval over the agent's trials on the task."
_SCORE_OVER_TASKS = RowColumn(
    Column("Score [95%]", number=True, note=_INTERVAL_OF_TASKS), lambda row: format_interval(row.score)
)
_SCORE_OVER_TRIALS = RowColumn(Column("Score", number=True), lambda row: format_interval(row.score))
_CALIBRATED = RowColumn(Column("Calibrated", number=True, drop=5), lambda row: format_interval(row.calibrated))
_PASSED = RowColumn(Column("Passed", number=True), lambda row: format_rate(row.pass_rate))
_PASSED_OVER_TRIALS = RowColumn(
    Column("Passed [95%]", number=True, note=_INTERVAL_OF_TRIALS), lambda row: _rate_interval(row.pass_rate)
)
_MEAN_OVER_SUITES = RowColumn(
    Column("Overall", number=True, note="the mean over these suites, which determines the order."),
    lambda row: format_mean(row.mean_over_suites),
)
_COST_PER_TRIAL = RowColumn(
    Column("Cost/trial", number=True), lambda row: format_share(row.cost_per_trial_usd, row.cost_usd)
)
_FIGURES = (
    RowColumn(Column("Outcomes", drop=7, listed_below=True), lambda row: format_outcomes(row.outcomes)),
    RowColumn(Column("Tokens", number=True, drop=2), lambda row: _tokens(row.tokens)),
    RowColumn(Column("Cost", number=True, note="valid attempts only.", drop=8), lambda row: _money(row.cost_usd)),
    RowColumn(
        Column("Cost/solved", number=True, drop=6), lambda row: format_share(row.cost_per_solved_usd, row.cost_usd)
    ),
    RowColumn(
        Column("Not valid", number=True, note="the cost of all other attempts.", drop=1),
        lambda row: _money(row.uncounted_cost_usd),
    ),
    RowColumn(Column("Time", number=True, drop=4), lambda row: format_seconds(row.median_duration_s)),
    RowColumn(Column("Flags", number=True), lambda row: format_count(row.flags)),
)
_FRONTIER = RowColumn(
    Column("Pareto", note="no other agent has a better score for as little money.", drop=3),
    lambda row: "*" if row.on_frontier else "",
)


def leaderboard_remarks(board: Leaderboard, max_listed: int | None = MAX_LISTED) -> Iterator[str]:
    """Yield the remarks, and the attempts that were repeated."""
    yield from remarks(board, max_listed)
    yield from limit_lines(list(_repeated_attempts(board)), "repeated attempt", max_listed)


def _repeated_attempts(board: Leaderboard) -> Iterator[str]:
    """Describe each attempt that was followed by another: how it ended, what it cost, and why."""
    for trial in board.trials:
        for attempt in trial.meta.attempts[:-1]:
            lower_bound = "≥ " if attempt.partial else ""
            cost = "unknown cost" if attempt.cost_usd is None else f"{lower_bound}{format_usd(attempt.cost_usd)}"
            outcome = attempt.outcome.replace("_", " ")
            reason = f": {one_line(attempt.reason, MAX_EVIDENCE)}" if attempt.reason else ""
            yield f"repeated: {trial_name(trial)}: attempt {attempt.number}: {outcome} ({cost}){reason}"


def list_flags(board: Leaderboard, severity: FlagSeverity) -> Iterator[tuple[str, str, str]]:
    """Yield the trial, the kind and the evidence of each integrity flag of this severity."""
    for trial in board.trials:
        for flag in trial.meta.flags:
            if flag.severity == severity:
                yield trial_name(trial), flag.kind, one_line(flag.evidence, MAX_EVIDENCE)


def trial_name(trial: ArenaTrial) -> str:
    meta = trial.meta
    return f"{one_line(meta.orchestrator, MAX_NAME)} · {one_line(meta.task, MAX_NAME)} · trial {meta.trial}"
