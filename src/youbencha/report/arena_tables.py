"""Render a leaderboard as text: a table for the terminal, Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import os
import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from youbencha.report import markdown
from youbencha.report.arena_loading import ArenaTrial
from youbencha.report.arena_selection import Exclusion
from youbencha.report.leaderboard import Leaderboard, Row, ScoreBounds, Total, TrialCoverage
from youbencha.stats.intervals import CONFIDENCE, Interval
from youbencha.store.arena import FlagSeverity
from youbencha.store.bundle import OutcomeName
from youbencha.text import count, duration, first_few, one_line, percent, plural, table, usd, visible

if TYPE_CHECKING:
    from youbencha.report.comparison_model import ComparisonReport, PairComparison

JSON_VERSION = "1.0.0"
NOT_KNOWN = "-"
_LONGEST_NAME = 60
_LONGEST_EVIDENCE = 300
_LONGEST_CELL = 32_000
"""Of a spreadsheet."""
_MAX_CHANGES = 5
_MOST_LISTED = 20
"""Of flags and of files that cannot be read, in a terminal and in Markdown. All are in the other formats."""


FLAG_SECTIONS: Mapping[FlagSeverity, tuple[str, str]] = {
    "evidence": ("flag", "Integrity flags"),
    "note": ("integrity note", "Integrity notes"),
}
"""The label of a flag of each severity, and the heading of their list."""


OUTCOMES = "OUTCOMES"
_OUTCOME_ORDER = (*get_args(OutcomeName), "unknown")


class Grouping(StrEnum):
    AGENT = "agent"
    TASK = "task"
    SUITE = "suite"


class Column(NamedTuple):
    title: str
    cell: Callable[[Row], str]
    number: bool = True


def interval(found: Interval | None) -> str:
    """`0.714 [0.62, 0.80]`."""
    if found is None or found.mean is None:
        return NOT_KNOWN
    return f"{found.mean:.3f}" + (f" [{found.low:.2f}, {found.high:.2f}]" if found.low is not None else "")


def _mean_range(bounds: ScoreBounds | None) -> str:
    """Return the mean score if all missing trials had failed, and if all had been solved."""
    if bounds is None or bounds.if_failed.mean is None or bounds.if_solved.mean is None:
        return ""
    return f"{bounds.if_failed.mean:.2f} to {bounds.if_solved.mean:.2f}"


def rate(found: Interval) -> str:
    return NOT_KNOWN if found.mean is None else percent(found.mean)


def rate_interval(found: Interval) -> str:
    """`67% [21%, 94%]`."""
    if found.low is None or found.high is None:
        return rate(found)
    return f"{rate(found)} [{found.low:.0%}, {found.high:.0%}]"


def coverage(found: TrialCoverage) -> str:
    """`8/9/10`: valid, finished, planned."""
    return f"{found.valid}/{found.finished}/{'?' if found.planned is None else found.planned}"


def outcomes(counts: Mapping[str, int]) -> str:
    """Return a list such as `3 solved, 1 provider error`."""
    ordered = sorted(counts.items(), key=lambda item: _OUTCOME_ORDER.index(item[0]))
    return ", ".join(f"{count(number)} {name.replace('_', ' ')}" for name, number in ordered) or NOT_KNOWN


def money(total: Total) -> str:
    return NOT_KNOWN if total.value is None else ("≥ " if total.partial else "") + usd(total.value)


def tokens(total: Total) -> str:
    return NOT_KNOWN if total.value is None else ("≥ " if total.partial else "") + count(round(total.value))


def per(dollars: float | None, total: Total) -> str:
    """What a trial costs: a lower bound, if the total is one."""
    return NOT_KNOWN if dollars is None else ("≥ " if total.partial else "") + usd(dollars)


def spent(seconds: float | None) -> str:
    return NOT_KNOWN if seconds is None else duration(seconds * 1000)


_AGENT = Column("AGENT", lambda row: one_line(row.agent, _LONGEST_NAME), number=False)
_KEYS = {
    Grouping.AGENT: (_AGENT,),
    Grouping.TASK: (Column("TASK", lambda row: one_line(row.task or NOT_KNOWN, _LONGEST_NAME), number=False), _AGENT),
    Grouping.SUITE: (
        Column("SUITE", lambda row: one_line(row.suite or NOT_KNOWN, _LONGEST_NAME), number=False),
        _AGENT,
    ),
}
_OVER_TASKS = (
    Column("SCORE [95 %]", lambda row: interval(row.score)),
    Column("CALIBRATED", lambda row: interval(row.calibrated)),
    Column("PASSED", lambda row: rate(row.pass_rate)),
)
_MEAN_OVER_SUITES = Column("OVERALL", lambda row: _mean(row.mean_over_suites))
_COST_PER_TRIAL = Column("COST/TRIAL", lambda row: per(row.cost_per_trial_usd, row.cost_usd))
_WITH_MISSING = Column("WITH MISSING", lambda row: _mean_range(row.bounds))
_OVER_TRIALS = (
    Column("SCORE", lambda row: interval(row.score)),
    Column("CALIBRATED", lambda row: interval(row.calibrated)),
    Column("PASSED [95 %]", lambda row: rate_interval(row.pass_rate)),
)
_FIGURES = (
    Column("TRIALS", lambda row: coverage(row.trials)),
    Column(OUTCOMES, lambda row: outcomes(row.outcomes), number=False),
    Column("TOKENS", lambda row: tokens(row.tokens)),
    Column("COST", lambda row: money(row.cost_usd)),
    Column("COST/SOLVED", lambda row: per(row.cost_per_solved_usd, row.cost_usd)),
    Column("NOT VALID", lambda row: money(row.uncounted_cost_usd)),
    Column("TIME", lambda row: spent(row.median_duration_s)),
    Column("FLAGS", lambda row: count(row.flags)),
)
_FRONTIER = Column("PARETO", lambda row: "*" if row.on_frontier else "", number=False)
_LEAST_NEEDED = (
    "NOT VALID",
    "TOKENS",
    "PARETO",
    "TIME",
    "CALIBRATED",
    "COST/SOLVED",
    OUTCOMES,
    "COST",
    _WITH_MISSING.title,
)
"""What a narrow terminal does without, in this order."""


def rows_of(board: Leaderboard, by: Grouping) -> tuple[Row, ...]:
    return {Grouping.AGENT: board.agents, Grouping.TASK: board.tasks, Grouping.SUITE: board.suites}[by]


def columns_of(rows: Sequence[Row], by: Grouping) -> list[Column]:
    """Return the columns to show; those for missing trials and for calibration only if there are any."""
    score, calibrated, passed = _OVER_TRIALS if by is Grouping.TASK else _OVER_TASKS
    optional = {
        _WITH_MISSING: any(row.bounds is not None for row in rows),
        calibrated: any(row.calibrated is not None for row in rows),
    }
    shown = [column for column, needed in optional.items() if needed]
    if by is not Grouping.AGENT:
        return [*_KEYS[by], score, *shown, passed, *_FIGURES]
    return [*_KEYS[by], *_suite_columns(rows), score, *shown, passed, *_FIGURES, _FRONTIER]


def _suite_columns(rows: Sequence[Row]) -> list[Column]:
    """Return the columns that `--suite` adds: a score for each suite, the mean of these, and the cost of a trial."""
    names = list(rows[0].by_suite) if rows else []
    columns = [Column(one_line(name, 20).upper(), partial(_suite_score, name)) for name in names]
    return [*columns, _MEAN_OVER_SUITES, _COST_PER_TRIAL] if names else []


def _suite_score(name: str, row: Row) -> str:
    return _mean(row.by_suite[name])


def _mean(value: float | None) -> str:
    return NOT_KNOWN if value is None else f"{value:.3f}"


def _row_name(row: Row, by: Grouping) -> str:
    return " · ".join(column.cell(row) for column in _KEYS[by])


def render_table(board: Leaderboard, by: Grouping, width: int) -> str:
    rows = rows_of(board, by)
    columns = columns_of(rows, by)
    titles = [each.title for each in columns]
    shown = table(
        titles,
        [[column.cell(row) for column in columns] for row in rows],
        width=width,
        right=[each.title for each in columns if each.number],
        drop=[each for each in _LEAST_NEEDED if each in titles],
    )
    kept = re.split(" {2,}", shown.partition("\n")[0])
    explained = legend(board, by, left_out=set(titles).difference(kept))
    figures = [shown, "", *explained] if rows else ["no trials", ""]
    if OUTCOMES not in kept:  # the table is too narrow for what readers need most
        lines = [f"{_row_name(row, by)}: {outcomes(row.outcomes)}" for row in rows]
        figures += _first(lines, "row")
    return "\n".join([*figures, *leaderboard_remarks(board), *_flags(board)]) + "\n"


def legend(
    board: Leaderboard, by: Grouping, title: Callable[[str], str] = str, left_out: Container[str] = ()
) -> Iterator[str]:
    """Explain the columns, except for those left out, and what the interval is about. `title` formats their titles."""
    if by is Grouping.TASK:
        yield "[95 %]: Wilson interval over the trials of the agent on the task."
    else:
        yield "[95 %]: interval of the mean for tasks like these: the tasks are a sample, not only the trials."
        yield from sorted({f"No interval: {row.score.reason}." for row in rows_of(board, by) if row.score.reason})
    if by is Grouping.AGENT and any(row.by_suite for row in board.agents):
        yield f"{title(_MEAN_OVER_SUITES.title)}: the mean over these suites, which determines the order."
    yield from _bounds_legend(board, by, title, left_out)
    planned = "planned" if board.coverage.planned is not None else "planned (not known)"
    yield f"{title('TRIALS')}: valid/finished/{planned}."
    if "COST" not in left_out:
        others = "" if "NOT VALID" in left_out else f"; {title('NOT VALID')}: what the others cost"
        yield f"{title('COST')}: of valid attempts{others}."
    if by is Grouping.AGENT and "PARETO" not in left_out:
        yield f"{title('PARETO')}: no other agent has a better score for as little money."


def _bounds_legend(
    board: Leaderboard, by: Grouping, title: Callable[[str], str], left_out: Container[str]
) -> Iterator[str]:
    """Explain what missing trials could change, if there are any."""
    rows = rows_of(board, by)
    if not any(row.bounds for row in rows):
        return
    if _WITH_MISSING.title not in left_out:
        kinds = "missing and retried" if board.coverage.retried else "missing"
        yield f"{title(_WITH_MISSING.title)}: the mean score if all {kinds} trials had failed, or been solved."
    changes = [
        f"{_row_name(row, by)} {row.bounds.best_rank} to {row.bounds.worst_rank}"
        for row in rows
        if row.bounds and row.bounds.best_rank != row.bounds.worst_rank
    ]
    if changes:
        yield f"Ranks that this could change: {first_few(changes, _MAX_CHANGES)}."


def remarks(board: Leaderboard | ComparisonReport, most_listed: int | None = _MOST_LISTED) -> Iterator[str]:
    """Say what the figures leave out, and why."""
    yield f"{plural(len(board.runs), 'run')}: {_some([one_line(each, 100) for each in board.runs])}"
    yield from (f"excluded by {one_line(each.rule)}: {dropped_trials(each)}" for each in board.exclusions)
    if board.superseded:
        yield f"older trials of the same identity, left out: {count(board.superseded)}"
    yield from (f"note: {each}" for each in board.notes)
    unreadable = [f"not readable: {one_line(str(path), 500)}: {reason}" for path, reason in board.unreadable]
    yield from _first(unreadable, "file that is not readable", most_listed)


def dropped_trials(exclusion: Exclusion) -> str:
    if not exclusion.matched:
        return "nothing, because no trial fits the rule"
    others = exclusion.matched - exclusion.dropped
    losses = [
        f"{count(lost)} of {one_line(agent, _LONGEST_NAME)}" for agent, lost in exclusion.dropped_by_agent.items()
    ]
    more = [f"{count(len(losses) - _MOST_LISTED)} more agents"] if len(losses) > _MOST_LISTED else []
    return (
        plural(exclusion.dropped, "trial")
        + (f" ({', '.join([*losses[:_MOST_LISTED], *more])})" if losses else "")
        + (f", and {count(others)} already excluded by an earlier rule" if others else "")
    )


def flag_lines(board: Leaderboard, severity: FlagSeverity) -> Iterator[tuple[str, str, str]]:
    """Yield the trial, the kind and the evidence of each integrity flag of this severity."""
    for trial in board.trials:
        for flag in trial.meta.flags:
            if flag.severity == severity:
                yield trial_name(trial), flag.kind, one_line(flag.evidence, _LONGEST_EVIDENCE)


def leaderboard_remarks(board: Leaderboard, most_listed: int | None = _MOST_LISTED) -> Iterator[str]:
    """Yield the remarks, and the attempts that were repeated."""
    yield from remarks(board, most_listed)
    yield from _first(list(_repeated_attempts(board)), "repeated attempt", most_listed)


def _repeated_attempts(board: Leaderboard) -> Iterator[str]:
    """Describe each attempt that was followed by another: how it ended, what it cost, and why."""
    for trial in board.trials:
        for attempt in trial.meta.attempts[:-1]:
            lower_bound = "≥ " if attempt.partial else ""
            cost = "cost not known" if attempt.cost_usd is None else f"{lower_bound}{usd(attempt.cost_usd)}"
            outcome = attempt.outcome.replace("_", " ")
            reason = f": {one_line(attempt.reason, _LONGEST_EVIDENCE)}" if attempt.reason else ""
            yield f"repeated: {trial_name(trial)}: attempt {attempt.number}: {outcome} ({cost}){reason}"


def trial_name(trial: ArenaTrial) -> str:
    meta = trial.meta
    return f"{one_line(meta.orchestrator, _LONGEST_NAME)} · {one_line(meta.task, _LONGEST_NAME)} · trial {meta.trial}"


def _flags(board: Leaderboard) -> Iterator[str]:
    for severity, (label, _) in FLAG_SECTIONS.items():
        lines = [f"{label}: {name}: {kind}: {evidence}" for name, kind, evidence in flag_lines(board, severity)]
        yield from _first(lines, label)


def _first(lines: Sequence[str], noun: str, most: int | None = _MOST_LISTED) -> Iterator[str]:
    yield from lines[:most]
    if most is not None and len(lines) > most:
        yield f"and {plural(len(lines) - most, f'more {noun}')}"


def _some(names: Sequence[str], most: int = 3) -> str:
    return ", ".join(names) if len(names) <= most else f"{names[0]} … {names[-1]}"


def render_markdown(board: Leaderboard, by: Grouping) -> str:
    rows = rows_of(board, by)
    columns = columns_of(rows, by)
    numbers = [at for at, each in enumerate(columns) if each.number]
    cells = [[markdown.escaped(column.cell(row)) for column in columns] for row in rows]
    sections = [
        "# Leaderboard" if by is Grouping.AGENT else f"# Leaderboard by {by.value}",
        markdown.table([markdown.escaped(each.title.capitalize()) for each in columns], cells, numbers),
        "\n".join(f"- {markdown.escaped(each)}" for each in legend(board, by, str.capitalize)),
        "\n".join(f"- {markdown.escaped(each, 1000)}" for each in leaderboard_remarks(board)),
    ]
    for severity, (label, heading) in FLAG_SECTIONS.items():
        flags = [tuple(map(markdown.escaped, line)) for line in flag_lines(board, severity)]
        if flags:
            sections += [f"## {heading}", markdown.table(("Trial", "Kind", "Evidence"), flags[:_MOST_LISTED])]
        if len(flags) > _MOST_LISTED:
            sections.append(f"… and {plural(len(flags) - _MOST_LISTED, f'more {label}')}")
    return "\n\n".join(sections) + "\n"


def render_csv(board: Leaderboard, by: Grouping) -> str:
    """One row for each agent, cell or suite, with unformatted numbers. Unknown is empty.

    What is about all of them is repeated in each row: rules that exclude trials, and notes.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    about_all = {
        "exclusions": "; ".join(f"{each.rule}: {dropped_trials(each)}" for each in board.exclusions),
        "notes": " ".join(board.notes),
    }
    evidence, notes = (_flags_by_row(board, by, severity) for severity in FLAG_SECTIONS)
    rows = [
        _flat(row)
        | {"flag_evidence": "; ".join(evidence[row.agent, row.task, row.suite])}
        | {"flag_note_texts": "; ".join(notes[row.agent, row.task, row.suite])}
        | about_all
        for row in rows_of(board, by)
    ]
    writer.writerow(CSV_COLUMNS)
    writer.writerows([_cell(row[name]) for name in CSV_COLUMNS] for row in rows)
    return out.getvalue()


def _flags_by_row(
    board: Leaderboard, by: Grouping, severity: FlagSeverity
) -> dict[tuple[str, str | None, str | None], list[str]]:
    found: dict[tuple[str, str | None, str | None], list[str]] = defaultdict(list)
    for trial in board.trials:
        meta = trial.meta
        task = meta.task if by is Grouping.TASK else None
        suite = None if by is Grouping.AGENT else board.suite_of_task[meta.task]
        found[meta.orchestrator, task, suite] += [
            f"{trial_name(trial)}: {flag.kind}: {one_line(flag.evidence, _LONGEST_EVIDENCE)}"
            for flag in meta.flags
            if flag.severity == severity
        ]
    return found


CSV_COLUMNS = (
    *("agent", "task", "suite", "planned", "finished", "valid", "validity_unknown", "scored", "outcomes"),
    *("score", "score_low", "score_high", "score_unit", "score_n", "score_if_failed", "score_if_solved"),
    *("best_rank", "worst_rank", "calibrated", "calibrated_low", "calibrated_high", "retried"),
    *("pass_rate", "pass_rate_low", "pass_rate_high", "pass_rate_unit", "tokens", "tokens_partial", "cost_usd"),
    *("cost_partial", "cost_unknown_trials", "cost_per_trial_usd", "cost_per_solved_usd", "uncounted_cost_usd"),
    *("uncounted_cost_partial", "median_duration_s", "on_frontier", "flags", "flag_evidence", "flag_notes"),
    *("flag_note_texts", "exclusions", "notes"),
)


def _flat(row: Row) -> dict[str, Any]:
    calibrated, bounds = row.calibrated, row.bounds
    return {
        "agent": row.agent,
        "task": row.task,
        "suite": row.suite,
        "planned": row.trials.planned,
        "finished": row.trials.finished,
        "valid": row.trials.valid,
        "validity_unknown": row.trials.validity_unknown,
        "scored": row.trials.scored,
        "outcomes": outcomes(row.outcomes),
        "score": row.score.mean,
        "score_low": row.score.low,
        "score_high": row.score.high,
        "score_unit": row.score.unit,
        "score_n": row.score.n,
        "score_if_failed": bounds and bounds.if_failed.mean,
        "score_if_solved": bounds and bounds.if_solved.mean,
        "best_rank": bounds and bounds.best_rank,
        "worst_rank": bounds and bounds.worst_rank,
        "retried": row.trials.retried,
        "calibrated": calibrated and calibrated.mean,
        "calibrated_low": calibrated and calibrated.low,
        "calibrated_high": calibrated and calibrated.high,
        "pass_rate": row.pass_rate.mean,
        "pass_rate_low": row.pass_rate.low,
        "pass_rate_high": row.pass_rate.high,
        "pass_rate_unit": row.pass_rate.unit,
        "tokens": row.tokens.value,
        "tokens_partial": row.tokens.partial,
        "cost_usd": row.cost_usd.value,
        "cost_partial": row.cost_usd.partial,
        "cost_unknown_trials": row.cost_usd.unknown,
        "cost_per_trial_usd": row.cost_per_trial_usd,
        "cost_per_solved_usd": row.cost_per_solved_usd,
        "uncounted_cost_usd": row.uncounted_cost_usd.value,
        "uncounted_cost_partial": row.uncounted_cost_usd.partial,
        "median_duration_s": row.median_duration_s,
        "flags": row.flags,
        "flag_notes": row.flag_notes,
        "on_frontier": row.on_frontier,
    }


def _cell(value: Any) -> str:
    """A text that a spreadsheet would run as a formula begins with an apostrophe."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case str():
            text = one_line(value, _LONGEST_CELL)
            return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
    return repr(value)


def render_json(board: Leaderboard, base: Path) -> str:
    """Render everything, by agent, task, suite and trial. Paths are relative to `base`."""
    import orjson

    document = {
        "version": JSON_VERSION,
        "interval": {"confidence": CONFIDENCE, "unit": "task"},
        "runs": [visible(each) for each in board.runs],
        "coverage": board.coverage,
        "agents": board.agents,
        "tasks": board.tasks,
        "suites": board.suites,
        "frontier": [row.agent for row in board.agents if row.on_frontier],
        "trials": [_trial(each, base) for each in board.trials],
        "unfinished": [each._asdict() | {"run": visible(each.run)} for each in board.unfinished],
        "exclusions": board.exclusions,
        "superseded": board.superseded,
        "unreadable": [{"path": one_line(str(path), 4096), "reason": reason} for path, reason in board.unreadable],
        "notes": board.notes,
    }
    if board.compared is not None:
        document["comparisons"] = [_comparison(each) for each in board.compared.comparisons]
    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"


def _comparison(pair: PairComparison) -> dict[str, Any]:
    """One with a baseline. `yb compare --format json` has more."""
    found = pair.difference
    return {
        "first": visible(pair.first.name),
        "second": visible(pair.second.name),
        "verdict": pair.verdict,
        "verdict_on_tasks_like_these": found.verdict_on_tasks_like_these,
        "difference": found.estimate,
        "interval_on_these_tasks": found.on_these_tasks and list(found.on_these_tasks),
        "interval_on_tasks_like_these": found.on_tasks_like_these and list(found.on_tasks_like_these),
        "tasks": found.tasks,
        "more_trials_needed": found.more_trials,
        "reason": found.reason,
    }


_OF_A_TRIAL = {
    *("orchestrator", "task", "trial", "category", "outcome", "valid", "exit_reason", "reason", "composite_score"),
    *("scores", "duration_s", "total_tokens", "total_cost_usd", "usage_partial", "flags"),
    *("all_attempts_cost_usd", "attempts"),
}


def _trial(trial: ArenaTrial, base: Path) -> dict[str, Any]:
    where = {"run": visible(trial.run), "directory": visible(os.path.relpath(trial.directory, base))}
    return where | trial.meta.model_dump(include=_OF_A_TRIAL)
