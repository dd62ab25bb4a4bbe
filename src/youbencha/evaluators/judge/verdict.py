"""Make a verdict from votes. Configured thresholds decide; a judge's own verdict is only reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from youbencha.evaluators.judge.answer import JudgeAnswer
from youbencha.evaluators.judge.config import Assertion
from youbencha.log.model import Usage
from youbencha.store.bundle import AssertionResult

_COUNTS = ("input_tokens", "output_tokens", "total_tokens", "cache_read_tokens", "cache_creation_tokens", "cost_usd")


@dataclass(frozen=True)
class Scored:
    """One assertion with the scores of all votes."""

    assertion: Assertion
    scores: tuple[float, ...]
    reason: str

    @property
    def score(self) -> float:
        return median(self.scores)

    @property
    def holds(self) -> bool:
        return self.score >= self.assertion.threshold


def scored(assertions: Sequence[Assertion], answers: Sequence[JudgeAnswer]) -> list[Scored]:
    return [_scored(each, answers) for each in assertions]


def _scored(assertion: Assertion, answers: Sequence[JudgeAnswer]) -> Scored:
    scores = tuple(answer.scores[assertion.name] for answer in answers)
    middle = median(scores)
    nearest = min(answers, key=lambda answer: abs(answer.scores[assertion.name] - middle))
    return Scored(assertion, scores, nearest.reasons.get(assertion.name, ""))


def overall_score(results: Sequence[Scored]) -> float:
    weight = sum(each.assertion.weight for each in results)
    return round(sum(each.score * each.assertion.weight for each in results) / weight, 6)


def metrics(results: Sequence[Scored], answers: Sequence[JudgeAnswer]) -> dict[str, Any]:
    """The metrics of a result; each assertion is a number under its name."""
    severities = {
        each.assertion.name: each.assertion.severity for each in results if each.assertion.severity is not None
    }
    values: dict[str, Any] = {each.assertion.name: each.score for each in results}
    values |= {"overall_score": overall_score(results), "votes": len(answers), "judge_status": judge_status(answers)}
    values["reasons"] = {each.assertion.name: each.reason for each in results if each.reason}
    if len(answers) > 1:
        values["spread"] = {
            each.assertion.name: {"min": min(each.scores), "max": max(each.scores), "scores": list(each.scores)}
            for each in results
        }
    return {**values, "severity": severities} if severities else values


def judge_status(answers: Sequence[JudgeAnswer]) -> str | None:
    """The judges' own verdict, for information."""
    statuses = {answer.status for answer in answers}
    return statuses.pop() if len(statuses) == 1 else "mixed"


def assertion_results(results: Sequence[Scored]) -> list[AssertionResult]:
    return [
        AssertionResult(
            name=each.assertion.name,
            passed=each.holds,
            expected=each.assertion.threshold,
            actual=each.score,
            message=each.reason or each.assertion.text,
        )
        for each in results
    ]


def message(results: Sequence[Scored], answers: Sequence[JudgeAnswer]) -> str:
    """The verdict in one sentence, with the assertions that failed."""
    failed = [each for each in results if not each.holds]
    by = f" by {len(answers)} votes" if len(answers) > 1 else ""
    if not failed:
        return f"All {len(results)} assertions passed{by}." if len(results) > 1 else f"The assertion passed{by}."
    shown = ", ".join(f"{f.assertion.name} ({f.score:g} of at least {f.assertion.threshold:g})" for f in failed[:5])
    more = f" and {len(failed) - 5} more" if len(failed) > 5 else ""
    contradicted = ' The judge itself said "passed".' if judge_status(answers) == "passed" else ""
    what = f"{len(failed)} of {len(results)} assertions" if len(results) > 1 else "The assertion"
    return f"{what} failed{by}: {shown}{more}.{contradicted}"


def total_usage(usages: Sequence[Usage | None]) -> Usage | None:
    """The sum of what is known; `partial` if anything is unknown."""
    known = [usage for usage in usages if usage is not None]
    if not known:
        return None
    sums: dict[str, Any] = {name: _sum([getattr(usage, name) for usage in known]) for name in _COUNTS}
    is_incomplete = len(known) < len(usages) or any(
        getattr(usage, name) is None for usage in known for name, total in sums.items() if total is not None
    )
    sources = {usage.cost_source for usage in known if usage.cost_usd is not None}
    return Usage(
        **sums,
        cost_source=sources.pop() if len(sources) == 1 else None,
        partial=is_incomplete or any(usage.partial for usage in known),
    )


def _sum(numbers: Sequence[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def record(results: Sequence[Scored], answers: Sequence[JudgeAnswer], judge: Mapping[str, Any]) -> dict[str, Any]:
    """The content of `verdict.json`: the votes behind the verdict."""
    return {
        "passed": all(each.holds for each in results),
        "overall_score": overall_score(results),
        "judge": dict(judge),
        "assertions": {
            each.assertion.name: {
                "text": each.assertion.text,
                "score": each.score,
                "threshold": each.assertion.threshold,
                "weight": each.assertion.weight,
                "holds": each.holds,
                "scores": list(each.scores),
                "reasons": [answer.reasons.get(each.assertion.name) for answer in answers],
            }
            for each in results
        },
        "votes": [{"status": answer.status, "message": answer.message} for answer in answers],
    }
