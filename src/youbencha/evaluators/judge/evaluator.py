"""AgenticJudge: any agent as a judge.

Each vote runs the agent on a temporary copy of the tree, reads the scores in its answer, and asks once more if the
answer is unusable. The configured thresholds decide; the judge's own verdict is only reported. Nothing in the judged
tree may instruct the judge (see `materials.py` and `agent.py`).
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from youbencha.adapters import AgentExecutionContext, AgentExecutionResult, get_adapter, needs_model
from youbencha.adapters.base import requested_model
from youbencha.adapters.cli_agent.environment import fresh_home_for
from youbencha.errors import ConfigError, Problem, YouBenchaError
from youbencha.evaluators.base import (
    EvaluationContext,
    EvaluatorSandbox,
    artifact,
    evaluation_result,
    in_thread,
)
from youbencha.evaluators.judge import verdict
from youbencha.evaluators.judge.agent import (
    Adapters,
    Checked,
    JudgeAgent,
    check,
    install_definition,
    judge_agent,
    judge_principles,
    uses_gateway,
)
from youbencha.evaluators.judge.answer import JudgeAnswer, find_answer
from youbencha.evaluators.judge.config import Assertion
from youbencha.evaluators.judge.materials import Brief, Materials, judge_prompt, prepare_materials, task_of
from youbencha.log.masking import masked
from youbencha.log.model import YouBenchaLog
from youbencha.sandbox.local import HOST, open_local_sandbox
from youbencha.store.bundle import Artifact, EvaluationResult
from youbencha.store.layout import LOG_FILE
from youbencha.text import plural
from youbencha.transcript.recording import TRANSCRIPT_FILE, RecordedEvents
from youbencha.workspace.trees import remove_tree

if TYPE_CHECKING:
    from youbencha.adapters.base import AgentAdapter
    from youbencha.gateway.api import Provider
    from youbencha.spec.testcase import AgentSpec


VERDICT = "verdict.json"
PROMPT = "prompt.md"
_NOTHING = "there was no JSON object with these assertions in it"


class AgenticJudge:
    """Lets an agent score assertions, `votes` times."""

    name = "agentic-judge"
    description = "An agent looks at the result and scores your assertions from 0 to 1; your thresholds decide."

    def __init__(self, adapters: Callable[[str], AgentAdapter] | None = None) -> None:
        self._adapters = adapters

    def check_config(
        self, config: Mapping[str, Any], config_dir: Path, agent_type: str | None = None
    ) -> Sequence[Problem]:
        return self._checked(config, config_dir, agent_type).problems

    def bypasses_gateway(
        self, config: Mapping[str, Any], config_dir: Path, agent: AgentSpec | None, env: Mapping[str, str]
    ) -> str | None:
        """See `UsesModel`. A custom program may not call a model at all."""
        checked = self._checked(config, config_dir, agent.type if agent else None)
        if checked.judge is None:
            return None
        judge = judge_agent(checked.judge, checked.options, agent, self._adapters or get_adapter)
        through_gateway = uses_gateway(judge, agent.type if agent else None, {**env, **checked.judge.env})
        return None if through_gateway or not needs_model(judge.adapter) else judge.type

    def requested_model(
        self, config: Mapping[str, Any], config_dir: Path, agent: AgentSpec | None, env: Mapping[str, str]
    ) -> tuple[Provider, str] | None:
        """See `UsesModel`."""
        checked = self._checked(config, config_dir, agent.type if agent else None)
        if checked.judge is None:
            return None
        judge = judge_agent(checked.judge, checked.options, agent, self._adapters or get_adapter)
        return requested_model(judge.adapter, judge.configured_model, {**env, **checked.judge.env})

    async def evaluate(self, context: EvaluationContext) -> EvaluationResult:
        started = time.monotonic()
        checked = self._checked(context.config, context.config_dir, context.agent.type if context.agent else None)
        if checked.problems or checked.judge is None:
            raise ConfigError("EVALUATOR_CONFIG_INVALID", f"The configuration of {context.name}", checked.problems)
        if not checked.judge.judge_failed_runs and (reason := _reason_to_skip(context)):
            return evaluation_result(context, started, "skipped", reason)
        adapters = self._adapters or partial(get_adapter, env=context.harness_env)
        return await collect_votes(context, checked, adapters, started)

    def _checked(self, config: Mapping[str, Any], config_dir: Path, agent_type: str | None) -> Checked:
        return check(config, config_dir, agent_type, self._adapters or get_adapter)


def _reason_to_skip(context: EvaluationContext) -> str | None:
    """Why not to judge: a failed run fails in any case, and a judge costs money."""
    status = context.log.execution.status if context.log else "success"
    if status == "success":
        return None
    end = "timed out" if status == "timeout" else "failed"
    return f"Not judged, because the agent {end}. Set judge_failed_runs: true to judge it anyway."


async def collect_votes(
    context: EvaluationContext, checked: Checked, adapters: Adapters, started: float
) -> EvaluationResult:
    judge = checked.judge
    assert judge is not None  # there are no problems
    task = JudgeTask(
        judge_agent=judge_agent(judge, checked.options, context.agent, adapters),
        assertions=judge.asked(),
        guidance=checked.guidance,
        timeout=judge.timeout,
        env={**context.env, **judge.env},
    )
    done: list[Attempt] = []
    try:
        votes = await _all_votes(context, task, judge.votes, judge.max_concurrent_votes, done)
    except YouBenchaError as error:
        raise _with_usage(error, context, done) from error
    return _result(context, task, votes, done, started)


async def _all_votes(
    context: EvaluationContext, task: JudgeTask, count: int, max_concurrent: int, done: list[Attempt]
) -> list[Vote]:
    """All votes; the first failure cancels the others."""
    limit = asyncio.Semaphore(max_concurrent)

    async def one(number: int) -> Vote:
        async with limit:
            return await cast_vote(context, task, number, done)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(number)) for number in range(1, count + 1)]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]


def _result(
    context: EvaluationContext, task: JudgeTask, votes: Sequence[Vote], done: Sequence[Attempt], started: float
) -> EvaluationResult:
    answers = [vote.answer for vote in votes]
    results = verdict.scored(task.assertions, answers)
    judge = _judge_info(task.judge_agent, votes[0].log)
    path = context.artifacts_dir / VERDICT
    mask = context.redactor.with_env(task.env).text
    record = masked(verdict.record(results, answers, judge), mask)
    path.write_text(json.dumps(record, indent=2, ensure_ascii=False, default=str) + "\n", encoding="utf-8")
    metrics = {**verdict.metrics(results, answers), "judge": judge}
    if asked_again := len(done) - len(votes):
        metrics["asked_again"] = asked_again
    return evaluation_result(
        context,
        started,
        "passed" if all(each.holds for each in results) else "failed",
        mask(verdict.message(results, answers) + _warnings_text(done)),
        metrics=metrics,
        assertions=verdict.assertion_results(results),
        artifacts=[artifact(context, "verdict", path, "all votes, and the verdict"), *_artifacts(context, done)],
        usage=verdict.total_usage([attempt.log.usage for attempt in done]),
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
    usage = verdict.total_usage([attempt.log.usage for attempt in done])
    attempts: dict[str, Any] = {
        "usage": usage.model_dump() if usage else None,
        "artifacts": [each.model_dump() for each in _artifacts(context, done)],
    }
    return YouBenchaError(error.code, error.message, hint=error.hint, context={**error.context, **attempts})


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
    """The directory with the prompt and the log."""
    log_file: Path | None
    """The agent's output."""


@dataclass(frozen=True, kw_only=True)
class Vote:
    answer: JudgeAnswer
    log: YouBenchaLog
    """Of the attempt with the answer."""


async def cast_vote(context: EvaluationContext, task: JudgeTask, number: int, done: list[Attempt]) -> Vote:
    """Get one judge's vote. Every attempt is appended to `done`, so that its usage is known if the vote fails."""
    names = [each.name for each in task.assertions]
    unusable: str | None = None
    for again in ("", "-again"):
        attempt = await _attempt(context, task, f"vote-{number}{again}", unusable)
        done.append(attempt)
        _require_success(attempt, task.judge_agent)
        answer = find_answer(attempt.log, names)
        if answer is not None and not answer.faults:
            return Vote(answer=answer, log=attempt.log)
        unusable = _NOTHING if answer is None else "; ".join(f"{name}: {why}" for name, why in answer.faults.items())
    raise YouBenchaError(
        "JUDGE_NO_VERDICT",
        f"The judge ({task.judge_agent.type}) gave no usable verdict in two attempts: {unusable}.",
        hint="See its answer in its youbencha-log.json. Try a stronger model, or fewer and clearer assertions.",
    )


async def _attempt(context: EvaluationContext, task: JudgeTask, name: str, unusable: str | None) -> Attempt:
    judge_agent, artifacts = task.judge_agent, context.artifacts_dir / name
    artifacts.mkdir(parents=True, exist_ok=True)
    directory = context.scratch_dir / name  # the same in every run, so that a judge's requests can be replayed
    remove_tree(directory)  # another program may have put something there
    directory.mkdir()
    try:
        materials = await in_thread(lambda check_cancelled: prepare_materials(context, directory, check_cancelled))
        definition = install_definition(
            judge_agent.type, judge_agent.agent_name, config_dir=context.config_dir, tree=materials.tree
        )
        brief = Brief(
            assertions=task.assertions,
            materials=materials,
            principles="" if definition else judge_principles(),
            guidance=task.guidance,
            task=task_of(context),
            size=_size(context),
        )
        async with _sandbox(
            context, task, materials, may_need_home=bool(judge_agent.agent_name and not definition)
        ) as opened:
            prompt = judge_prompt(brief, unusable)
            # The task in the prompt may contain a key.
            (artifacts / PROMPT).write_text(context.redactor.with_env(task.env).text(prompt), encoding="utf-8")
            events = RecordedEvents()
            events.record(artifacts / TRANSCRIPT_FILE, context.redactor.with_env(task.env))
            judging = AgentExecutionContext(
                workspace_dir=materials.tree,
                repo_dir=materials.tree,
                artifacts_dir=artifacts,
                config={**judge_agent.config, "prompt": prompt},
                timeout=task.timeout,
                # Without a `.git` in the copy, git would find the repository that the workspace is in.
                env={"GIT_CEILING_DIRECTORIES": str(directory.resolve()), **task.env},
                model=judge_agent.model,
                config_dir=context.config_dir,
                on_event=events,
                gateway=opened.gateway,
                sandbox=opened.sandbox,
                scratch_dir=context.agent_scratch_dir,
            )
            try:
                result = await _execute(judge_agent, judging)
                log = judge_agent.adapter.normalize_log(result, judging)
                events.complete(log)
            finally:
                events.close()
        (artifacts / LOG_FILE).write_text(log.model_dump_json(indent=2), encoding="utf-8")
        log = log.without_claims()
        if result.session and result.session.messages:  # its answer is read from what it said, with its secrets
            log = log.model_copy(update={"messages": result.session.messages})
        return Attempt(name=name, log=log, artifacts=artifacts, log_file=result.log_file)
    finally:
        with suppress(YouBenchaError):
            await in_thread(lambda _: remove_tree(directory))


@asynccontextmanager
async def _sandbox(
    context: EvaluationContext, task: JudgeTask, materials: Materials, *, may_need_home: bool
) -> AsyncIterator[EvaluatorSandbox]:
    """A sandbox like the agent's: a judge has tools, and reads what an untrusted agent wrote.

    A judge that cannot use the gateway would reach no model in it, and runs on the host; there, it gets the user's home
    only if it may need a login or a definition in it.
    """
    agent_type = context.agent.type if context.agent else None
    access = context.gateway if uses_gateway(task.judge_agent, agent_type, task.env) else None
    if context.open_sandbox is None or access is None:
        env = {"harness_env": context.harness_env, "agent_env": task.env}
        fresh = fresh_home_for(task.judge_agent.adapter, "auto", **env, behind_gateway=access is not None)
        local = open_local_sandbox(scratch=materials.tree.parent) if fresh and not may_need_home else HOST
        yield EvaluatorSandbox(local, access)
        return
    async with context.open_sandbox(materials.tree, access) as opened:
        for path in materials.outside_tree(history=context.directory / ".git" / "objects"):
            opened.sandbox.share(path)
        yield opened


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
        f"The judge ({judge_agent.type}) ended with {status}: {first.message if first else 'no error message'}",
        hint=(first.hint if first else None) or "See its youbencha-log.json.",
        context={"code": first.code if first else None, "status": status},
    )


def _size(context: EvaluationContext) -> str | None:
    if context.changes is None:
        return None
    files = context.changes.files
    added, removed = sum(each.additions or 0 for each in files), sum(each.deletions or 0 for each in files)
    return f"{plural(len(files), 'file')}, {plural(added, 'line')} added, {removed:,} removed"
