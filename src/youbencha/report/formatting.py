"""Format the figures of leaderboards and comparisons, and say what these leave out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from youbencha.report.arena_selection import Exclusion
from youbencha.report.comparison_model import ComparisonReport
from youbencha.report.document import MAX_LISTED
from youbencha.report.leaderboard import Leaderboard, Total, TrialCoverage
from youbencha.stats.model import Interval
from youbencha.text import format_count, format_duration, format_percent, format_usd, one_line, plural

UNKNOWN_CELL = "-"
MAX_NAME = 60


def format_interval(interval: Interval | None) -> str:
    """`0.714 [0.62, 0.80]`."""
    if interval is None or interval.mean is None:
        return UNKNOWN_CELL
    return f"{interval.mean:.3f}" + (f" [{interval.low:.2f}, {interval.high:.2f}]" if interval.low is not None else "")


def format_mean(value: float | None) -> str:
    return UNKNOWN_CELL if value is None else f"{value:.3f}"


def format_rate(rate: Interval) -> str:
    return UNKNOWN_CELL if rate.mean is None else format_percent(rate.mean)


def format_coverage(trials: TrialCoverage) -> str:
    """`8/9/10`: valid, finished, planned."""
    return f"{trials.valid}/{trials.finished}/{'?' if trials.planned is None else trials.planned}"


def format_share(dollars: float | None, total: Total) -> str:
    """Format the part of a total that falls to one trial: a lower bound, if the total is one."""
    return UNKNOWN_CELL if dollars is None else ("≥ " if total.partial else "") + format_usd(dollars)


def format_seconds(seconds: float | None) -> str:
    return UNKNOWN_CELL if seconds is None else format_duration(seconds * 1000)


def remarks(board: Leaderboard | ComparisonReport, max_listed: int | None = MAX_LISTED) -> Iterator[str]:
    """Yield what the figures leave out, and why."""
    yield f"{plural(len(board.runs), 'run')}: {_name_ends([one_line(run, 100) for run in board.runs])}"
    yield from (f"excluded by {one_line(rule.rule)}: {describe_exclusion(rule)}" for rule in board.exclusions)
    if board.superseded:
        yield f"older trials of the same identity, left out: {format_count(board.superseded)}"
    yield from (f"note: {note}" for note in board.notes)
    unreadable = [f"not readable: {one_line(str(path), 500)}: {reason}" for path, reason in board.unreadable]
    yield from limit_lines(unreadable, "file that is not readable", max_listed)


def describe_exclusion(exclusion: Exclusion) -> str:
    if not exclusion.matched:
        return "nothing, because no trial fits the rule"
    others = exclusion.matched - exclusion.dropped
    losses = [
        f"{format_count(lost)} of {one_line(agent, MAX_NAME)}" for agent, lost in exclusion.dropped_by_agent.items()
    ]
    more = [f"{format_count(len(losses) - MAX_LISTED)} more agents"] if len(losses) > MAX_LISTED else []
    return (
        plural(exclusion.dropped, "trial")
        + (f" ({', '.join([*losses[:MAX_LISTED], *more])})" if losses else "")
        + (f", and {format_count(others)} already excluded by an earlier rule" if others else "")
    )


def limit_lines(lines: Sequence[str], noun: str, max_listed: int | None) -> Iterator[str]:
    yield from lines[:max_listed]
    if max_listed is not None and len(lines) > max_listed:
        yield f"and {plural(len(lines) - max_listed, f'more {noun}')}"


def _name_ends(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{names[0]} … {names[-1]}"
