"""Aggregate the trials of the arena: by agent, by agent and task, by agent and suite.

Invalid trials are excluded from scores but always counted in the coverage. Unknown values are null, and a sum with an
unknown part is a lower bound. The order of the trials makes no difference.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from statistics import fmean, median
from typing import TYPE_CHECKING

from youbencha.report.arena_selection import Exclusion, exclude, in_category, newest_only
from youbencha.report.commit_files import CommitFiles, commit_notes
from youbencha.scoring.composite import rescale
from youbencha.stats.comparison import FAILED_SCORE, SOLVED_SCORE
from youbencha.stats.intervals import mean_interval, pass_rate_interval
from youbencha.stats.model import Interval
from youbencha.store.arena import TrialMeta
from youbencha.store.read import ArenaResults, ArenaTrial, Range, UnfinishedTrial, Unreadable
from youbencha.text import first_few, one_line, plural

if TYPE_CHECKING:
    from youbencha.report.comparison_model import ComparisonReport

SOLVED = "solved"
_MAX_NAMES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialCoverage:
    """How many trials there are of each kind."""

    planned: int | None
    """Null if a run does not record it."""
    finished: int
    valid: int
    """Includes results of the original Thunderdome, which did not record validity."""
    validity_unknown: int
    scored: int
    """The number of valid trials with a score."""
    retried: int = 0
    """The number of valid trials that followed an invalid attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """A sum over trials."""

    value: float | None
    """Null if unknown for all of them."""
    partial: bool
    """Whether the sum is a lower bound."""
    unknown: int
    """The number of trials for which it is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreBounds:
    """The mean score with other results of the missing and retried trials."""

    if_failed: Interval
    if_solved: Interval
    best_rank: int | None = None
    """The rank among the rows of the same task or suite, or among all agents, if all had been solved."""
    worst_rank: int | None = None
    """The rank if all had failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The figures of an agent: on all tasks, on one, or on those of a suite."""

    agent: str
    task: str | None
    suite: str | None
    trials: TrialCoverage
    score: Interval
    bounds: ScoreBounds | None = None
    """Null if no trial is missing and none was retried."""
    calibrated: Interval | None
    """The score between doing nothing (0) and the reference solution (1). Null if the tasks are not calibrated."""
    pass_rate: Interval
    outcomes: Mapping[str, int]
    tokens: Total
    cost_usd: Total
    """The cost of the attempts that count."""
    cost_per_trial_usd: float | None
    cost_per_solved_usd: float | None
    """The cost of all counting attempts, failed ones included, divided by the number of solved trials."""
    uncounted_cost_usd: Total
    """The cost of invalid attempts: repeated ones, and those of invalid trials."""
    median_duration_s: float | None
    flags: int
    """The number of flags that are evidence of cheating."""
    flag_notes: int
    """The number of flags that honest work can also cause."""
    on_frontier: bool = False
    """Whether no other agent has a better score for the same cost or less. Only for rows of agents."""
    by_suite: Mapping[str, float | None] = field(default_factory=dict)
    """The mean scores in the suites that the reader named. Only for rows of agents."""

    @property
    def mean_over_suites(self) -> float | None:
        """The mean of `by_suite`, in which every suite counts the same. None if one of them is unknown."""
        known = [mean for mean in self.by_suite.values() if mean is not None]
        return fmean(known) if known and len(known) == len(self.by_suite) else None


@dataclass(frozen=True, kw_only=True)
class Leaderboard:
    runs: tuple[str, ...]
    coverage: TrialCoverage
    agents: tuple[Row, ...]
    """The agents, best first."""
    tasks: tuple[Row, ...]
    """Rows by task, best agent first."""
    suites: tuple[Row, ...]
    suite_of_task: Mapping[str, str | None]
    trials: tuple[ArenaTrial, ...]
    unfinished: tuple[UnfinishedTrial, ...]
    exclusions: tuple[Exclusion, ...]
    superseded: int
    """The number of trials left out because there is a newer one of the same identity."""
    unreadable: tuple[Unreadable, ...]
    notes: tuple[str, ...] = field(default=())
    compared: ComparisonReport | None = None
    """How the orchestrators compare with their baselines. None if the run has no baselines."""


def make_leaderboard(
    results: ArenaResults,
    rules: Sequence[str] = (),
    *,
    over_runs: bool = False,
    suites: Mapping[str, Sequence[str]] | None = None,
) -> Leaderboard:
    """Aggregate all trials that no rule excludes; over several runs, each trial only once.

    `suites` maps names to patterns of categories. If given, agents are ranked by their mean over these suites.
    """
    results, exclusions = exclude(results, rules)
    results, superseded = newest_only(results) if over_runs else (results, 0)
    trials = sorted(results.trials, key=_order)
    suite_of_task = _suites(results, suites or {})
    suite_rows = _ranked(_rows(results, lambda agent, task: (agent, None, suite_of_task[task])))
    scores = {(row.agent, row.suite): row.score.mean for row in suite_rows}
    agents = _rows(results, lambda agent, task: (agent, None, None))
    frontier = pareto_frontier(
        {row.agent: (row.cost_per_trial_usd, row.score.mean) for row in agents}  # only complete pairs are compared
    )
    return Leaderboard(
        runs=tuple(run.name for run in results.runs),
        coverage=count_trials(
            [trial.meta for trial in trials], len(results.unfinished) if results.planned_known else None
        ),
        agents=_ranked(
            replace(
                row,
                on_frontier=row.agent in frontier,
                by_suite={name: scores.get((row.agent, name)) for name in suites or ()},
            )
            for row in agents
        ),
        tasks=_ranked(_rows(results, lambda agent, task: (agent, task, suite_of_task[task]))),
        suites=suite_rows,
        suite_of_task=suite_of_task,
        trials=tuple(trials),
        unfinished=tuple(sorted(results.unfinished, key=lambda trial: trial.key)),
        exclusions=exclusions,
        superseded=superseded,
        unreadable=results.unreadable,
        notes=tuple(_notes(results)),
    )


def _suites(results: ArenaResults, named: Mapping[str, Sequence[str]]) -> dict[str, str | None]:
    """Return the suite of each task, by the category in its newest trial.

    It is the first of the `named` suites that includes the category; without these, the category up to the slash.
    """
    listed = [(trial.key.task, "", trial.run, trial.category or "") for trial in results.unfinished]
    for run, _, meta in results.trials:
        listed.append((meta.task, meta.completed_at or "", run, meta.category or ""))
    categories = {task: category for task, _, _, category in sorted(listed)}
    if not named:
        return {task: category.partition("/")[0] or None for task, category in categories.items()}
    return {
        task: next((name for name, patterns in named.items() if in_category(category, patterns)), None)
        for task, category in categories.items()
    }


def pareto_frontier(points: Mapping[str, tuple[float | None, float | None]]) -> frozenset[str]:
    """Return the names whose cost and score no other beats. Those with an unknown value are not compared."""
    known = [(cost, -score, name) for name, (cost, score) in points.items() if cost is not None and score is not None]
    return frozenset(
        name
        for cost, loss, name in known
        if not any(c <= cost and s <= loss and (c, s) != (cost, loss) for c, s, _ in known)
    )


Group = tuple[str, str | None, str | None]


def _rows(results: ArenaResults, group_of: Callable[[str, str], Group]) -> list[Row]:
    trials: dict[Group, list[TrialMeta]] = defaultdict(list)
    unfinished: dict[Group, list[str]] = defaultdict(list)
    for trial in results.trials:
        trials[group_of(trial.meta.orchestrator, trial.meta.task)].append(trial.meta)
    for missing in results.unfinished:
        unfinished[group_of(missing.key.orchestrator, missing.key.task)].append(missing.key.task)
    return [
        make_row(
            group,
            trials.get(group, []),
            unfinished.get(group, []) if results.planned_known else None,
            results.calibration,
        )
        for group in {**trials, **unfinished}
    ]


def make_row(
    group: Group, trials: list[TrialMeta], unfinished: Sequence[str] | None, calibration: Mapping[str, Range] | None
) -> Row:
    """Aggregate the trials of a group. `unfinished` has the task of each unfinished one; None if it is unknown."""
    agent, task, suite = group
    counted = [trial for trial in trials if trial.valid is not False]
    judged = [trial for trial in counted if trial.outcome is not None]
    solved = sum(trial.outcome == SOLVED for trial in judged)
    cost = _total((trial.total_cost_usd for trial in counted), any(trial.usage_partial for trial in counted))
    known = len(counted) - cost.unknown
    return Row(
        agent=agent,
        task=task,
        suite=suite,
        trials=count_trials(trials, None if unfinished is None else len(unfinished)),
        score=mean_interval(_by_task((trial.task, capped_score(trial)) for trial in counted)),
        bounds=_bounds(trials, unfinished or ()),
        calibrated=_calibrated(counted, calibration),
        pass_rate=pass_rate_interval(solved, len(judged))
        if task is not None
        else mean_interval(_by_task((trial.task, float(trial.outcome == SOLVED)) for trial in judged)),
        outcomes=dict(sorted(Counter(trial.outcome or "unknown" for trial in trials).items())),
        tokens=_total((trial.total_tokens for trial in counted), any(trial.usage_partial for trial in counted)),
        cost_usd=cost,
        cost_per_trial_usd=cost.value / known if cost.value is not None else None,
        cost_per_solved_usd=cost.value / solved if cost.value is not None and solved else None,
        uncounted_cost_usd=_uncounted_cost(trials),
        median_duration_s=median(times)
        if (times := [s for trial in counted if (s := trial.duration_s) is not None])
        else None,
        flags=sum(len(trial.evidence) for trial in trials),
        flag_notes=sum(len(trial.flag_notes) for trial in trials),
    )


def _bounds(trials: Iterable[TrialMeta], unfinished: Iterable[str]) -> ScoreBounds | None:
    """Bound the mean score as `stats.missing` does a difference."""
    certain, uncertain = [], [*unfinished]
    for trial in trials:
        if trial.valid is False or trial.retried:
            uncertain.append(trial.task)
        else:
            certain.append((trial.task, capped_score(trial)))
    if not uncertain:
        return None
    if_failed, if_solved = (
        mean_interval(_by_task([*certain, *((task, score) for task in uncertain)]))
        for score in (FAILED_SCORE, SOLVED_SCORE)
    )
    return ScoreBounds(if_failed=if_failed, if_solved=if_solved)


def count_trials(trials: Sequence[TrialMeta], unfinished: int | None) -> TrialCoverage:
    valid = [trial for trial in trials if trial.valid is not False]
    return TrialCoverage(
        planned=None if unfinished is None else len(trials) + unfinished,
        finished=len(trials),
        valid=len(valid),
        validity_unknown=sum(trial.valid is None for trial in trials),
        scored=sum(trial.composite_score is not None for trial in valid),
        retried=sum(trial.retried for trial in valid),
    )


def is_scored(meta: TrialMeta) -> bool:
    """Whether a trial is valid, as far as known, and has a score."""
    return meta.valid is not False and meta.composite_score is not None


def capped_score(meta: TrialMeta) -> float | None:
    return None if meta.composite_score is None else min(meta.composite_score, 1.0)


def _by_task(scores: Iterable[tuple[str, float | None]]) -> dict[str, list[float]]:
    """Sorted, so that sums do not depend on the order of the trials."""
    by_task: dict[str, list[float]] = defaultdict(list)
    for task, score in scores:
        if score is not None:
            by_task[task].append(score)
    return {task: sorted(values) for task, values in by_task.items()}


def _calibrated(trials: Sequence[TrialMeta], calibration: Mapping[str, Range] | None) -> Interval | None:
    if calibration is None:
        return None
    unknown = Range(None, None)
    return mean_interval(
        _by_task((trial.task, rescale(capped_score(trial), *calibration.get(trial.task, unknown))) for trial in trials)
    )


def _total(values: Iterable[float | None], partial: bool = False) -> Total:
    listed = list(values)
    known = sorted(value for value in listed if value is not None)
    return Total(
        value=sum(known) if known else None,
        partial=bool(known) and (partial or len(known) < len(listed)),
        unknown=len(listed) - len(known),
    )


def _uncounted_cost(trials: Iterable[TrialMeta]) -> Total:
    attempts = [
        attempt for trial in trials for attempt in (trial.attempts if trial.valid is False else trial.attempts[:-1])
    ]
    costs = [attempt.cost_usd for attempt in attempts]
    costs += [trial.total_cost_usd for trial in trials if trial.valid is False and not trial.attempts]
    return _total(costs or [0.0], any(attempt.partial for attempt in attempts))


def _ranked(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Sort by task and suite, and in each of them the best first, with the ranks that each row could have."""
    ordered = sorted(rows, key=lambda row: (row.task or "", row.suite or "", _rank(row)))
    groups = groupby(ordered, key=lambda row: (row.task, row.suite))
    return tuple(row for _, group in groups for row in _with_ranks(list(group)))


def _with_ranks(rows: Sequence[Row]) -> Iterable[Row]:
    """Add the ranks that each row could have because of its own missing and retried trials."""
    if any(row.by_suite for row in rows):  # ranked by the mean over suites, for which there are no bounds
        yield from rows
        return
    means = [-1.0 if row.score.mean is None else row.score.mean for row in rows]
    for index, row in enumerate(rows):
        if (bounds := row.bounds) is None or bounds.if_failed.mean is None or bounds.if_solved.mean is None:
            yield row
            continue
        best = 1 + index - sum(mean < bounds.if_solved.mean for mean in means[:index])
        worst = 1 + index + sum(mean > bounds.if_failed.mean for mean in means[index + 1 :])
        yield replace(row, bounds=replace(bounds, best_rank=best, worst_rank=worst))


def _rank(row: Row) -> tuple[float, float, str]:
    """The better score first, then the lower cost. What is not known comes last."""
    cost, score = row.cost_per_trial_usd, row.mean_over_suites if row.by_suite else row.score.mean
    return (
        -score if score is not None else 1.0,
        cost if cost is not None else float("inf"),
        row.agent,
    )


def _order(trial: ArenaTrial) -> tuple[str, str, int, str]:
    meta = trial.meta
    return meta.orchestrator, meta.task, meta.trial, trial.run


def _notes(results: ArenaResults) -> Iterable[str]:
    """Say what a reader has to know before believing the figures."""
    metas = [trial.meta for trial in results.trials]
    if unknown := sum(trial.valid is None for trial in metas):
        yield (
            f"{plural(unknown, 'trial')} with unknown validity (results of the original Thunderdome): counted as valid."
            " A zero in them may mean that nothing was measured."
        )
    if invalid := sum(trial.valid is False for trial in metas):
        yield f"Not valid, so excluded from scores: {plural(invalid, 'trial')}."
    if retried := Counter(trial.orchestrator for trial in metas if trial.retried):
        agents = first_few([f"{number} of {one_line(agent, 100)}" for agent, number in retried.items()], _MAX_NAMES)
        yield f"Retried after an attempt that was not valid: {plural(retried.total(), 'trial')} ({agents})."
    if unscored := sum(trial.valid is not False and trial.composite_score is None for trial in metas):
        yield f"Valid, but without a score, so excluded from means: {plural(unscored, 'trial')}."
    yield from commit_notes(
        CommitFiles(trial.task, trial.orchestrator, trial.identity.commit_files) for trial in metas if trial.identity
    )
    yield from _different_tasks(metas)
    yield from _configurations(metas)
    if results.calibration is not None:
        tasks = {trial.task for trial in metas}
        missing = [task for task in tasks if rescale(0.0, *results.calibration.get(task, Range(None, None))) is None]
        if missing:
            yield f"Not calibrated, and so not in the calibrated score: {listed(missing)}."


def _different_tasks(metas: Iterable[TrialMeta]) -> Iterable[str]:
    by_agent: dict[str, set[str]] = defaultdict(set)
    for trial in metas:
        if trial.valid is not False and trial.composite_score is not None:
            by_agent[trial.orchestrator].add(trial.task)
    everything = set().union(*by_agent.values())
    lacking = {agent: everything - tasks for agent, tasks in sorted(by_agent.items()) if tasks != everything}
    for agent, tasks in list(lacking.items())[:_MAX_NAMES]:
        yield f"{one_line(agent, 100)} has no score for {listed(tasks)}: its mean is over fewer tasks."
    if len(lacking) > _MAX_NAMES:
        yield f"The same is true of {plural(len(lacking) - _MAX_NAMES, 'more agent')}."


def _configurations(metas: Iterable[TrialMeta]) -> Iterable[str]:
    hashes: dict[tuple[str, str], set[str]] = defaultdict(set)
    for trial in metas:
        if trial.identity is not None:
            hashes[trial.orchestrator, trial.task].add(trial.identity.agent_hash)
    mixed = sorted({agent for (agent, _), values in hashes.items() if len(values) > 1})
    if mixed:
        yield f"Trials of different configurations are counted together: {listed(mixed)}."


def listed(names: Iterable[str]) -> str:
    """Return the first names in alphabetical order: `a, b and 3 more`."""
    return first_few([one_line(name, 100) for name in sorted(names)], _MAX_NAMES)
