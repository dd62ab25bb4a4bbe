"""Comparisons to render: of any number of tasks, with any verdict."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from youbencha.report.comparison_model import (
    ComparedAgent,
    ComparisonReport,
    DecidedEarly,
    PairComparison,
    TaskComparison,
    TaskResult,
)
from youbencha.report.leaderboard import Row, Total, TrialCoverage
from youbencha.stats.model import Difference, DifferenceInterval, Interval, PassOfK, ValueDifference
from youbencha.store.arena import TrialMeta
from youbencha.store.read import ArenaTrial

COVERAGE = TrialCoverage(planned=30, finished=30, valid=29, validity_unknown=0, scored=29)


def report(*pairs: PairComparison, **changes: Any) -> ComparisonReport:
    values: dict[str, Any] = {
        "comparisons": pairs or (pair(),),
        "one_pair": len(pairs) < 2,
        "margin": 0.05,
        "confidence": 0.95,
        "runs": ("2026-01-02T03-00-00Z-0000aaaa",),
        "exclusions": (),
        "superseded": 0,
        "unreadable": (),
        "notes": (),
    }
    return ComparisonReport(**values | changes)


def pair(
    tasks: int = 6, trials: int = 5, *, first: str = "claude-code+skill", seed: int = 1, **changes: Any
) -> PairComparison:
    chance = random.Random(seed)
    listed = tuple(task(f"task-{number:03}", trials, chance) for number in range(1, tasks + 1))
    estimate = sum(each.difference for each in listed) / max(1, tasks)
    values: dict[str, Any] = {
        "first": agent(first),
        "second": agent("claude-code"),
        "verdict": "better",
        "difference": difference(estimate, tasks=tasks),
        "p_adjusted": 0.031,
        "decided_early": None,
        "more_trials_cost_usd": None,
        "pass_rate": difference(estimate, tasks=tasks),
        "cost_usd": gap(0.41, 0.52, 0.06),
        "duration_s": gap(312.0, 287.5, 61.0),
        "tokens": gap(181_234, 240_001, 12_000),
        "tasks": tuple(sorted(listed, key=lambda each: -abs(each.difference))),
        "only_first": (),
        "only_second": (),
        "warnings": (),
    }
    return PairComparison(**values | changes)


def until_decided(rounds: int = 24, **changes: Any) -> PairComparison:
    early = DecidedEarly(
        rounds=rounds,
        trials=rounds * 12,
        max_trials=1200,
        saved=1200 - rounds * 12,
        intervals=narrowing(rounds),
        given_up=(),
    )
    return pair(decided_early=early, **changes)


def narrowing(rounds: int) -> tuple[DifferenceInterval, ...]:
    """The intervals of a confidence sequence."""
    halves = [1.3 / number**0.65 for number in range(1, rounds + 1)]
    return tuple(DifferenceInterval(max(-1.0, 0.18 - half), min(1.0, 0.18 + half)) for half in halves)


def one_trial() -> PairComparison:
    """With which nothing can be decided."""
    found = difference(
        1.0,
        tasks=1,
        on_these_tasks=None,
        on_tasks_like_these=None,
        verdict="undecided",
        more_trials=120,
        p_value=None,
        detectable=None,
        reason="there is only one trial of each",
    )
    return pair(1, 1, verdict="undecided", difference=found, p_adjusted=None, more_trials_cost_usd=4.2)


def nothing_known() -> PairComparison:
    """No task has a score of both."""
    unknown = ("first", "second", "difference", "interval", "ratio", "ratio_interval")
    missing = ValueDifference(**dict.fromkeys(unknown), tasks=0, reason="not known")
    found = difference(None, tasks=0, verdict="undecided", p_value=None, detectable=None, reason="no common task")
    figures = {"cost_usd": missing, "duration_s": missing, "tokens": missing, "difference": found, "pass_rate": found}
    return pair(0, verdict="undecided", p_adjusted=None, **figures)


def agent(name: str) -> ComparedAgent:
    return ComparedAgent(
        name=name,
        orchestrator=name,
        runs=("2026-01-02T03-00-00Z-0000aaaa",),
        coverage=COVERAGE,
        figures=row(name),
        passes=(PassOfK(k=1, any=0.61, all=0.61), PassOfK(k=5, any=0.83, all=0.4)),
        versions=("2.1.325",),
        models=("claude-opus-4-5",),
    )


def row(name: str) -> Row:
    score = Interval(mean=0.612, low=0.41, high=0.79, unit="task", n=6, method="adjusted-t")
    return Row(
        agent=name,
        task=None,
        suite=None,
        trials=COVERAGE,
        score=score,
        calibrated=None,
        pass_rate=score,
        outcomes={"solved": 18, "unsolved": 11, "infra_error": 1},
        tokens=Total(value=5_000_000, partial=False, unknown=0),
        cost_usd=Total(value=12.31, partial=False, unknown=0),
        cost_per_trial_usd=0.41,
        cost_per_solved_usd=0.61,
        uncounted_cost_usd=Total(value=0.3, partial=False, unknown=0),
        median_duration_s=301.0,
        flags=0,
        flag_notes=0,
    )


def task(name: str, trials: int, chance: random.Random) -> TaskComparison:
    one, two = (result(name, agent, trials, chance) for agent in ("skill", "plain"))
    return TaskComparison(task=name, first=one, second=two, difference=one.score - two.score)


def result(name: str, agent: str, trials: int, chance: random.Random) -> TaskResult:
    skill = chance.random() * 0.7 + (0.3 if agent == "skill" else 0.0)
    solved = [chance.random() < skill for _ in range(trials)]
    scores = [1.0 if each else chance.choice((0.0, 0.25, 0.6)) for each in solved]
    return TaskResult(
        trials=tuple(trial(name, agent, at, score) for at, score in enumerate(scores, 1)),
        scored=trials,
        judged=trials,
        solved=sum(solved),
        score=sum(scores) / trials,
        flaky=0 < sum(solved) < trials,
    )


class SampleTrial(ArenaTrial):
    """A trial whose files need not exist."""

    @property
    def diff(self) -> Path:
        return Path(self.directory, "diff.patch")

    @property
    def log(self) -> Path:
        return Path(self.directory, "attempts/1/artifacts/youbencha-log.json")


def trial(task: str, agent: str, number: int, score: float, **changes: Any) -> ArenaTrial:
    run = "2026-01-02T03-00-00Z-0000aaaa"
    values: dict[str, Any] = {
        "orchestrator": agent,
        "task": task,
        "trial": number,
        "outcome": "solved" if score == 1 else "unsolved",
        "valid": True,
        "composite_score": score,
    }
    return SampleTrial(run, f"results/runs/{run}/trials/{agent}/{task}/trial-{number}", TrialMeta(**values | changes))


def difference(estimate: float | None = 0.12, half: float = 0.08, **changes: Any) -> Difference:
    values: dict[str, Any] = {
        "estimate": estimate,
        "on_these_tasks": None if estimate is None else DifferenceInterval(estimate - half, estimate + half),
        "on_tasks_like_these": None
        if estimate is None
        else DifferenceInterval(estimate - 2.5 * half, estimate + 2.5 * half),
        "p_value": 0.031,
        "tasks": 6,
        "verdict": "better",
        "verdict_on_tasks_like_these": "undecided",
        "more_trials": None,
        "detectable": 0.134,
    }
    return Difference(**values | changes)


def gap(first: float, second: float, half: float) -> ValueDifference:
    found, ratio = first - second, first / second
    return ValueDifference(
        first=first,
        second=second,
        difference=found,
        interval=DifferenceInterval(found - half, found + half),
        ratio=ratio,
        ratio_interval=DifferenceInterval(ratio * 0.9, ratio * 1.1),
        tasks=6,
    )
