"""All votes together: the judges are heard, and their votes become a result."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import Any

from youbencha.errors import YouBenchaError
from youbencha.evaluators.base import EvaluationContext
from youbencha.evaluators.judge import verdict
from youbencha.evaluators.judge.checking import Checked
from youbencha.evaluators.judge.seat import Adapters, Seat, seat
from youbencha.evaluators.judge.voting import LOG, PROMPT, Attempt, Bench, Vote, cast_vote
from youbencha.evaluators.result import artifact, finished
from youbencha.log import Artifact, EvaluationResult, YouBenchaLog

VERDICT = "verdict.json"


async def hold_session(
    context: EvaluationContext, checked: Checked, adapters: Adapters, started: float
) -> EvaluationResult:
    judge = checked.judge
    assert judge is not None  # there are no problems
    bench = Bench(
        seat=seat(judge, checked.options, context.agent, adapters),
        assertions=judge.asked(),
        guidance=checked.guidance,
        timeout=judge.timeout,
        env={**context.env, **judge.env},
    )
    done: list[Attempt] = []
    try:
        votes = await _all_votes(context, bench, judge.votes, judge.max_concurrent_votes, done)
    except YouBenchaError as error:
        raise _with_what_it_cost(error, context, done) from error
    return _result(context, bench, votes, done, started)


async def _all_votes(
    context: EvaluationContext, bench: Bench, count: int, at_once: int, done: list[Attempt]
) -> list[Vote]:
    """As many as were asked for, or none: the first that fails ends the others."""
    places = asyncio.Semaphore(at_once)

    async def one(number: int) -> Vote:
        async with places:
            return await cast_vote(context, bench, number, done)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(number)) for number in range(1, count + 1)]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]


def _result(
    context: EvaluationContext, bench: Bench, votes: Sequence[Vote], done: Sequence[Attempt], started: float
) -> EvaluationResult:
    answers = [vote.answer for vote in votes]
    results = verdict.scored(bench.assertions, answers)
    judge = _judge_info(bench.seat, votes[0].log)
    written = context.artifacts_dir / VERDICT
    record = verdict.record(results, answers, judge)
    written.write_text(json.dumps(record, indent=2, ensure_ascii=False, default=str) + "\n", encoding="utf-8")
    metrics = {**verdict.metrics(results, answers), "judge": judge}
    if asked_again := len(done) - len(votes):
        metrics["asked_again"] = asked_again
    return finished(
        context,
        started,
        "passed" if all(each.holds for each in results) else "failed",
        verdict.message(results, answers),
        metrics=metrics,
        assertions=verdict.assertion_results(results),
        artifacts=[
            artifact(context, "verdict", written, "what each vote said, and what came of it"),
            *_left(context, done),
        ],
        usage=verdict.total_usage([attempt.log.usage for attempt in done]),
    )


def _judge_info(seat: Seat, log: YouBenchaLog) -> dict[str, Any]:
    return {
        "type": seat.type,
        "agent_name": seat.agent_name,
        "model": log.model_info.name,
        "version": log.agent_info.version,
    }


def _left(context: EvaluationContext, done: Sequence[Attempt]) -> Iterator[Artifact]:
    for attempt in sorted(done, key=lambda attempt: attempt.name):
        yield artifact(context, "prompt", attempt.artifacts / PROMPT, f"what the judge was told ({attempt.name})")
        yield artifact(context, "log", attempt.artifacts / LOG, f"what the judge did ({attempt.name})")
        if attempt.log_file is not None:
            yield artifact(context, "terminal", attempt.log_file, f"what the judge printed ({attempt.name})")


def _with_what_it_cost(error: YouBenchaError, context: EvaluationContext, done: Sequence[Attempt]) -> YouBenchaError:
    """No verdict, but the money is spent and the logs are there."""
    usage = verdict.total_usage([attempt.log.usage for attempt in done])
    costs: dict[str, Any] = {
        "usage": usage.model_dump() if usage else None,
        "artifacts": [each.model_dump() for each in _left(context, done)],
    }
    return YouBenchaError(error.code, error.message, hint=error.hint, context={**error.context, **costs})
