"""AgenticJudge: any agent as a judge.

The judge works on a copy of the tree that is thrown away, so it disturbs neither what is judged nor another evaluator.
What it says is read as scores, and declared thresholds decide: a judge that says "passed" with a score of 0 is
reported, not believed. Nothing in the judged tree may instruct the judge (see `copying.py` and `definition.py`).
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from youbencha.adapters.base import AgentExecutionContext, AgentExecutionResult
from youbencha.errors import ConfigError, Problem, YouBenchaError
from youbencha.evaluators.base import (
    EvaluationContext,
    EvaluatorSandbox,
    artifact,
    counted,
    evaluation_result,
    in_thread,
)
from youbencha.evaluators.judge import verdict
from youbencha.evaluators.judge.agent import (
    Adapters,
    Checked,
    JudgeAgent,
    install_definition,
    judge_agent,
    judge_principles,
    knows_gateway,
)
from youbencha.evaluators.judge.answer import JudgeAnswer, find_answer
from youbencha.evaluators.judge.config import Assertion
from youbencha.evaluators.judge.materials import Brief, Materials, judge_prompt, prepare_materials, task_of
from youbencha.events import WarningRaised
from youbencha.files import LOG_FILE
from youbencha.gateway.api import GatewayAccess
from youbencha.log import Artifact, EvaluationResult, YouBenchaLog
from youbencha.sandbox.local import HOST
from youbencha.workspace.trees import remove_tree

if TYPE_CHECKING:
    from youbencha.adapters.base import AgentAdapter
    from youbencha.spec import AgentSpec


def _installed(name: str) -> AgentAdapter:
    from youbencha.adapters import get_adapter

    return get_adapter(name)


class AgenticJudge:
    """Asks an agent whether assertions hold, as often as `votes` says. What it needs is imported when it judges."""

    name = "agentic-judge"
    description = "An agent looks at the result and scores your assertions from 0 to 1; your thresholds decide."

    def __init__(self, adapters: Callable[[str], AgentAdapter] = _installed) -> None:
        self._adapters = adapters

    def check_config(
        self, config: Mapping[str, Any], config_dir: Path, agent_type: str | None = None
    ) -> Sequence[Problem]:
        """`agent_type` is the test case's agent, which judges where there is no `type`. None: there is none."""
        return self._checked(config, config_dir, agent_type).problems

    def bypasses_gateway(
        self, config: Mapping[str, Any], config_dir: Path, agent: AgentSpec | None, env: Mapping[str, str]
    ) -> str | None:
        """Of `AsksModel`. A program of somebody's own need not ask any model."""
        from youbencha.adapters.base import needs_model
        from youbencha.evaluators.judge.agent import judge_agent, knows_gateway

        checked = self._checked(config, config_dir, agent.type if agent else None)
        if checked.judge is None:
            return None
        taken = judge_agent(checked.judge, checked.options, agent, self._adapters)
        known = knows_gateway(taken, agent.type if agent else None, {**env, **checked.judge.env})
        return None if known or not needs_model(taken.adapter) else taken.type

    async def evaluate(self, context: EvaluationContext) -> EvaluationResult:
        """Skipped where the agent itself failed; an error where no judge could be heard."""

        started = time.monotonic()
        checked = self._checked(context.config, context.config_dir, context.agent.type if context.agent else None)
        if checked.problems or checked.judge is None:
            raise ConfigError("EVALUATOR_CONFIG_INVALID", f"The configuration of {context.name}", checked.problems)
        if not checked.judge.judge_failed_runs and (reason := _not_worth_judging(context)):
            return evaluation_result(context, started, "skipped", reason)
        return await collect_votes(context, checked, self._adapters, started)

    def _checked(self, config: Mapping[str, Any], config_dir: Path, agent_type: str | None) -> Checked:
        from youbencha.evaluators.judge.agent import check

        return check(config, config_dir, agent_type, self._adapters)


def _not_worth_judging(context: EvaluationContext) -> str | None:
    """It cannot pass any more, and a judge costs money."""
    status = context.log.execution.status if context.log else "success"
    if status == "success":
        return None
    how = "ran out of time" if status == "timeout" else "failed"
    return f"Not judged, because the agent {how}. Set judge_failed_runs: true to have it judged all the same."


# All votes together: the judges are heard, and their votes become a result.

VERDICT = "verdict.json"


async def collect_votes(
    context: EvaluationContext, checked: Checked, adapters: Adapters, started: float
) -> EvaluationResult:
    judge = checked.judge
    assert judge is not None  # there are no problems
    bench = JudgeTask(
        judge_agent=judge_agent(judge, checked.options, context.agent, adapters),
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
    context: EvaluationContext, bench: JudgeTask, count: int, at_once: int, done: list[Attempt]
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
    context: EvaluationContext, bench: JudgeTask, votes: Sequence[Vote], done: Sequence[Attempt], started: float
) -> EvaluationResult:
    answers = [vote.answer for vote in votes]
    results = verdict.scored(bench.assertions, answers)
    judge = _judge_info(bench.judge_agent, votes[0].log)
    written = context.artifacts_dir / VERDICT
    record = verdict.record(results, answers, judge)
    written.write_text(json.dumps(record, indent=2, ensure_ascii=False, default=str) + "\n", encoding="utf-8")
    metrics = {**verdict.metrics(results, answers), "judge": judge}
    if asked_again := len(done) - len(votes):
        metrics["asked_again"] = asked_again
    return evaluation_result(
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


def _judge_info(judge_agent: JudgeAgent, log: YouBenchaLog) -> dict[str, Any]:
    return {
        "type": judge_agent.type,
        "agent_name": judge_agent.agent_name,
        "model": log.model_info.name,
        "version": log.agent_info.version,
    }


def _left(context: EvaluationContext, done: Sequence[Attempt]) -> Iterator[Artifact]:
    for attempt in sorted(done, key=lambda attempt: attempt.name):
        yield artifact(context, "prompt", attempt.artifacts / PROMPT, f"what the judge was told ({attempt.name})")
        yield artifact(context, "log", attempt.artifacts / LOG_FILE, f"what the judge did ({attempt.name})")
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


# One judge's vote: run the agent on its own copy, read its answer, and ask once more if that cannot be used.

PROMPT = "prompt.md"

_NOTHING = "there was no JSON object with these assertions in it"


@dataclass(frozen=True, kw_only=True)
class JudgeTask:
    """What all votes have in common."""

    judge_agent: JudgeAgent
    assertions: Sequence[Assertion]
    guidance: str
    timeout: int
    env: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One run of the judge."""

    name: str
    log: YouBenchaLog
    artifacts: Path
    """Holds the prompt and the log."""
    log_file: Path | None
    """What the agent printed."""


@dataclass(frozen=True, kw_only=True)
class Vote:
    answer: JudgeAnswer
    log: YouBenchaLog
    """Of the attempt that it came from."""


async def cast_vote(context: EvaluationContext, bench: JudgeTask, number: int, done: list[Attempt]) -> Vote:
    """`done` gets every attempt as it ends: what it cost is known, whatever comes of it."""
    names = [each.name for each in bench.assertions]
    unusable: str | None = None
    for again in ("", "-again"):
        attempt = await _attempt(context, bench, f"vote-{number}{again}", unusable)
        done.append(attempt)
        _require_success(attempt, bench.judge_agent)
        answer = find_answer(attempt.log, names)
        if answer is not None and not answer.faults:
            return Vote(answer=answer, log=attempt.log)
        unusable = _NOTHING if answer is None else "; ".join(f"{name}: {why}" for name, why in answer.faults.items())
        if not again and context.on_event is not None:
            context.on_event(
                WarningRaised(code="JUDGE_ASKED_AGAIN", message=f"{context.name} is asked again: {unusable}")
            )
    raise YouBenchaError(
        "JUDGE_NO_VERDICT",
        f"The judge ({bench.judge_agent.type}) gave no usable verdict, not even when asked again: {unusable}.",
        hint="Read what it said in its youbencha-log.json. A stronger model, fewer assertions or clearer ones help.",
    )


async def _attempt(context: EvaluationContext, bench: JudgeTask, name: str, unusable: str | None) -> Attempt:
    judge_agent, artifacts = bench.judge_agent, context.artifacts_dir / name
    artifacts.mkdir(parents=True, exist_ok=True)
    directory = context.scratch_dir / name  # the same in every run: what a judge sees of it can then be replayed
    remove_tree(directory)  # nothing that somebody put there is shown to a judge
    directory.mkdir()
    try:
        materials = await in_thread(lambda check_cancelled: prepare_materials(context, directory, check_cancelled))
        definition = install_definition(
            judge_agent.type, judge_agent.agent_name, config_dir=context.config_dir, tree=materials.tree
        )
        brief = Brief(
            assertions=bench.assertions,
            materials=materials,
            principles="" if definition else judge_principles(),
            guidance=bench.guidance,
            task=task_of(context),
            size=_size(context),
        )
        async with _place(context, bench, materials) as place:
            prompt = judge_prompt(brief, unusable)
            # Where an agent is asked to use a key, the prompt may name one.
            (artifacts / PROMPT).write_text(context.redactor.with_env(bench.env).text(prompt), encoding="utf-8")
            judging = AgentExecutionContext(
                workspace_dir=materials.tree,
                repo_dir=materials.tree,
                artifacts_dir=artifacts,
                config={**judge_agent.config, "prompt": prompt},
                timeout=bench.timeout,
                # Without a `.git` in the copy, git would find the repository that our workspace lies in.
                env={"GIT_CEILING_DIRECTORIES": str(directory.resolve()), **bench.env},
                model=judge_agent.model,
                config_dir=context.config_dir,
                gateway=place.gateway,
                sandbox=place.sandbox,
                scratch_dir=context.agent_scratch_dir,
            )
            result = await _execute(judge_agent, judging)
        log = judge_agent.adapter.normalize_log(result, judging)
        (artifacts / LOG_FILE).write_text(log.model_dump_json(indent=2), encoding="utf-8")
        return Attempt(name=name, log=log, artifacts=artifacts, log_file=result.log_file)
    finally:
        with suppress(YouBenchaError):
            await in_thread(lambda _: remove_tree(directory))


@asynccontextmanager
async def _place(context: EvaluationContext, bench: JudgeTask, materials: Materials) -> AsyncIterator[EvaluatorSandbox]:
    """A judge has tools, and reads what an untrusted agent wrote: it is kept where that agent was kept.

    One that cannot go through the gateway would reach no model in there, and stays here.
    """
    access = _access(context, bench)
    if context.open_sandbox is None or access is None:
        yield EvaluatorSandbox(HOST, access)
        return
    async with context.open_sandbox(materials.tree, access) as place:
        for path in materials.beside(history=context.directory / ".git" / "objects"):
            place.sandbox.share(path)
        yield place


def _access(context: EvaluationContext, bench: JudgeTask) -> GatewayAccess | None:
    kind = context.agent.type if context.agent else None
    return context.gateway if knows_gateway(bench.judge_agent, kind, bench.env) else None


async def _execute(judge_agent: JudgeAgent, judging: AgentExecutionContext) -> AgentExecutionResult:
    try:
        return await judge_agent.adapter.execute(judging)
    except YouBenchaError as error:
        raise YouBenchaError(
            "JUDGE_FAILED",
            f"The judge ({judge_agent.type}) could not be started: {error.message}",
            hint=error.hint,
            context={"code": error.code},
        ) from error


def _require_success(attempt: Attempt, judge_agent: JudgeAgent) -> None:
    status, errors = attempt.log.execution.status, attempt.log.errors
    if status == "success":
        return
    first = errors[0] if errors else None
    raise YouBenchaError(
        "JUDGE_FAILED",
        f"The judge ({judge_agent.type}) ended with {status}: {first.message if first else 'it did not say why'}",
        hint=(first.hint if first else None) or "Read its youbencha-log.json.",
        context={"code": first.code if first else None, "status": status},
    )


def _size(context: EvaluationContext) -> str | None:
    if context.changes is None:
        return None
    files = context.changes.files
    added, removed = sum(each.additions or 0 for each in files), sum(each.deletions or 0 for each in files)
    return f"{counted(len(files), 'file')}, {counted(added, 'line')} added, {removed:,} removed"
