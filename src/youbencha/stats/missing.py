"""Trials that are missing, perhaps not by accident: what a verdict would be with them.

An agent that makes its bad trials invalid would win by those that are left. So a verdict holds only if it would be the
same whether all of the missing trials had failed, or all had been solved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from youbencha.stats.comparison import (
    MARGIN,
    Bound,
    Difference,
    MissingBounds,
    TaskScores,
    Verdict,
    compare_scores,
    verdict_of,
)
from youbencha.stats.intervals import CONFIDENCE

FAILED_SCORE, SOLVED_SCORE = 0.0, 1.0


class MissingTrials(NamedTuple):
    """How many trials of both on one task have no valid result, although they were planned."""

    first: int
    second: int


def lacks_more(first: int, of_first: int, second: int, of_second: int) -> int | None:
    """Return which of two lacks the greater share of its trials, 0 or 1; None if neither does."""
    shares = first * of_second, second * of_first
    return None if shares[0] == shares[1] else int(shares[1] > shares[0])


def compare_with_missing(
    tasks: Sequence[TaskScores],
    missing: Sequence[MissingTrials],
    *,
    margin: float = MARGIN,
    confidence: float = CONFIDENCE,
) -> Difference:
    """Compare two agents as `compare_scores` does, and bound what their missing trials could change."""
    found = compare_scores(tasks, margin=margin, confidence=confidence)
    lacking = sum(each.first for each in missing), sum(each.second for each in missing)
    valid = sum(len(each.first) for each in tasks), sum(len(each.second) for each in tasks)
    trials = lacking[0] + valid[0], lacking[1] + valid[1]
    which = lacks_more(lacking[0], trials[0], lacking[1], trials[1]) if found.tasks else None
    if which is None:
        return found

    bounds = MissingBounds(
        of_first=which == 0,
        missing=lacking[which],
        trials=trials[which],
        if_failed=bound_by(tasks, missing, which, FAILED_SCORE, confidence=confidence),
        if_solved=bound_by(tasks, missing, which, SOLVED_SCORE, confidence=confidence),
    )
    return with_bounds(found, bounds, margin)


def bound_by(
    tasks: Sequence[TaskScores],
    missing: Sequence[MissingTrials],
    which: int,
    score: float,
    *,
    confidence: float = CONFIDENCE,
) -> Bound:
    """Compare two agents as if every missing trial of one of them, 0 or 1, had this score."""
    whole = [_filled(each, which, lack[which], score) for each, lack in zip(tasks, missing, strict=True)]
    found = compare_scores(whole, confidence=confidence)
    assert found.estimate is not None  # there is a task of both
    assert found.on_these_tasks is not None
    return Bound(
        estimate=found.estimate, on_these_tasks=found.on_these_tasks, on_tasks_like_these=found.on_tasks_like_these
    )


def with_bounds(found: Difference, bounds: MissingBounds, margin: float) -> Difference:
    """Leave what the missing trials could overturn undecided."""
    these = agreed(found.verdict, [verdict_of(each.on_these_tasks, margin) for each in bounds.both])
    like_these = agreed(
        found.verdict_on_tasks_like_these, [verdict_of(each.on_tasks_like_these, margin) for each in bounds.both]
    )
    return replace(
        found,
        verdict=these,
        verdict_on_tasks_like_these=like_these,
        bounds=bounds,
        overturned=these != found.verdict,
    )


def agreed(verdict: Verdict, others: Sequence[Verdict]) -> Verdict:
    """Return the verdict if all others are the same, and `undecided` otherwise."""
    return verdict if all(each == verdict for each in others) else "undecided"


def _filled(task: TaskScores, which: int, missing: int, score: float) -> TaskScores:
    scores = [task.first, task.second]
    scores[which] = (*scores[which], *[score] * missing)
    return TaskScores(task.task, *scores)
