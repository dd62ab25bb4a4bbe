"""Scores: weighted means, and calibrated scores."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from youbencha.scoring.composite import Part, composite, rescale, weighted_mean
from youbencha.scoring.measures import lint_score
from youbencha.spec.arena import GreenWeights, Weights
from youbencha.store.arena import Scores

SCORE = st.floats(0, 1)
NUMBER = st.integers(0, 1000)


@pytest.mark.parametrize(
    ("scores", "weights", "score"),
    [
        (Scores(tests=1, static_analysis=0), Weights(), 0.7),
        (Scores(tests=0.5, static_analysis=1), Weights(), 0.65),
        (Scores(tests=0.5), Weights(), 0.5),  # static analysis was not measured
        (Scores(static_analysis=1), Weights(), 1.0),
        (Scores(), Weights(), None),
        (Scores(tests=1, static_analysis=0), Weights(tests=1, static_analysis=3), 0.25),
        (Scores(tests=1, static_analysis=0), Weights(tests=0, static_analysis=0), 0.7),  # all zero: the defaults
        (Scores(tests=1, static_analysis=1, rubric=0), Weights(), 1.0),
        (Scores(tests=1, static_analysis=1, rubric=0), Weights(rubric=1), 0.5),
        (Scores(rubric=1), Weights(), None),  # measured, but without a weight
        (Scores(hidden_tests=1, agent_tests=1, coverage=1, static_analysis=1, code_metrics=1), GreenWeights(), 1.0),
        (
            Scores(hidden_tests=1, agent_tests=1, coverage=0.5, static_analysis=1, code_metrics=1),
            GreenWeights(),
            0.8462,
        ),
        (Scores(hidden_tests=1, agent_tests=0, static_analysis=1, code_metrics=1), GreenWeights(), 0.6923),
        (Scores(hidden_tests=0, agent_tests=1, static_analysis=0, code_metrics=0), GreenWeights(), 0.0),  # no coverage
        (Scores(hidden_tests=1, static_analysis=0, code_metrics=0), GreenWeights(), 0.5556),
        (Scores(tests=1), GreenWeights(), None),
    ],
)
def test_composite(scores: Scores, weights: Weights | GreenWeights, score: float | None) -> None:
    assert composite(scores, weights) == (None if score is None else pytest.approx(score, abs=1e-4))


PARTS = st.lists(st.tuples(st.none() | SCORE, st.floats(0, 1e6)), max_size=6)


@given(PARTS, st.floats(1e-3, 1e3))
def test_weights_are_normalised(parts: list[Part], factor: float) -> None:
    score = weighted_mean(parts)
    scaled = weighted_mean((part, weight * factor) for part, weight in parts)
    measured = [part for part, weight in parts if part is not None and weight]
    if score is None:
        assert measured == []
    elif scaled is not None:  # else the weights were too small
        assert min(measured) - 1e-9 <= score <= max(measured) + 1e-9
        assert scaled == pytest.approx(score, abs=1e-6)


@given(PARTS, st.integers(0, 5), SCORE)
def test_a_better_part_is_not_a_worse_score(parts: list[Part], at: int, score: float) -> None:
    if at < len(parts) and (before := parts[at][0]) is not None and score >= before:
        better = [*parts[:at], (score, parts[at][1]), *parts[at + 1 :]]
        assert (weighted_mean(better) or 0) >= (weighted_mean(parts) or 0) - 1e-9


@given(st.none() | SCORE, st.none() | SCORE, st.none() | SCORE)
def test_calibrated_score(score: float | None, floor: float | None, ceiling: float | None) -> None:
    calibrated = rescale(score, floor, ceiling)
    known = score is not None and floor is not None and ceiling is not None and ceiling > floor
    assert (calibrated is not None) == known
    if calibrated is not None:
        assert 0 <= calibrated <= 1


def test_calibrated_score_of_floor_and_ceiling() -> None:
    assert [rescale(score, 0.2, 0.8) for score in (0.0, 0.2, 0.5, 0.8, 1.0)] == pytest.approx([0, 0, 0.5, 1, 1])
    assert rescale(0.5, 0.5, 0.5) is None


@given(st.none() | NUMBER, st.none() | NUMBER)
def test_lint_score(issues: int | None, baseline: int | None) -> None:
    score = lint_score(issues, baseline)
    if baseline is None:
        assert score is None
    elif issues is None:
        assert score == 0
    else:
        assert score == pytest.approx(max(0, 1 - 0.1 * max(0, issues - baseline)))
