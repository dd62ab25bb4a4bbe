"""Compare two agents by what they did on the same tasks: by how much they differ, and whether that is real.

Missing and retried trials are perhaps no accident: an agent that makes its bad trials invalid would win by those that
are left, or by those that replace them. It cannot do that to the trials of another agent. So a verdict holds only if it
would be the same if all such trials of the agent that it favours had failed.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Literal, NamedTuple

import numpy as np

from youbencha.stats.intervals import TIE, Quantiles, Spread, discreteness, sample_variance, tied_share
from youbencha.stats.model import (
    CONFIDENCE,
    MARGIN,
    Bound,
    Difference,
    DifferenceInterval,
    MissingBounds,
    TaskScores,
    ValueDifference,
    Verdict,
    judge_interval,
)
from youbencha.stats.resampling import resample, sign_flip_test

_MAX_TRIALS = 1_000_000
"""For each task and agent. If more are needed, their number is not known."""
_PSEUDO_PAIRS = 3
"""The number of pairs to add, half with a positive difference and half with a negative one. Bonett and Price (2012) add
2: with these, 95% intervals for rates near 0 or 1 held the truth in only 92 to 94% of simulated comparisons."""
_DIGITS = 6
"""Further ones differ between computers, and say nothing."""

NO_TASK = "no task has a score of both"
ONE_TASK = "there is only one task"


def compare_scores(
    tasks: Sequence[TaskScores], *, margin: float = MARGIN, confidence: float = CONFIDENCE
) -> Difference:
    """Compare two agents. Tasks for which one of them has no score are left out."""
    common = _common(tasks)
    if not common:
        return Difference(
            estimate=None,
            on_these_tasks=None,
            on_tasks_like_these=None,
            p_value=None,
            tasks=0,
            verdict="undecided",
            verdict_on_tasks_like_these="undecided",
            more_trials=None,
            detectable=None,
            reason=NO_TASK,
        )
    quantiles = Quantiles.of(confidence)
    means = _differences(common)
    spread = _spread_on_these_tasks(common, quantiles)
    estimate, these, like_these = fmean(means), *_intervals(common, spread, quantiles)
    verdict = judge_interval(these, margin)
    detectable = quantiles.with_power * spread.error()
    return Difference(
        estimate=estimate,
        on_these_tasks=these,
        on_tasks_like_these=like_these,
        p_value=sign_flip_test(means),
        tasks=len(common),
        verdict=verdict,
        verdict_on_tasks_like_these=judge_interval(like_these, margin),
        more_trials=_more_trials(common, spread, estimate, margin, quantiles) if verdict == "undecided" else None,
        detectable=detectable if detectable <= 1 else None,
        reason=None if like_these else ONE_TASK,
    )


def estimate_difference(tasks: Sequence[TaskScores], *, confidence: float = CONFIDENCE) -> Bound:
    """Return the difference with its intervals only. There must be a task with scores of both."""
    common, quantiles = _common(tasks), Quantiles.of(confidence)
    these, like_these = _intervals(common, _spread_on_these_tasks(common, quantiles), quantiles)
    return Bound(estimate=fmean(_differences(common)), on_these_tasks=these, on_tasks_like_these=like_these)


def compare_values(tasks: Sequence[TaskScores], *, confidence: float = CONFIDENCE) -> ValueDifference:
    """Compare two agents by a figure that has no upper limit. What is not known is not among the figures."""
    common = _common(tasks)
    if not common:
        return ValueDifference(
            first=None, second=None, difference=None, interval=None, ratio=None, ratio_interval=None, tasks=0,
            reason="not known for any task of both",
        )  # fmt: skip
    firsts, seconds = ([fmean(scores) for scores in side] for side in _both(common))
    first, second = fmean(firsts), fmean(seconds)
    ratio = first / second if second else None
    interval = ratio_interval = None
    if len(common) > 1:
        quantiles = Quantiles.of(confidence)
        drawn = resample(*_both(common))
        differences = np.asarray(firsts) - seconds
        half = quantiles.of_t(len(common) - 1) * math.sqrt(differences.var(ddof=1) / len(common))
        low, high = quantiles.percentiles(drawn.first - drawn.second)
        interval = _rounded(min(low, first - second - half), max(high, first - second + half))
        if ratio and drawn.second.min() > 0 and drawn.first.min() > 0:
            # The logarithm of a ratio is nearer to a normal distribution than the ratio.
            relative = np.asarray(firsts) / first - np.asarray(seconds) / second
            factor = math.exp(quantiles.of_t(len(common) - 1) * math.sqrt(relative.var(ddof=1) / len(common)))
            low, high = quantiles.percentiles(drawn.first / drawn.second)
            ratio_interval = _rounded(min(low, ratio / factor), max(high, ratio * factor))
    return ValueDifference(
        first=first,
        second=second,
        difference=first - second,
        interval=interval,
        ratio=ratio,
        ratio_interval=ratio_interval,
        tasks=len(common),
        reason=None if interval else ONE_TASK,
    )


def _differences(common: Sequence[TaskScores]) -> list[float]:
    return [fmean(task.first) - fmean(task.second) for task in common]


def _intervals(
    common: Sequence[TaskScores], spread: Spread, quantiles: Quantiles
) -> tuple[DifferenceInterval, DifferenceInterval | None]:
    """Return the intervals on these tasks and on tasks like these."""
    these = _rounded(*spread.interval(fmean(_differences(common)), quantiles))
    return these, _on_tasks_like_these(common, these, quantiles)


def _spread_on_these_tasks(common: Sequence[TaskScores], quantiles: Quantiles) -> Spread:
    """The tasks are fixed: only trials vary, within each task and agent.

    One trial of a task does not say how its trials vary. For such a task, the distance of its difference from the mean
    over tasks is used. That includes how tasks differ: it is too much, never too little.
    """
    tasks = len(common)
    differences = _differences(common)
    mean = fmean(differences)
    within = between = by_degrees = 0.0
    single = 0
    for task, difference in zip(common, differences, strict=True):
        if min(len(task.first), len(task.second)) == 1:
            single += 1
            between += (difference - mean) ** 2 * tasks / max(1, tasks - 1)
            continue
        for scores in (task.first, task.second):
            variance = sample_variance(scores) / len(scores)
            within += variance
            by_degrees += variance**2 / (len(scores) - 1)
    by_degrees += between**2 / max(1, single - 1)
    pairs = _least_pairs(common, quantiles)
    discrete = discreteness(_extreme_share(common), _tied_trials(common, differences))
    return Spread(pairs, (within + between) / tasks**2, by_degrees / tasks**4, discrete, _PSEUDO_PAIRS)


def _extreme_share(common: Sequence[TaskScores]) -> float:
    """Return the share of pairs of trials that differ by nothing, or by all that scores can differ."""
    return fmean(fmean(_extreme(first, task.second) for first in task.first) / len(task.second) for task in common)


def _extreme(score: float, others: Sequence[float]) -> int:
    """Count those of the sorted scores that are as good as equal to one, or at the other end."""
    equal = bisect_left(others, score + TIE) - bisect_right(others, score - TIE)
    opposite = bisect_left(others, score - 1 + TIE) + len(others) - bisect_right(others, score + 1 - TIE)
    return equal + opposite


def _tied_trials(common: Sequence[TaskScores], differences: Sequence[float]) -> float:
    """Return the share of tied trials of the same task and agent; of single trials, that of tied differences."""
    cells = [scores for task in common for scores in (task.first, task.second) if len(scores) > 1]
    return fmean(map(tied_share, cells)) if cells else tied_share(differences)


def _least_pairs(common: Sequence[TaskScores], quantiles: Quantiles) -> float:
    """Return how many pairs of trials there are. If tasks have different numbers, those with fewer count for more.

    What was not seen is likeliest to be where least was looked: the weight of a pair is that of the first few pairs
    if the tasks with the fewest come first.
    """
    wanted = left = quantiles.of_normal * math.sqrt(_PSEUDO_PAIRS)
    sizes = sorted(min(len(task.first), len(task.second)) for task in common)
    weights = 0.0
    for size in sizes:
        taken = min(left, size)
        weights += taken / size
        left -= taken
    return wanted * len(common) / (weights + left / sizes[-1])


def _on_tasks_like_these(
    common: Sequence[TaskScores], on_these: DifferenceInterval, quantiles: Quantiles
) -> DifferenceInterval | None:
    """Return the interval if the tasks are a sample. What is unknown about these tasks is unknown about others."""
    tasks = len(common)
    if tasks == 1:
        return None
    differences = _differences(common)
    variance = sample_variance(differences) / tasks
    discrete = discreteness(_extreme_share(common), tied_share(differences))
    spread = Spread(tasks, variance, variance**2 / (tasks - 1), discrete, _PSEUDO_PAIRS)
    low, high = spread.interval(fmean(differences), quantiles)
    return _rounded(min(low, on_these.low), max(high, on_these.high))


def _more_trials(
    common: Sequence[TaskScores], spread: Spread, estimate: float, margin: float, quantiles: Quantiles
) -> int | None:
    """Return how many trials would probably decide, the same number for each task and agent, if the estimate is right.

    The difference is then far enough from 0, or far enough from the margin.
    """
    target = max(abs(estimate), margin - abs(estimate))
    trials, one_each = sum(len(task.first) + len(task.second) for task in common), 2 * len(common)

    def is_enough(more: int) -> bool:
        return spread.error(1 + more * one_each / trials) * quantiles.with_power <= target

    return (1 + bisect_left(range(1, _MAX_TRIALS), True, key=is_enough)) * one_each if is_enough(_MAX_TRIALS) else None


def _common(tasks: Sequence[TaskScores]) -> list[TaskScores]:
    """Sorted in every respect, so that no order matters."""
    return [
        TaskScores(task.task, tuple(sorted(task.first)), tuple(sorted(task.second)))
        for task in sorted(tasks)
        if task.first and task.second
    ]


def _both(common: Sequence[TaskScores]) -> tuple[list[tuple[float, ...]], list[tuple[float, ...]]]:
    return [task.first for task in common], [task.second for task in common]


def _rounded(low: float, high: float) -> DifferenceInterval:
    return DifferenceInterval(round(low, _DIGITS), round(high, _DIGITS))


FAILED_SCORE, SOLVED_SCORE = 0.0, 1.0
Agent = Literal[0, 1]
"""The first or the second of a comparison."""
AGENTS: tuple[Agent, Agent] = (0, 1)

FAVOURED: Mapping[Verdict, tuple[Agent, ...]] = {"better": (0,), "worse": (1,), "equivalent": (0, 1), "undecided": ()}
"""The agents that could have caused a verdict by making their bad trials invalid."""


class AgentTrials(NamedTuple):
    """The trials of one agent on one task."""

    scores: tuple[float, ...] = ()
    """Scores of trials that were valid at the first attempt."""
    retried: tuple[float, ...] = ()
    """Scores of trials that are valid, but only after an attempt that was not."""
    missing: int = 0
    """The number of planned trials without a valid result."""

    @property
    def valid(self) -> tuple[float, ...]:
        return (*self.scores, *self.retried)

    @property
    def uncertain(self) -> int:
        return self.missing + len(self.retried)

    def filled(self, score: float) -> tuple[float, ...]:
        """Return the scores as if every missing or retried trial had this one."""
        return (*self.scores, *[score] * self.uncertain)


class TaskTrials(NamedTuple):
    """The trials of both agents on one task."""

    task: str
    first: AgentTrials
    second: AgentTrials

    def of(self, agent: Agent) -> AgentTrials:
        return (self.first, self.second)[agent]

    def filled(self, agent: Agent, score: float) -> TaskScores:
        """Return the scores as if every missing or retried trial of one agent had this one."""
        first, second = (self.of(side).filled(score) if side == agent else self.of(side).valid for side in AGENTS)
        return TaskScores(self.task, first, second)


def compare_with_missing(
    tasks: Sequence[TaskTrials], *, margin: float = MARGIN, confidence: float = CONFIDENCE
) -> Difference:
    """Compare two agents as `compare_scores` does, and leave undecided what missing or retried trials could change."""
    valid = [TaskScores(task.task, task.first.valid, task.second.valid) for task in tasks]
    difference = compare_scores(valid, margin=margin, confidence=confidence)
    if not difference.tasks:
        return difference
    bounds = [
        missing_bounds(
            tasks,
            agent,
            if_failed=bound_by(tasks, agent, FAILED_SCORE, confidence=confidence),
            if_solved=bound_by(tasks, agent, SOLVED_SCORE, confidence=confidence),
        )
        for agent in AGENTS
        if any(task.of(agent).uncertain for task in tasks)
    ]
    return with_bounds(difference, bounds, margin)


def bound_by(tasks: Sequence[TaskTrials], agent: Agent, score: float, *, confidence: float = CONFIDENCE) -> Bound:
    """Compare two agents as if every missing or retried trial of one of them had this score."""
    return estimate_difference([task.filled(agent, score) for task in tasks], confidence=confidence)


def missing_bounds(tasks: Sequence[TaskTrials], agent: Agent, *, if_failed: Bound, if_solved: Bound) -> MissingBounds:
    trials = [task.of(agent) for task in tasks]
    missing = sum(cell.missing for cell in trials)
    return MissingBounds(
        of_first=agent == 0,
        missing=missing,
        retried=sum(len(cell.retried) for cell in trials),
        trials=missing + sum(len(cell.valid) for cell in trials),
        if_failed=if_failed,
        if_solved=if_solved,
    )


def with_bounds(difference: Difference, bounds: Sequence[MissingBounds], margin: float) -> Difference:
    """Leave what the missing or retried trials of an agent could overturn undecided. `bounds` has those of each."""
    if not bounds:
        return difference
    if_failed = {_agent(bound): judge_interval(bound.if_failed.on_these_tasks, margin) for bound in bounds}
    elsewhere = {_agent(bound): judge_interval(bound.if_failed.on_tasks_like_these, margin) for bound in bounds}
    verdict = confirmed(difference.verdict, if_failed)
    return replace(
        difference,
        verdict=verdict,
        verdict_on_tasks_like_these=confirmed(difference.verdict_on_tasks_like_these, elsewhere),
        bounds=_most_telling(difference, bounds, if_failed),
        overturned=verdict != difference.verdict,
    )


def confirmed(verdict: Verdict, if_failed: Mapping[Agent, Verdict]) -> Verdict:
    """Return the verdict if it holds although the trials of the agents it favours had failed; else `undecided`.

    `if_failed` has the verdict if an agent's missing and retried trials had failed, for each agent that has some.
    """
    return verdict if all(if_failed.get(agent, verdict) == verdict for agent in FAVOURED[verdict]) else "undecided"


def _most_telling(
    difference: Difference, bounds: Sequence[MissingBounds], if_failed: Mapping[Agent, Verdict]
) -> MissingBounds:
    """Return the bounds to show: those that overturn the verdict, otherwise those of the agent that seems better."""
    leader: Agent = 0 if (difference.estimate or 0) >= 0 else 1
    favoured = FAVOURED[difference.verdict]

    def rank(bound: MissingBounds) -> tuple[bool, bool, int]:
        agent = _agent(bound)
        overturns = agent in favoured and if_failed[agent] != difference.verdict
        return overturns, agent == leader, bound.uncertain

    return max(bounds, key=rank)


def _agent(bounds: MissingBounds) -> Agent:
    return 0 if bounds.of_first else 1
