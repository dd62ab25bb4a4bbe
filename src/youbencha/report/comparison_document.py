"""Describe a comparison as a document. The verdict comes first, in a sentence."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from youbencha.report.comparison_model import (
    ComparisonReport,
    PairComparison,
    TaskComparison,
    TaskResult,
)
from youbencha.report.document import Block, Code, Column, FileList, Heading, NoteList, Paragraph, Strong, Table
from youbencha.report.formatting import (
    MAX_NAME,
    UNKNOWN_CELL,
    format_coverage,
    format_mean,
    format_rate,
    format_share,
    remarks,
)
from youbencha.report.leaderboard import capped_score, is_scored, listed
from youbencha.stats.model import DifferenceInterval, MissingBounds, ValueDifference, Verdict
from youbencha.store.read import ArenaTrial
from youbencha.text import format_count, format_percent, format_usd, join_words, one_line, plural

BASELINES = "Compared with the baseline"
"""The heading of that part of a leaderboard."""
_MAX_TASKS = 10
_MAX_TASKS_WITH_FILES = 3
_MAX_TITLE = 30
_RELATION: dict[Verdict, str] = {"better": "is better than", "worse": "is worse than"}


class FigureRow(NamedTuple):
    """A figure of both, and the difference with its interval."""

    label: str
    first: str
    second: str
    difference: str = ""


def comparison_document(report: ComparisonReport, base: Path | None, *, details: bool) -> list[Block]:
    """Paths are relative to `base`; without it, no files are named. `details` describes each of several pairs."""
    blocks: list[Block] = [Heading("Comparison", 1)]
    if not report.one_pair:
        blocks += [*([] if details else _undecidable(report)), overview_table(report)]
    if report.one_pair or details:
        for pair in report.comparisons:
            blocks += _pair_blocks(report, pair, base)
    else:
        blocks += _short_notes(report)
    return [*blocks, NoteList(list(remarks(report))), *more_trials_blocks(report)]


def baseline_blocks(report: ComparisonReport) -> list[Block]:
    """Describe how agents compare with their baselines, as a part of a leaderboard."""
    unchanged = unchanged_lines(report)
    notes = [NoteList(unchanged)] if unchanged else []
    return [
        Heading(BASELINES),
        *_undecidable(report),
        overview_table(report),
        *notes,
        *more_trials_blocks(report),
    ]


def more_trials_blocks(report: ComparisonReport) -> list[Block]:
    """Name the command that runs enough further trials to decide, if it is known."""
    command = report.more_trials_command
    return [Paragraph(("More trials: ", Code(command)))] if command else []


def unchanged_lines(report: ComparisonReport) -> list[str]:
    """Warn about variants that changed nothing."""
    return [f"warning: {pair.unchanged}" for pair in report.comparisons if pair.unchanged]


def _undecidable(report: ComparisonReport) -> list[Block]:
    """Yield what does not fit into the table of several comparisons; for a single one, its verdict."""
    alone = len(report.comparisons) == 1
    pairs = [pair for pair in report.comparisons if alone or pair.difference.estimate is None]
    return [Paragraph(verdict_sentence(pair, report.margin)) for pair in pairs]


def _short_notes(report: ComparisonReport) -> list[Block]:
    """Describe what the overview of several pairs does not show."""
    lines: list[str] = []
    for pair in report.comparisons:
        names = " and ".join(shown_name(agent.name) for agent in (pair.first, pair.second))
        in_the_sentence = len(report.comparisons) == 1
        bounds = [] if in_the_sentence else [*_with_the_missing(pair)]
        lines += [f"{names}: {line}" for line in (*early_lines(pair), *bounds)]
        lines += [f"warning: {names}: {warning}" for warning in pair.warnings]
    lines += dict.fromkeys(line for pair in report.comparisons for line in coverage_lines(pair))
    return [NoteList(lines)] if lines else []


def _pair_blocks(report: ComparisonReport, pair: PairComparison, base: Path | None) -> Iterator[Block]:
    names = [shown_name(agent.name) for agent in (pair.first, pair.second)]
    if not report.one_pair:
        yield Heading(f"{names[0]} and {names[1]}")
    yield Paragraph(Strong(verdict_sentence(pair, report.margin)))
    titles = names
    if len(set(names)) < 2 or max(map(len, names)) > _MAX_TITLE:  # too long for the titles of columns
        yield NoteList([f"First: {names[0]}", f"Second: {names[1]}"])
        titles = ["First", "Second"]
    agents = [Column(title, number=True, is_name=True) for title in titles]
    yield Table(
        (Column(""), *agents, Column(f"Difference [{format_percent(report.confidence)}]")), list(figure_rows(pair))
    )
    yield NoteList([*certainty_lines(pair, report), FIGURES_LEGEND])
    if differing := [task for task in pair.tasks if task.difference]:
        yield Heading(f"Tasks where they differ most ({len(differing)} of {plural(len(pair.tasks), 'task')})", 3)
        yield _differing_table(differing[:_MAX_TASKS], agents)
        if base is not None:
            yield FileList(
                [row for task in differing[:_MAX_TASKS_WITH_FILES] for row in _telling_files(task, titles, base)]
            )
    if lines := [*flaky_lines(pair), *pair_remarks(pair)]:
        yield NoteList(lines)


def _differing_table(tasks: Sequence[TaskComparison], agents: Sequence[Column]) -> Table:
    solved = (Column("Solved by 1st", number=True, drop=2), Column("By 2nd", number=True, drop=1))
    columns = (Column("Task"), *agents, Column("Difference", number=True, drop=3), *solved)
    return Table(columns, [task_cells(task) for task in tasks])


def _telling_files(
    task: TaskComparison, titles: Sequence[str], base: Path
) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Name the files of one trial of each agent that shows the difference."""
    for title, trial in zip(titles, contrasting_trials(task), strict=True):
        files = [(name, path) for name, path in (("diff", trial.diff), ("transcript", trial.log)) if path]
        paths = [(name, os.path.relpath(path, base)) for name, path in files or [("files", Path(trial.directory))]]
        yield (
            f"{shown_name(task.task)}, {title}, trial {trial.meta.trial}",
            [(name, Path(path).as_posix()) for name, path in paths],
        )


FIGURES_LEGEND = (
    "Trials: valid/finished/planned. Means over tasks; each task counts the same. Intervals of cost, time and tokens"
    " are on tasks like these."
)


def overview_table(report: ComparisonReport) -> Table:
    """Return a row for each of several comparisons."""
    interval = f"of the mean scores on these tasks, with an interval of {format_percent(report.confidence)} for each."
    columns = (
        Column("First"),
        Column("Second"),
        Column("Verdict"),
        Column("Difference", note=interval),
        Column("On tasks like these", drop=5),
        Column(
            "P", number=True, note=f"of the sign-flip test over tasks, adjusted by Holm's method. {_P_NOTE}", drop=3
        ),
        Column("Tasks", number=True, drop=2),
        Column("Valid", number=True, note="valid/finished trials of both.", drop=4),
        Column("More trials", number=True, drop=1),
    )
    return Table(columns, [_overview_cells(pair) for pair in report.comparisons])


def shown_name(name: str) -> str:
    """On one line, shortened in the middle: paths of runs differ at their ends."""
    line = one_line(name, 4096)
    half = MAX_NAME // 2
    return line if len(line) <= MAX_NAME else f"{line[:half]}…{line[1 - half :]}"


def verdict_sentence(pair: PairComparison, margin: float) -> str:
    """Say who is better and how sure that is, in plain words."""
    first, second = shown_name(pair.first.name), shown_name(pair.second.name)
    difference = pair.difference
    if difference.estimate is None or difference.on_these_tasks is None:
        return f"{first} and {second} cannot be compared: {difference.reason}."
    return " ".join([_verdict(pair, margin, first, second), *_with_the_missing(pair), *_on_others(pair)])


def _verdict(pair: PairComparison, margin: float, first: str, second: str) -> str:
    """State the verdict about these tasks only."""
    difference = pair.difference
    assert difference.estimate is not None
    assert difference.on_these_tasks is not None
    by, certainty = signed(difference.estimate), f"(on these tasks {_range(difference.on_these_tasks)})"
    if relation := _RELATION.get(pair.verdict):
        return f"{first} {relation} {second} by {digits(abs(difference.estimate))} {certainty}."
    if pair.verdict == "equivalent":
        return f"{first} and {second} are equivalent within ±{margin:g}: they differ by {by} {certainty}."
    if difference.bounds is not None and difference.overturned:
        missing = are_missing(pair, difference.bounds)
        return f"Undecided: {missing}. In the valid trials, {first} and {second} differ by {by} {certainty}."
    return f"Undecided: {first} and {second} differ by {by} {certainty}{_trials_needed(pair)}."


def are_missing(pair: PairComparison, bounds: MissingBounds) -> str:
    """Say how many trials of whom are missing or were retried."""
    name = shown_name((pair.first if bounds.of_first else pair.second).name)
    trials = f"of {plural(bounds.trials, 'trial')} of {name}"
    retried = f"{'was' if bounds.retried == 1 else 'were'} retried"
    if not bounds.missing:
        return f"{bounds.retried} {trials} {retried}"
    missing = f"{bounds.missing} {trials} {'is' if bounds.missing == 1 else 'are'} missing"
    return f"{missing} and {bounds.retried} {retried}" if bounds.retried else missing


def _uncertain(bounds: MissingBounds) -> list[tuple[str, int]]:
    kinds = (("missing", bounds.missing), ("retried", bounds.retried))
    return [(kind, number) for kind, number in kinds if number]


def _with_the_missing(pair: PairComparison) -> Iterator[str]:
    """State what the difference would be with other results of one agent's missing and retried trials."""
    if (bounds := pair.difference.bounds) is None:
        return
    failed, solved = (f"{signed(bound.estimate)} ({_range(bound.on_these_tasks)})" for bound in bounds.both)
    trials = f"the {join_words([kind for kind, _ in _uncertain(bounds)])} trial"
    one = bounds.uncertain == 1
    if_failed, if_solved = (f"{trials} had failed", "it") if one else (f"{trials}s had all failed", "all")
    missing = "" if pair.difference.overturned else f"{are_missing(pair, bounds)}. "
    yield f"{missing}If {if_failed}, the difference would be {failed}; if {if_solved} had been solved, {solved}."


def _on_others(pair: PairComparison) -> Iterator[str]:
    """State the claim about tasks like these separately."""
    difference = pair.difference
    if (interval := difference.on_tasks_like_these) is not None:
        yield f"On tasks like these: {difference.verdict_on_tasks_like_these} ({_range(interval)})."


def _trials_needed(pair: PairComparison) -> str:
    if pair.difference.more_trials is None:
        return ""
    cost = "" if pair.more_trials_cost_usd is None else f" (≈ {format_usd(pair.more_trials_cost_usd)})"
    return f"; about {plural(pair.difference.more_trials, 'more trial')}{cost} would tell"


def digits(number: float) -> str:
    """Two digits; three if there would be nothing but zeros."""
    return f"{number:.2f}" if abs(number) >= 0.005 or number == 0 else f"{number:.3f}"


def signed(number: float) -> str:
    return ("-" if number < 0 else "+") + digits(abs(number))


def _range(interval: DifferenceInterval) -> str:
    low, high = (digits(end) if end >= 0 else signed(end) for end in interval)
    return f"{low} to {high}"


def bracketed(interval: DifferenceInterval | None, form: Callable[[float], str]) -> str:
    return "" if interval is None else f" [{form(interval.low)}, {form(interval.high)}]"


def figure_rows(pair: PairComparison) -> Iterator[FigureRow]:
    """The figures of both side by side, over the tasks that are compared."""
    first, second, difference = pair.first.figures, pair.second.figures, pair.difference
    yield FigureRow(
        "Score on these tasks",
        format_mean(first.score.mean),
        format_mean(second.score.mean),
        _with_interval(difference.estimate, difference.on_these_tasks, signed),
    )
    yield FigureRow(
        "Score on tasks like these", "", "", _with_interval(difference.estimate, difference.on_tasks_like_these, signed)
    )
    passed = pair.pass_rate
    yield FigureRow(
        "Solved",
        format_rate(first.pass_rate),
        format_rate(second.pass_rate),
        _with_interval(passed.estimate, passed.on_these_tasks, _points),
    )
    if len(pair.first.passes) > 1:
        one, two = pair.first.passes[-1], pair.second.passes[-1]
        yield FigureRow(
            f"pass@{one.k}",
            format_percent(one.any),
            format_percent(two.any),
            _points(one.any - two.any),
        )
        yield FigureRow(f"pass^{one.k}", format_percent(one.all), format_percent(two.all), _points(one.all - two.all))
    yield _value_row("Cost per trial", pair.cost_usd, format_usd)
    costs = first.cost_per_solved_usd, second.cost_per_solved_usd
    yield FigureRow(
        "Cost per solved",
        format_share(costs[0], first.cost_usd),
        format_share(costs[1], second.cost_usd),
        UNKNOWN_CELL if costs[0] is None or costs[1] is None else _sign(costs[0] - costs[1], format_usd),
    )
    times = pair.duration_s
    yield _value_row("Time per trial", times, _milliseconds if max(times.first or 0, times.second or 0) < 1 else _span)
    yield _value_row("Tokens per trial", pair.tokens, lambda tokens: format_count(round(tokens)))
    yield FigureRow("Trials", format_coverage(pair.first.coverage), format_coverage(pair.second.coverage))


def _with_interval(estimate: float | None, interval: DifferenceInterval | None, form: Callable[[float], str]) -> str:
    return UNKNOWN_CELL if estimate is None else form(estimate) + bracketed(interval, form)


def _points(share: float) -> str:
    """A difference of percentages."""
    return f"{share * 100:+.1f}"


def _sign(number: float, form: Callable[[float], str]) -> str:
    text = form(abs(number))
    return ("-" if number < 0 and text != form(0) else "+") + text


def _span(seconds: float) -> str:
    """Shorter than elsewhere: an interval has two of them."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"


def _value_row(label: str, values: ValueDifference, form: Callable[[float], str]) -> FigureRow:
    first, second = (UNKNOWN_CELL if value is None else form(value) for value in (values.first, values.second))
    return FigureRow(
        label, first, second, _with_interval(values.difference, values.interval, lambda value: _sign(value, form))
    )


_P_NOTE = "The verdict does not depend on it; few tasks cannot give a small one."


def certainty_lines(pair: PairComparison, report: ComparisonReport) -> Iterator[str]:
    """Say what the verdict rests on."""
    difference = pair.difference
    yield from early_lines(pair)
    if difference.p_value is not None:
        several = f", {_p(pair.p_adjusted)} adjusted for {len(report.comparisons)} comparisons (Holm)"
        adjusted = several if len(report.comparisons) > 1 else ""
        test = f"sign-flip test over {plural(difference.tasks, 'task')}"
        yield f"p-value {_p(difference.p_value)} ({test}){adjusted}. {_P_NOTE}"
    if difference.detectable is not None:
        yield f"This many trials find a difference of {digits(difference.detectable)} in 80 of 100 cases."
    most = len(pair.first.passes)
    passes = f"pass@{most}: solved at least once in {most} trials; pass^{most}: every time. " if most > 1 else ""
    yield f"{passes}Differences of shares are in percentage points."
    if difference.reason and difference.estimate is not None:
        yield f"{difference.reason[0].upper()}{difference.reason[1:]}."


def early_lines(pair: PairComparison) -> Iterator[str]:
    """Say how many trials a run with `--until-decided` needed."""
    if (early := pair.decided_early) is not None:
        yield (
            f"Judged by the confidence sequence of the run, after {plural(early.rounds, 'round')}: "
            f"{plural(early.trials, 'trial')} of at most {format_count(early.max_trials)}, "
            f"{format_count(early.saved)} saved."
        )
        if early.given_up:
            yield f"Given up: no valid pair of trials in several rounds on {listed(early.given_up)}."


def _p(value: float | None) -> str:
    if value is None:
        return UNKNOWN_CELL
    return f"{value:.3f}" if value >= 0.001 else "< 0.001"


def pair_remarks(pair: PairComparison) -> Iterator[str]:
    """Say why the two may not be comparable, and what is left out."""
    yield from (f"warning: {warning}" for warning in pair.warnings)
    yield from coverage_lines(pair)


def coverage_lines(pair: PairComparison) -> Iterator[str]:
    for side, tasks in ((pair.first, pair.only_first), (pair.second, pair.only_second)):
        if tasks:
            yield f"only {shown_name(side.name)} has a score for {listed(tasks)}: not compared"
        if invalid := side.coverage.finished - side.coverage.valid:
            yield f"not valid, so excluded from scores: {plural(invalid, 'trial')} of {shown_name(side.name)}"
        if retried := side.coverage.retried:
            yield f"retried after an attempt that was not valid: {plural(retried, 'trial')} of {shown_name(side.name)}"


def flaky_lines(pair: PairComparison) -> Iterator[str]:
    """Name the tasks that the same agent sometimes solved and sometimes did not."""
    for side, which in ((pair.first, "first"), (pair.second, "second")):
        flaky = [task.task for task in pair.flaky if getattr(task, which).flaky]
        if flaky:
            yield f"flaky with {shown_name(side.name)}, sometimes solved and sometimes not: {listed(flaky)}"


def contrasting_trials(task: TaskComparison) -> tuple[ArenaTrial, ArenaTrial]:
    """One trial of each that shows the difference: the best of the better, the worst of the other."""
    return _extreme(task.first, best=task.difference >= 0), _extreme(task.second, best=task.difference < 0)


def _extreme(result: TaskResult, *, best: bool) -> ArenaTrial:
    scored = [trial for trial in result.trials if is_scored(trial.meta)]
    return (max if best else min)(scored, key=lambda trial: capped_score(trial.meta) or 0)


def task_cells(task: TaskComparison) -> tuple[str, ...]:
    """Task, score of the first, of the second, difference, solved trials of both."""
    results = task.first, task.second
    return (
        shown_name(task.task),
        *(format_mean(result.score) for result in results),
        signed(task.difference),
        *(f"{result.solved}/{result.judged}" if result.judged else UNKNOWN_CELL for result in results),
    )


def _short_verdict(pair: PairComparison) -> str:
    bounds = pair.difference.bounds
    if bounds is None or not pair.difference.overturned:
        return pair.verdict
    return f"{pair.verdict}: {join_words([f'{number} {kind}' for kind, number in _uncertain(bounds)])}"


def _overview_cells(pair: PairComparison) -> tuple[str, ...]:
    difference = pair.difference
    more = "" if difference.more_trials is None else f"≈ {format_count(difference.more_trials)}"
    cost = "" if pair.more_trials_cost_usd is None else f" (≈ {format_usd(pair.more_trials_cost_usd)})"
    return (
        shown_name(pair.first.name),
        shown_name(pair.second.name),
        _short_verdict(pair),
        _with_interval(difference.estimate, difference.on_these_tasks, signed),
        f"{difference.verdict_on_tasks_like_these}{bracketed(difference.on_tasks_like_these, signed)}",
        _p(pair.p_adjusted),
        format_count(difference.tasks),
        " : ".join(f"{agent.coverage.valid}/{agent.coverage.finished}" for agent in (pair.first, pair.second)),
        more + cost,
    )
