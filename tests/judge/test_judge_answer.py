"""From an object to scores."""

from __future__ import annotations

import math
from typing import Any

import pytest
from judge_bench import agent_log

from youbencha.evaluators.judge.session import find_answer, read_answer, read_score
from youbencha.log.model import Message

NAMES = ["no_errors", "is_friendly"]


@pytest.mark.parametrize(
    ("given", "score"),
    [(1, 1.0), (0, 0.0), (0.8, 0.8), ("0.8", 0.8), (" 1 ", 1.0), (True, 1.0), (False, 0.0)]
    + [(bad, None) for bad in (1.01, -0.1, 7, "80%", "good", "", None, [], {}, math.nan, math.inf, "nan", 10**400)],
)
def test_scores(given: Any, score: float | None) -> None:
    assert read_score(given) == score


@pytest.mark.parametrize(
    "found",
    [
        {"assertions": {"no_errors": {"score": 1, "reason": "ran it"}, "is_friendly": {"score": 0.5}}},
        {"assertions": {"no_errors": 1, "is_friendly": 0.5}, "reasons": {"no_errors": "ran it"}},
        {"assertions": [{"name": "no_errors", "score": 1, "reason": "ran it"}, {"name": "is_friendly", "score": 0.5}]},
        {"status": "passed", "metrics": {"no_errors": {"score": True, "reasoning": "ran it"}, "is_friendly": "0.5"}},
        {"assertions": {"No-Errors": {"score": 1, "reason": "ran it"}, "is friendly": 0.5, "extra": 9}},
    ],
)
def test_every_answer_format(found: dict[str, Any]) -> None:
    answer = read_answer(found, NAMES)
    assert answer is not None
    assert answer.scores == {"no_errors": 1.0, "is_friendly": 0.5}
    assert answer.reasons == {"no_errors": "ran it"}
    assert answer.faults == {}


@pytest.mark.parametrize(
    "found", [{}, {"assertions": {}}, {"assertions": {"else": 1}}, {"metrics": 3}, {"no_errors": 1}]
)
def test_an_object_without_scores_is_not_an_answer(found: dict[str, Any]) -> None:
    assert read_answer(found, NAMES) is None


def test_missing_and_invalid_scores_are_named() -> None:
    answer = read_answer({"assertions": {"no_errors": {"score": 7}}}, NAMES)
    assert answer is not None
    assert answer.scores == {}
    assert answer.faults == {"no_errors": "its score is not a number from 0 to 1", "is_friendly": "it is missing"}


def test_the_judges_status_and_message_are_kept() -> None:
    answer = read_answer({"status": "passed", "metrics": {"no_errors": 0}, "message": " fine \ud800"}, ["no_errors"])
    assert answer is not None
    assert (answer.status, answer.message) == ("passed", "fine ?")


def test_a_long_reason_is_cut() -> None:
    answer = read_answer({"assertions": {"no_errors": {"score": 1, "reason": "x" * 50_000}}}, ["no_errors"])
    assert answer is not None
    assert len(answer.reasons["no_errors"]) < 5_000


def said(*messages: Message) -> float | None:
    answer = find_answer(agent_log().model_copy(update={"messages": messages}), ["a"])
    return answer.scores.get("a") if answer else None


def verdict(score: float) -> str:
    return f'{{"assertions": {{"a": {score}}}}}'


def test_the_last_answer_wins_over_earlier_ones() -> None:
    assert said(*(Message(role="assistant", content=verdict(score)) for score in (0.1, 0.2))) == 0.2
    assert said(Message(role="assistant", content=verdict(0.1) + verdict(0.3))) == 0.3


def test_text_after_the_verdict_does_not_hide_it() -> None:
    assert said(Message(role="assistant", content=verdict(0.4)), Message(role="assistant", content="Done!")) == 0.4


def test_a_later_answer_that_is_out_of_range_is_not_replaced_by_an_earlier_draft() -> None:
    assert said(Message(role="assistant", content=verdict(1)), Message(role="assistant", content=verdict(9))) is None


def test_only_the_judges_own_messages_count() -> None:
    assert said(Message(role="user", content=verdict(1))) is None
    assert said(Message(role="assistant", content=verdict(1), parent="toolu_1")) is None
