"""Render a comparison as text: for the terminal, and in Markdown. The verdict comes first, in a sentence."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from textwrap import fill
from typing import NamedTuple
from urllib.parse import quote

from youbencha.report import markdown
from youbencha.report.arena_tables import NOT_KNOWN, coverage, per, rate, remarks
from youbencha.report.comparison_model import (
    ComparedTrial,
    ComparisonReport,
    PairComparison,
    TaskComparison,
    TaskResult,
)
from youbencha.report.leaderboard import listed
from youbencha.stats.comparison import DifferenceInterval, MissingBounds, ValueDifference, Verdict
from youbencha.text import count, join_words, one_line, percent, plural, table, usd

_LONGEST_NAME = 60
_MOST_TASKS = 10
BASELINES = "Compared with the baseline"
"""The heading of that part of a leaderboard."""
_MOST_WITH_FILES = 3
_RELATION: dict[Verdict, str] = {"better": "is better than", "worse": "is worse than"}


class FigureRow(NamedTuple):
    """A figure of both, and the difference with its interval."""

    label: str
    first: str
    second: str
    difference: str = ""


def shown_name(name: str) -> str:
    """On one line, shortened in the middle: paths of runs differ at their ends."""
    line = one_line(name, 4096)
    half = _LONGEST_NAME // 2
    return line if len(line) <= _LONGEST_NAME else f"{line[:half]}…{line[1 - half :]}"


def verdict_sentence(pair: PairComparison, margin: float) -> str:
    """Say who is better and how sure that is, in plain words."""
    first, second = shown_name(pair.first.name), shown_name(pair.second.name)
    found = pair.difference
    if found.estimate is None or found.on_these_tasks is None:
        return f"{first} and {second} cannot be compared: {found.reason}."
    return " ".join([_verdict(pair, margin, first, second), *_with_the_missing(pair), *_on_others(pair)])


def _verdict(pair: PairComparison, margin: float, first: str, second: str) -> str:
    """State the verdict about these tasks only."""
    found = pair.difference
    assert found.estimate is not None
    assert found.on_these_tasks is not None
    by, certainty = signed(found.estimate), f"(on these tasks {_range(found.on_these_tasks)})"
    if relation := _RELATION.get(pair.verdict):
        return f"{first} {relation} {second} by {digits(abs(found.estimate))} {certainty}."
    if pair.verdict == "equivalent":
        return f"{first} and {second} are equivalent within ±{margin:g}: they differ by {by} {certainty}."
    if found.bounds is not None and found.overturned:
        missing = are_missing(pair, found.bounds)
        return f"Undecided: {missing}. In the valid trials, {first} and {second} differ by {by} {certainty}."
    return f"Undecided: {first} and {second} differ by {by} {certainty}{_what_would_tell(pair)}."


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
    found = pair.difference
    if found.on_tasks_like_these is not None:
        yield f"On tasks like these: {found.verdict_on_tasks_like_these} ({_range(found.on_tasks_like_these)})."


def _what_would_tell(pair: PairComparison) -> str:
    if pair.difference.more_trials is None:
        return ""
    cost = "" if pair.more_trials_cost_usd is None else f" (≈ {usd(pair.more_trials_cost_usd)})"
    return f"; about {plural(pair.difference.more_trials, 'more trial')}{cost} would tell"


def digits(number: float) -> str:
    """Two digits; three if there would be nothing but zeros."""
    return f"{number:.2f}" if abs(number) >= 0.005 or number == 0 else f"{number:.3f}"


def signed(number: float) -> str:
    return ("-" if number < 0 else "+") + digits(abs(number))


def _range(found: DifferenceInterval) -> str:
    low, high = (digits(each) if each >= 0 else signed(each) for each in found)
    return f"{low} to {high}"


def bracketed(found: DifferenceInterval | None, form: Callable[[float], str]) -> str:
    return "" if found is None else f" [{form(found.low)}, {form(found.high)}]"


def figure_rows(pair: PairComparison) -> Iterator[FigureRow]:
    """The figures of both side by side, over the tasks that are compared."""
    first, second, found = pair.first.figures, pair.second.figures, pair.difference
    yield FigureRow(
        "Score on these tasks",
        _score(first.score.mean),
        _score(second.score.mean),
        _with_interval(found.estimate, found.on_these_tasks, signed),
    )
    yield FigureRow(
        "Score on tasks like these", "", "", _with_interval(found.estimate, found.on_tasks_like_these, signed)
    )
    passed = pair.pass_rate
    yield FigureRow(
        "Solved",
        rate(first.pass_rate),
        rate(second.pass_rate),
        _with_interval(passed.estimate, passed.on_these_tasks, _points),
    )
    if len(pair.first.passes) > 1:
        one, two = pair.first.passes[-1], pair.second.passes[-1]
        yield FigureRow(
            f"pass@{one.k}",
            percent(one.any),
            percent(two.any),
            _points(one.any - two.any),
        )
        yield FigureRow(f"pass^{one.k}", percent(one.all), percent(two.all), _points(one.all - two.all))
    yield _value_row("Cost per trial", pair.cost_usd, usd)
    costs = first.cost_per_solved_usd, second.cost_per_solved_usd
    yield FigureRow(
        "Cost per solved",
        per(costs[0], first.cost_usd),
        per(costs[1], second.cost_usd),
        NOT_KNOWN if costs[0] is None or costs[1] is None else _sign(costs[0] - costs[1], usd),
    )
    times = pair.duration_s
    yield _value_row("Time per trial", times, _milliseconds if max(times.first or 0, times.second or 0) < 1 else _span)
    yield _value_row("Tokens per trial", pair.tokens, lambda tokens: count(round(tokens)))
    yield FigureRow("Trials", coverage(pair.first.coverage), coverage(pair.second.coverage))


def _score(mean: float | None) -> str:
    return NOT_KNOWN if mean is None else f"{mean:.3f}"


def _with_interval(estimate: float | None, interval: DifferenceInterval | None, form: Callable[[float], str]) -> str:
    return NOT_KNOWN if estimate is None else form(estimate) + bracketed(interval, form)


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


def _value_row(label: str, found: ValueDifference, form: Callable[[float], str]) -> FigureRow:
    first, second = (NOT_KNOWN if each is None else form(each) for each in (found.first, found.second))
    return FigureRow(
        label, first, second, _with_interval(found.difference, found.interval, lambda each: _sign(each, form))
    )


_P_NOTE = "The verdict does not depend on it; few tasks cannot give a small one."


def certainty_lines(pair: PairComparison, report: ComparisonReport) -> Iterator[str]:
    """Say what the verdict rests on."""
    found = pair.difference
    yield from early_lines(pair)
    if found.p_value is not None:
        several = f", {_p(pair.p_adjusted)} adjusted for {len(report.comparisons)} comparisons (Holm)"
        adjusted = several if len(report.comparisons) > 1 else ""
        yield f"p-value {_p(found.p_value)} (sign-flip test over {plural(found.tasks, 'task')}){adjusted}. {_P_NOTE}"
    if found.detectable is not None:
        yield f"This many trials find a difference of {digits(found.detectable)} in 80 of 100 cases."
    most = len(pair.first.passes)
    passes = f"pass@{most}: solved at least once in {most} trials; pass^{most}: every time. " if most > 1 else ""
    yield f"{passes}Differences of shares are in percentage points."
    if found.reason and found.estimate is not None:
        yield f"{found.reason[0].upper()}{found.reason[1:]}."


def early_lines(pair: PairComparison) -> Iterator[str]:
    """Say how many trials a run with `--until-decided` needed."""
    if (early := pair.decided_early) is not None:
        yield (
            f"Judged by the confidence sequence of the run, after {plural(early.rounds, 'round')}: "
            f"{plural(early.trials, 'trial')} of at most {count(early.max_trials)}, {count(early.saved)} saved."
        )
        if early.given_up:
            yield f"Given up: no valid pair of trials in several rounds on {listed(early.given_up)}."


def _p(value: float | None) -> str:
    if value is None:
        return NOT_KNOWN
    return f"{value:.3f}" if value >= 0.001 else "< 0.001"


def pair_remarks(pair: PairComparison) -> Iterator[str]:
    """Say why the two may not be comparable, and what is left out."""
    yield from (f"warning: {each}" for each in pair.warnings)
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
        flaky = [each.task for each in pair.flaky if getattr(each, which).flaky]
        if flaky:
            yield f"flaky with {shown_name(side.name)}, sometimes solved and sometimes not: {listed(flaky)}"


def telling_trials(task: TaskComparison) -> tuple[ComparedTrial, ComparedTrial]:
    """One trial of each that shows the difference: the best of the better, the worst of the other."""
    return _extreme(task.first, best=task.difference >= 0), _extreme(task.second, best=task.difference < 0)


def _extreme(result: TaskResult, *, best: bool) -> ComparedTrial:
    scored = [each for each in result.trials if each.score is not None and each.valid is not False]
    return (max if best else min)(scored, key=lambda each: each.score or 0)


def task_cells(task: TaskComparison) -> tuple[str, ...]:
    """Task, score of the first, of the second, difference, solved trials of both."""
    results = task.first, task.second
    return (
        shown_name(task.task),
        *(_score(each.score) for each in results),
        signed(task.difference),
        *(f"{each.solved}/{each.judged}" if each.judged else NOT_KNOWN for each in results),
    )


def render_comparison_table(report: ComparisonReport, width: int, base: Path) -> str:
    """For a terminal. Paths are relative to `base`."""
    lines = _one_pair(report, width, base) if report.one_pair else _several(report, width)
    more = more_trials_lines(report)  # not wrapped: the command is copied
    return "\n".join([*lines, *(_wrapped(each, width) for each in remarks(report)), *more]) + "\n"


def more_trials_lines(report: ComparisonReport) -> list[str]:
    """Name the command that runs enough further trials to decide, if it is known."""
    return [f"More trials: {report.more_trials_command}"] if report.more_trials_command else []


def _sentences(report: ComparisonReport, width: int) -> Iterator[str]:
    """Yield what does not fit into the table of several comparisons; for a single one, its verdict."""
    alone = len(report.comparisons) == 1
    for pair in report.comparisons:
        if alone or pair.difference.estimate is None:
            yield _wrapped(verdict_sentence(pair, report.margin), width)


def _wrapped(line: str, width: int) -> str:
    """Wrap prose between words. There is no width in a pipe or a file."""
    return fill(line, width, break_long_words=False, break_on_hyphens=False, subsequent_indent="  ")


def _several(report: ComparisonReport, width: int) -> Iterator[str]:
    if sentences := list(_sentences(report, width)):
        yield from (*sentences, "")
    yield from _overview(report, width)
    for pair in report.comparisons:
        names = " and ".join(shown_name(each.name) for each in (pair.first, pair.second))
        in_the_sentence = len(report.comparisons) == 1
        lines = [*early_lines(pair), *([] if in_the_sentence else _with_the_missing(pair))]
        yield from (_wrapped(f"{names}: {each}", width) for each in lines)
        yield from (_wrapped(f"warning: {names}: {each}", width) for each in pair.warnings)
    covered = dict.fromkeys(line for pair in report.comparisons for line in coverage_lines(pair))
    yield from (_wrapped(each, width) for each in covered)


def _overview(report: ComparisonReport, width: int) -> Iterator[str]:
    rows = map(overview_cells, report.comparisons)
    shown = table(OVERVIEW, rows, width=width, right=_OVERVIEW_RIGHT, drop=_OVERVIEW_DROP)
    kept = shown.partition("\n")[0].split()
    yield shown
    yield ""
    yield from (_wrapped(each, width) for each in overview_legend(report) if each.partition(":")[0] in kept)


def render_baselines_table(report: ComparisonReport, width: int) -> str:
    """As a part of a leaderboard."""
    sentences = list(_sentences(report, width))
    unchanged = (_wrapped(line, width) for line in unchanged_lines(report))
    overview = [*_overview(report, width), *unchanged, *more_trials_lines(report)]
    return "\n".join(["", f"{BASELINES}:", "", *sentences, *([""] if sentences else []), *overview]) + "\n"


def unchanged_lines(report: ComparisonReport) -> list[str]:
    """Warn about variants that changed nothing."""
    return [f"warning: {pair.unchanged}" for pair in report.comparisons if pair.unchanged]


def _one_pair(report: ComparisonReport, width: int, base: Path) -> Iterator[str]:
    pair = report.comparisons[0]
    yield _wrapped(verdict_sentence(pair, report.margin), width)
    rows = list(figure_rows(pair))
    names = [shown_name(pair.first.name), shown_name(pair.second.name)]
    figures = table(_header(names), rows, width=width, right=names)
    # Names that are too long, or like another title, are above the table.
    short = max(map(len, figures.splitlines())) > width or len({*_header(names), "TASK", "DIFFERENCE"}) < 6
    yield ""
    yield from [f"FIRST   {names[0]}", f"SECOND  {names[1]}", ""] if short else []
    names = ["FIRST", "SECOND"] if short else names
    yield table(_header(names), rows, width=width, right=names)
    yield ""
    yield from (_wrapped(each, width) for each in certainty_lines(pair, report))
    yield _wrapped(FIGURES_LEGEND, width)
    yield from _differing(pair, names, width, base)
    yield ""
    yield from (_wrapped(each, width) for each in (*flaky_lines(pair), *pair_remarks(pair)))


FIGURES_LEGEND = (
    "Trials: valid/finished/planned. Means over tasks; each task counts the same. Intervals of cost, time and tokens"
    " are on tasks like these."
)


def _header(names: Sequence[str]) -> tuple[str, ...]:
    return ("", *names, "DIFFERENCE [95 %]")


def differing(pair: PairComparison) -> tuple[TaskComparison, ...]:
    """The tasks with a difference, the largest first."""
    return tuple(each for each in pair.tasks if each.difference)


def _differing(pair: PairComparison, names: Sequence[str], width: int, base: Path) -> Iterator[str]:
    found = differing(pair)
    if not found:
        return
    header = ("TASK", *names, "DIFFERENCE", "SOLVED BY 1ST", "BY 2ND")
    yield f"\nTasks where they differ most ({len(found)} of {plural(len(pair.tasks), 'task')})"
    yield table(header, map(task_cells, found[:_MOST_TASKS]), width=width, right=header[1:], drop=header[:3:-1])
    yield ""
    for task in found[:_MOST_WITH_FILES]:
        for name, trial in zip(names, telling_trials(task), strict=True):
            yield f"{shown_name(task.task)}, {name}, trial {trial.trial}:"
            files = [path for path in (trial.diff, trial.transcript) if path] or [trial.directory]
            yield from (f"  {one_line(os.path.relpath(path, base), 4096)}" for path in files)


OVERVIEW = ("FIRST", "SECOND", "VERDICT", "DIFFERENCE", "ON TASKS LIKE THESE", "P", "TASKS", "VALID", "MORE TRIALS")
_OVERVIEW_RIGHT = ("P", "TASKS", "VALID", "MORE TRIALS")
_OVERVIEW_DROP = ("MORE TRIALS", "TASKS", "P", "VALID", "ON TASKS LIKE THESE")


def _short_verdict(pair: PairComparison) -> str:
    bounds = pair.difference.bounds
    if bounds is None or not pair.difference.overturned:
        return pair.verdict
    return f"{pair.verdict}: {join_words([f'{number} {kind}' for kind, number in _uncertain(bounds)])}"


def overview_cells(pair: PairComparison) -> tuple[str, ...]:
    """One row for each of several comparisons."""
    found = pair.difference
    more = "" if found.more_trials is None else f"≈ {count(found.more_trials)}"
    cost = "" if pair.more_trials_cost_usd is None else f" (≈ {usd(pair.more_trials_cost_usd)})"
    return (
        shown_name(pair.first.name),
        shown_name(pair.second.name),
        _short_verdict(pair),
        _with_interval(found.estimate, found.on_these_tasks, signed),
        f"{found.verdict_on_tasks_like_these}{bracketed(found.on_tasks_like_these, signed)}",
        _p(pair.p_adjusted),
        count(found.tasks),
        " : ".join(f"{each.coverage.valid}/{each.coverage.finished}" for each in (pair.first, pair.second)),
        more + cost,
    )


def overview_legend(report: ComparisonReport, title: Callable[[str], str] = str) -> Iterator[str]:
    """Explain the columns. `title` formats their titles."""
    interval = f"an interval of {percent(report.confidence)} for each"
    yield f"{title('DIFFERENCE')}: of the mean scores on these tasks, with {interval}."
    yield f"P: of the sign-flip test over tasks, adjusted by Holm's method. {_P_NOTE}"
    yield f"{title('VALID')}: valid/finished trials of both."


def render_comparison_markdown(report: ComparisonReport, base: Path | None) -> str:
    """In GitHub's Markdown. Links are relative to `base`; without it, there are none."""
    sections = ["# Comparison"]
    if not report.one_pair:
        sections += _markdown_overview(report)
    for pair in report.comparisons:
        sections += _markdown_pair(report, pair, base)
    return "\n\n".join([*sections, _bullets([*remarks(report), *more_trials_lines(report)])]) + "\n"


def _markdown_overview(report: ComparisonReport) -> Iterator[str]:
    cells = [[markdown.escaped(cell) for cell in overview_cells(pair)] for pair in report.comparisons]
    yield markdown.table([each.capitalize() for each in OVERVIEW], cells)
    yield _bullets(overview_legend(report, str.capitalize))


def render_baselines_markdown(report: ComparisonReport) -> str:
    """As a part of a leaderboard."""
    unchanged = unchanged_lines(report)
    parts = [*_markdown_overview(report), *([_bullets(unchanged)] if unchanged else [])]
    return "\n\n".join(["", f"## {BASELINES}", *parts]) + "\n"


def _markdown_pair(report: ComparisonReport, pair: PairComparison, base: Path | None) -> Iterator[str]:
    names = [markdown.escaped(shown_name(each.name)) for each in (pair.first, pair.second)]
    if not report.one_pair:
        yield f"## {names[0]} and {names[1]}"
    yield f"**{markdown.escaped(verdict_sentence(pair, report.margin), 2000)}**"
    interval = f"Difference [{percent(report.confidence)}]"
    yield markdown.table(
        ("", *names, interval), ([markdown.escaped(cell) for cell in row] for row in figure_rows(pair)), (1, 2)
    )
    yield _bullets([*certainty_lines(pair, report), FIGURES_LEGEND])
    if found := differing(pair):
        yield "### Tasks where they differ most"
        header = ("Task", *names, "Difference", "Solved", "Solved", *(("First", "Second") if base else ()))
        rows = [[*map(markdown.escaped, task_cells(each)), *_links(each, base)] for each in found[:_MOST_TASKS]]
        yield markdown.table(header, rows, (1, 2, 3, 4, 5))
    if lines := [*flaky_lines(pair), *pair_remarks(pair)]:
        yield _bullets(lines)


def _links(task: TaskComparison, base: Path | None) -> Iterator[str]:
    if base is None:
        return
    for trial in telling_trials(task):
        files = {"diff": trial.diff, "transcript": trial.transcript}
        yield " · ".join(f"[{name}]({_url(path, base)})" for name, path in files.items() if path)


def _url(path: str, base: Path) -> str:
    return quote(Path(os.path.relpath(path, base)).as_posix())


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {markdown.escaped(each, 2000)}" for each in lines)
