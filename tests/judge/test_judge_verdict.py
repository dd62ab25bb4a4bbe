"""From votes to a"""

from __future__ import annotations

import pytest

from youbencha.evaluators.judge.evaluator import (
    judge_status,
    overall_score,
    score_assertions,
    total_usage,
    verdict_message,
    verdict_metrics,
)
from youbencha.evaluators.judge.session import JudgeAnswer
from youbencha.evaluators.judge.setup import Assertion
from youbencha.log.model import Usage


def assertion(name: str = "a", threshold: float = 0.7, weight: float = 1.0) -> Assertion:
    return Assertion(name=name, text=f"{name} holds", threshold=threshold, weight=weight)


def answer(status: str | None = None, **scores: float) -> JudgeAnswer:
    reasons = {name: f"gave {score:g}" for name, score in scores.items()}
    return JudgeAnswer(scores=scores, reasons=reasons, status=status, message=None)


@pytest.mark.parametrize(
    ("threshold", "score", "holds"),
    [(0.7, 1, True), (0.7, 0.7, True), (0.7, 0.69, False), (0, 0, True), (1, 1, True), (1, 0.99, False)],
)
def test_the_threshold_decides(threshold: float, score: float, holds: bool) -> None:
    [result] = score_assertions([assertion(threshold=threshold)], [answer(status="passed", a=score)])
    assert result.holds is holds


def test_the_median_and_the_reason_are_the_majoritys() -> None:
    answers = [answer(a=0), answer(a=1), answer(a=0.9)]
    [result] = score_assertions([assertion()], answers)
    assert (result.score, result.holds, result.reason) == (0.9, True, "gave 0.9")
    assert verdict_metrics([result], answers)["spread"] == {"a": {"min": 0, "max": 1, "scores": [0, 1, 0.9]}}


def test_the_overall_score_is_weighted() -> None:
    results = score_assertions([assertion("a", weight=3), assertion("b")], [answer(a=1, b=0)])
    assert overall_score(results) == 0.75


def test_the_judges_status_is_reported() -> None:
    assert judge_status([answer("passed", a=0), answer("passed", a=0)]) == "passed"
    assert judge_status([answer("passed", a=0), answer("failed", a=0)]) == "mixed"
    assert judge_status([answer(a=0)]) is None


def test_messages_read_well() -> None:
    both = [assertion("a"), assertion("b")]
    assert verdict_message(score_assertions(both, [answer(a=1, b=1)]), [answer(a=1, b=1)]) == "All 2 assertions passed."
    one = [answer("passed", a=0.5)]
    assert verdict_message(score_assertions([assertion()], one), one) == (
        'The assertion failed: a (0.5 of at least 0.7). The judge itself said "passed".'
    )
    three = [answer(a=1, b=0)] * 3
    assert verdict_message(score_assertions(both, three), three) == (
        "1 of 2 assertions failed by 3 votes: b (0 of at least 0.7)."
    )


def test_usage_is_summed_and_unknown_stays_unknown() -> None:
    one = Usage(input_tokens=1, output_tokens=2, total_tokens=3, cost_usd=0.5, cost_source="agent")
    assert total_usage([one, one]) == Usage(
        input_tokens=2, output_tokens=4, total_tokens=6, cost_usd=1.0, cost_source="agent"
    )
    assert total_usage([None, None]) is None
    assert total_usage([]) is None


@pytest.mark.parametrize("other", [None, Usage(input_tokens=1, partial=True), Usage(input_tokens=1)])
def test_incomplete_usage_is_a_lower_bound(other: Usage | None) -> None:
    total = total_usage([Usage(input_tokens=1, cost_usd=0.5, cost_source="agent"), other])
    assert total is not None
    assert total.partial
    assert total.cost_usd == 0.5
    assert total.output_tokens is None
