"""Combine the measured parts of a trial into one score between 0 and 1.

None: not measured, and left out. 0: measured, and failed.
"""

from __future__ import annotations

from collections.abc import Iterable

from youbencha.spec.arena import GreenWeights, Weights
from youbencha.store.arena import Scores

Part = tuple[float | None, float]
"""A score that may not have been measured, and its weight."""


def composite(scores: Scores, weights: Weights | GreenWeights) -> float | None:
    """Return the weighted mean of the measured parts. None if none was, or none of them has a weight."""
    if isinstance(weights, GreenWeights):
        return weighted_mean(_greenfield_parts(scores, weights if _any(weights) else GreenWeights()))
    return weighted_mean(_standard_parts(scores, weights if _any(weights) else Weights()))


def weighted_mean(parts: Iterable[Part]) -> float | None:
    measured = [(score, weight) for score, weight in parts if score is not None]
    total = sum(weight for _, weight in measured)
    if total == 0:
        return None
    return _clipped(sum(score * (weight / total) for score, weight in measured))


def rescale(score: float | None, floor: float | None, ceiling: float | None) -> float | None:
    """Scale a score from what doing nothing gets (0) to what the reference solution gets (1)."""
    if score is None or floor is None or ceiling is None or ceiling <= floor:
        return None
    return _clipped((score - floor) / (ceiling - floor))


def _standard_parts(scores: Scores, weights: Weights) -> tuple[Part, ...]:
    return (
        (scores.tests, weights.tests),
        (scores.static_analysis, weights.static_analysis),
        (scores.rubric, weights.rubric),
    )


def _greenfield_parts(scores: Scores, weights: GreenWeights) -> tuple[Part, ...]:
    return (
        (scores.hidden_tests, weights.hidden_tests),
        (_covering_tests(scores), weights.agent_tests),
        (scores.static_analysis, weights.build_lint),
        (scores.code_metrics, weights.code_metrics),
        (scores.rubric, weights.rubric),
    )


def _covering_tests(scores: Scores) -> float | None:
    """Multiply the score of the agent's own tests by their coverage: tests that test nothing are worth nothing."""
    if scores.agent_tests == 0:
        return 0.0
    if scores.agent_tests is None or scores.coverage is None:
        return None
    return scores.agent_tests * scores.coverage


def _any(weights: Weights | GreenWeights) -> bool:
    return any(weights.model_dump().values())


def _clipped(score: float) -> float:
    return min(1.0, max(0.0, score))
