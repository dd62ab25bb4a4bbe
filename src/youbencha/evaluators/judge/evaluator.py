"""The evaluator `agentic-judge`: any agent as a judge.

Each vote runs the agent on a temporary copy of the tree, reads the scores in its answer, and asks once more if the
answer is unusable. The configured thresholds decide; the judge's own verdict is only reported. Nothing in the judged
tree may instruct the judge (see `session.py` and `setup.py`).
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from youbencha.adapters import BaseAdapter, get_adapter
from youbencha.errors import ConfigError, Problem, YouBenchaError
from youbencha.evaluators.base import (
    EvaluationContext,
    EvaluatorBase,
    artifact,
    evaluation_result,
)
from youbencha.evaluators.judge.session import PROMPT, Attempt, JudgeAnswer, JudgeTask, cast_vote
from youbencha.evaluators.judge.setup import Assertion, JudgeAgent, JudgeConfig, check_setup, choose_agent, uses_gateway
from youbencha.gateway.access import Provider
from youbencha.log.masking import masked
from youbencha.log.model import Usage, YouBenchaLog
from youbencha.spec.testcase import AgentSpec
from youbencha.store.bundle import Artifact, AssertionResult, EvaluationResult
from youbencha.store.layout import LOG_FILE
from youbencha.transcript.recording import TRANSCRIPT_FILE

VERDICT = "verdict.json"


class AgenticJudge(EvaluatorBase[JudgeConfig]):
    """Lets an agent score assertions, `votes` times."""

    name = "agentic-judge"
    description = "An agent looks at the result and scores your assertions from 0 to 1; your thresholds decide."
    config_model = JudgeConfig
    time_limit_s = None
    takes_label = True
    uses_model = True

    def __init__(self, adapters: Callable[[str], BaseAdapter] | None = None) -> None:
        self._adapters = adapters

    def check_config(
        self, config: Mapping[str, Any], config_dir: Path, *, agent_type: str | None = None
    ) -> Sequence[Problem]:
        return check_setup(config, config_dir, agent_type, self._adapters or get_adapter).problems

    def is_advisory(self, config: Mapping[str, Any]) -> bool:
        return config.get("advisory") is True

    def bypasses_gateway(
        self, config: Mapping[str, Any], config_dir: Path, agent: AgentSpec | None, env: Mapping[str, str]
    ) -> str | None:
        """See `EvaluatorBase`. A custom program may not call a model at all."""
        kind = agent.type if agent else None
        setup = check_setup(config, config_dir, kind, self._adapters or get_adapter)
        if setup.judge is None:
            return None
        judge = choose_agent(setup.judge, setup.options, agent, self._adapters or get_adapter)
        through_gateway = uses_gateway(judge, kind, {**env, **setup.judge.env})
        return None if through_gateway or not judge.adapter.needs_model else judge.type

    def requested_model(
        self, config: Mapping[str, Any], config_dir: Path, agent: AgentSpec | None, env: Mapping[str, str]
    ) -> tuple[Provider, str] | None:
        setup = check_setup(config, config_dir, agent.type if agent else None, self._adapters or get_adapter)
        if setup.judge is None:
            return None
        judge = choose_agent(setup.judge, setup.options, agent, self._adapters or get_adapter)
        return judge.adapter.requested_model(judge.configured_model, {**env, **setup.judge.env})

    async def evaluate(self, context: EvaluationContext) -> EvaluationResult:
        started = time.monotonic()
        adapters = self._adapters or partial(get_adapter, env=context.harness_env)
        setup = check_setup(context.config, context.config_dir, context.agent.type if context.agent else None, adapters)
        judge = setup.judge
        if judge is None:
            raise ConfigError("EVALUATOR_CONFIG_INVALID", f"The configuration of {context.name}", setup.problems)
        if not judge.judge_failed_runs and (reason := _reason_to_skip(context)):
            return evaluation_result(context, started, "skipped", reason)
        task = JudgeTask(
            judge_agent=choose_agent(judge, setup.options, context.agent, adapters),
            assertions=judge.asked(),
            guidance=setup.guidance,
            timeout=judge.timeout,
            env={**context.env, **judge.env},
        )
        done: list[Attempt] = []
        try:
            votes = await _all_votes(context, task, judge.votes, judge.max_concurrent_votes, done)
        except YouBenchaError as error:
            raise _with_usage(error, context, done) from error
        return _result(context, task, votes, done, started)


def _reason_to_skip(context: EvaluationContext) -> str | None:
    """Explain why not to judge: a failed run fails in any case, and a judge costs money."""
    status = context.log.execution.status if context.log else "success"
    if status == "success":
        return None
    end = "timed out" if status == "timeout" else "failed"
    return f"Not judged, because the agent {end}. Set judge_failed_runs: true to judge it anyway."


async def _all_votes(
    context: EvaluationContext, task: JudgeTask, count: int, max_concurrent: int, done: list[Attempt]
) -> list[Attempt]:
    """Collect all votes; the first failure cancels the others."""
    limit = asyncio.Semaphore(max_concurrent)

    async def one(number: int) -> Attempt:
        async with limit:
            return await cast_vote(context, task, number, done)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(number)) for number in range(1, count + 1)]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]


def _result(
    context: EvaluationContext, task: JudgeTask, votes: Sequence[Attempt], done: Sequence[Attempt], started: float
) -> EvaluationResult:
    answers = [vote.answer for vote in votes if vote.answer is not None]
    results = score_assertions(task.assertions, answers)
    judge = _judge_info(task.judge_agent, votes[0].log)
    path = context.artifacts_dir / VERDICT
    mask = context.redactor.with_env(task.env).text
    record = masked(verdict_record(results, answers, judge), mask)
    path.write_text(json.dumps(record, indent=2, ensure_ascii=False, default=str) + "\n", encoding="utf-8")
    metrics = {**verdict_metrics(results, answers), "judge": judge}
    if asked_again := len(done) - len(votes):
        metrics["asked_again"] = asked_again
    return evaluation_result(
        context,
        started,
        "passed" if all(result.holds for result in results) else "failed",
        mask(verdict_message(results, answers) + _warnings_text(done)),
        metrics=metrics,
        assertions=assertion_results(results),
        artifacts=[artifact(context, "verdict", path, "all votes, and the verdict"), *_artifacts(context, done)],
        usage=total_usage([attempt.log.usage for attempt in done]),
    )


def _warnings_text(done: Sequence[Attempt]) -> str:
    """Return the warnings about the judges' own runs, for the message: a judge without tools, for example."""
    messages = dict.fromkeys(warning.message for attempt in done for warning in attempt.log.warnings)
    return "".join(f" Warning: {message}" for message in messages)


def _judge_info(judge_agent: JudgeAgent, log: YouBenchaLog) -> dict[str, Any]:
    return {
        "type": judge_agent.type,
        "agent_name": judge_agent.agent_name,
        "model": log.model_info.name,
        "version": log.agent_info.version,
    }


def _artifacts(context: EvaluationContext, done: Sequence[Attempt]) -> Iterator[Artifact]:
    for attempt in sorted(done, key=lambda attempt: attempt.name):
        yield artifact(context, "prompt", attempt.artifacts / PROMPT, f"the judge's prompt ({attempt.name})")
        yield artifact(context, "log", attempt.artifacts / LOG_FILE, f"the judge's log ({attempt.name})")
        transcript = attempt.artifacts / TRANSCRIPT_FILE
        yield artifact(context, "transcript", transcript, f"the judge's transcript ({attempt.name})")
        if attempt.log_file is not None:
            yield artifact(context, "terminal", attempt.log_file, f"the judge's output ({attempt.name})")


def _with_usage(error: YouBenchaError, context: EvaluationContext, done: Sequence[Attempt]) -> YouBenchaError:
    """Add the usage and the artifacts of all attempts to the error, for the skipped result."""
    usage = total_usage([attempt.log.usage for attempt in done])
    attempts: dict[str, Any] = {
        "usage": usage.model_dump() if usage else None,
        "artifacts": [item.model_dump() for item in _artifacts(context, done)],
    }
    return YouBenchaError(error.code, error.message, hint=error.hint, context={**error.context, **attempts})


_USAGE_COUNTS = (
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "cache_read_tokens",
    "cache_creation_tokens",
    "cost_usd",
)


@dataclass(frozen=True)
class AssertionScore:
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


def score_assertions(assertions: Sequence[Assertion], answers: Sequence[JudgeAnswer]) -> list[AssertionScore]:
    """Score each assertion by all votes. The reason is that of the vote nearest to the median."""
    results = []
    for assertion in assertions:
        scores = tuple(answer.scores[assertion.name] for answer in answers)
        distances = [abs(score - median(scores)) for score in scores]
        nearest = answers[distances.index(min(distances))]
        results.append(AssertionScore(assertion, scores, nearest.reasons.get(assertion.name, "")))
    return results


def overall_score(results: Sequence[AssertionScore]) -> float:
    weight = sum(result.assertion.weight for result in results)
    return round(sum(result.score * result.assertion.weight for result in results) / weight, 6)


def verdict_metrics(results: Sequence[AssertionScore], answers: Sequence[JudgeAnswer]) -> dict[str, Any]:
    """Return the metrics of a result; result assertion is a number under its name."""
    severities = {
        result.assertion.name: result.assertion.severity for result in results if result.assertion.severity is not None
    }
    values: dict[str, Any] = {result.assertion.name: result.score for result in results}
    values |= {"overall_score": overall_score(results), "votes": len(answers), "judge_status": judge_status(answers)}
    values["reasons"] = {result.assertion.name: result.reason for result in results if result.reason}
    if len(answers) > 1:
        values["spread"] = {
            result.assertion.name: {"min": min(result.scores), "max": max(result.scores), "scores": list(result.scores)}
            for result in results
        }
    return {**values, "severity": severities} if severities else values


def judge_status(answers: Sequence[JudgeAnswer]) -> str | None:
    """Return the judges' own verdict, for information."""
    statuses = {answer.status for answer in answers}
    return statuses.pop() if len(statuses) == 1 else "mixed"


def assertion_results(results: Sequence[AssertionScore]) -> list[AssertionResult]:
    return [
        AssertionResult(
            name=result.assertion.name,
            passed=result.holds,
            expected=result.assertion.threshold,
            actual=result.score,
            message=result.reason or result.assertion.text,
        )
        for result in results
    ]


def verdict_message(results: Sequence[AssertionScore], answers: Sequence[JudgeAnswer]) -> str:
    """Describe the verdict in one sentence, with the assertions that failed."""
    failed = [result for result in results if not result.holds]
    by = f" by {len(answers)} votes" if len(answers) > 1 else ""
    if not failed:
        return f"All {len(results)} assertions passed{by}." if len(results) > 1 else f"The assertion passed{by}."
    shown = ", ".join(f"{f.assertion.name} ({f.score:g} of at least {f.assertion.threshold:g})" for f in failed[:5])
    more = f" and {len(failed) - 5} more" if len(failed) > 5 else ""
    contradicted = ' The judge itself said "passed".' if judge_status(answers) == "passed" else ""
    what = f"{len(failed)} of {len(results)} assertions" if len(results) > 1 else "The assertion"
    return f"{what} failed{by}: {shown}{more}.{contradicted}"


def total_usage(usages: Sequence[Usage | None]) -> Usage | None:
    """Sum what is known; `partial` if anything is unknown."""
    known = [usage for usage in usages if usage is not None]
    if not known:
        return None
    sums: dict[str, Any] = {name: _sum([getattr(usage, name) for usage in known]) for name in _USAGE_COUNTS}
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


def verdict_record(
    results: Sequence[AssertionScore], answers: Sequence[JudgeAnswer], judge: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the content of `verdict.json`: the votes behind the verdict."""
    return {
        "passed": all(result.holds for result in results),
        "overall_score": overall_score(results),
        "judge": dict(judge),
        "assertions": {
            result.assertion.name: {
                "text": result.assertion.text,
                "score": result.score,
                "threshold": result.assertion.threshold,
                "weight": result.assertion.weight,
                "holds": result.holds,
                "scores": list(result.scores),
                "reasons": [answer.reasons.get(result.assertion.name) for answer in answers],
            }
            for result in results
        },
        "votes": [{"status": answer.status, "message": answer.message} for answer in answers],
    }
