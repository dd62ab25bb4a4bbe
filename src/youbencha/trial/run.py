"""Run one test case from its repository to its verdict.

Results are written after each step, so that an interrupt or a kill does not lose what was finished.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.evaluators import EvaluationContext
from youbencha.events import EvaluatorFinished, EventSink, TrialEnded
from youbencha.store.bundle import EvaluationResult
from youbencha.store.layout import AGENT_FILES, DIFF_FILE
from youbencha.trial.agent import end_agent, reclaim, run_agent
from youbencha.trial.agent_files import take_files_away
from youbencha.trial.context import Host, TrialContext
from youbencha.trial.evaluation import EVALUATORS, can_check_task, check_task, evaluate_all, skipped_results
from youbencha.trial.kept_files import keep_agent_files
from youbencha.trial.plan import Plan
from youbencha.trial.prepare import agent_sandbox, open_trial, sandbox_for_evaluators
from youbencha.trial.results import TrialResult
from youbencha.workspace import Changes, Snapshot
from youbencha.workspace.sanitize import sanitize_bare_repositories, sanitize_tree, strip_set_uid
from youbencha.workspace.trees import copy_tree, remove_tree

_START = "start.git"
_INTERRUPT_TIMEOUT_S = 10.0
"""How long an interrupted trial may take to save what its agent has changed."""

_BEFORE = "before"
"""The directory for what evaluators do before the agent runs."""


async def run_trial(
    plan: Plan,
    host: Host,
    *,
    directory: Path | str | None = None,
    run_id: str | None = None,
    agent: str | None = None,
    on_event: EventSink = lambda _: None,
    delete_workspace: bool = False,
) -> TrialResult:
    """Run a plan. If the agent cannot be started, raise and leave nothing behind; any other failure is a result.

    `directory` is the run directory, which must not exist; by default a new one in the plan's workspace. `run_id` must
    be unique; it defaults to the directory's name. `agent` is the name of the agent whose budget pays for it, by
    default its type (see `Host.sharing`). Without `directory`, a copy of the agent's files is kept in the artifacts;
    trials of a matrix share one. A cancellation leaves valid results of what was finished, marked as interrupted
    unless there was already a verdict.
    """
    opening = open_trial(plan, host, directory=directory, run_id=run_id, agent=agent, on_event=on_event)
    async with opening as context:
        try:
            return await _run(context, delete_workspace=delete_workspace, keep_files=directory is None)
        except asyncio.CancelledError:
            if not context.record.has_verdict:
                await save_interrupted(context)
            raise


async def _run(context: TrialContext, *, delete_workspace: bool, keep_files: bool) -> TrialResult:
    plan, directory, record = context.plan, context.directory, context.record
    if keep_files:
        target = directory.artifacts / AGENT_FILES
        await asyncio.to_thread(keep_agent_files, plan.case.agent, plan.config_dir, target, context.redactor)
        record.add_agent_files()
    context.start = await _take_start(context)
    try:
        await _check_task(context)
    except YouBenchaError:
        if delete_workspace:
            directory.delete_sources()
        raise
    record.save_results(complete=False)
    await run_agent(context)
    changes = await compare(context)
    record.save_progress()
    try:
        await _evaluate(context, changes)
        await _close_gateway(context)
    except (YouBenchaError, OSError) as error:  # the agent did run, so this is a result
        record.failure = f"Cannot evaluate what the agent did: {error}"
        context.warn("EVALUATION_FAILED", record.failure)
    directory.release_room()
    if not delete_workspace:
        await _sanitize_bare_repositories(context)
        await _settle(context)
    if warning := context.host.cache.take_warning():
        context.warn(*warning)
    bundle = await record.finish(
        plan.case.post_evaluation,
        judged=directory.modified,
        config_dir=plan.config_dir,
        env=context.host.env,
        on_event=context.on_event,
    )
    if bundle.outcome is not None:
        context.on_event.add(TrialEnded(outcome=bundle.outcome.name, reason=bundle.outcome.reason))
    if delete_workspace:
        directory.delete_sources()
    return TrialResult(bundle, directory)


async def _sanitize_bare_repositories(context: TrialContext) -> None:
    """Sanitize bare repositories once everything is judged: until then, they may be part of the agent's changes."""
    if context.plan.sandbox.type != "local":
        await asyncio.to_thread(sanitize_bare_repositories, context.directory.modified)


async def _settle(context: TrialContext) -> None:
    try:
        await asyncio.to_thread(context.directory.settle)
    except YouBenchaError as error:  # everything was judged
        context.warn(error.code, f"Cannot keep the agent's files: {error.message}")


async def save_interrupted(context: TrialContext) -> None:
    """Save the results so far, and what the agent has changed if that does not take long."""
    with contextlib.suppress(TimeoutError, YouBenchaError):
        async with asyncio.timeout(_INTERRUPT_TIMEOUT_S):
            await end_agent(context)
            await compare(context)
            await _sanitize_bare_repositories(context)
            await _close_gateway(context)
    context.record.save_metrics()
    context.record.save_results(complete=False, interrupted=True)
    context.on_event.add(TrialEnded(outcome="interrupted"))


async def _take_start(context: TrialContext) -> Snapshot:
    """The tree when the agent starts: changes by hooks are not the agent's."""
    directory = context.directory
    start = await context.repository.snapshot(directory.modified, directory.private / _START)
    if not context.plan.case.pre_execution:
        return start
    with context.phase("pre_execution"):
        await _run_pre_execution(context)
        return await start.retake()


async def _run_pre_execution(context: TrialContext) -> None:
    from youbencha.hooks import HookContext, pre_execution_variables, run_pre_execution

    plan, directory, test_case = context.plan, context.directory, context.record.bundle.test_case
    hooks = HookContext(
        working_dir=directory.modified,
        artifacts_dir=directory.artifacts,
        config_dir=plan.config_dir,
        variables=pre_execution_variables(
            test_case, workspace_dir=directory.modified, artifacts_dir=directory.artifacts
        ),
        env=context.host.env,
        redactor=context.redactor,
        on_note=context.note,
    )
    results = await run_pre_execution(plan.case.pre_execution, hooks)
    context.record.add_hooks(pre_execution=results)
    if results and results[-1].status == "failed":
        from youbencha.report.findings import last_lines

        output = "".join(f"\n  │ {line}" for line in last_lines(results[-1].metadata))
        raise YouBenchaError(
            "PRE_EXECUTION_FAILED",
            f"A pre-execution hook failed, so the agent was not run: {results[-1].message}{output}",
            hint=f"Its output is in {logs}." if (logs := directory.artifacts / "hooks").is_dir() else None,
        )


async def _check_task(context: TrialContext) -> None:
    """Find out whether the untouched task can be judged: if not, its agent need not cost anything.

    What evaluators print meanwhile may tell about hidden tests, and is kept from the agent until it has ended.
    """
    if not can_check_task(context.plan.evaluators):
        return
    place = context.directory.private / _BEFORE
    shared = replace(_evaluation_context(context, None), artifacts_dir=place, scratch_dir=place / "scratch")
    with context.phase("task_check"):
        try:
            await check_task(context.plan.evaluators, shared)
        except YouBenchaError:
            _publish_checks(context)
            context.note(f"the agent was not run; logs: {context.directory.artifacts / EVALUATORS}")
            raise
        finally:
            remove_tree(shared.scratch_dir)


def _publish_checks(context: TrialContext) -> None:
    """Put what the evaluators wrote before the agent ran into the artifacts."""
    written, published = context.directory.private / _BEFORE / EVALUATORS, context.directory.artifacts / EVALUATORS
    if written.is_dir() and not published.exists():
        copy_tree(written, published)


async def compare(context: TrialContext) -> Changes | None:
    """What the agent changed; None if that was determined before or fails, which is recorded: the agent did run."""
    start, context.start = context.start, None
    if start is None:
        return None
    record = context.record
    with context.phase("freeze"):
        reclaim(context)
        sanitize = strip_set_uid if context.plan.sandbox.type == "local" else sanitize_tree
        if finding := await asyncio.to_thread(sanitize, context.directory.modified):
            context.warn("WORKSPACE_TAMPERED", finding)
        try:
            if context.overlay is not None:
                await take_files_away(context, context.overlay)
            changes = await start.changes(context.directory.artifacts / DIFF_FILE)
        except (YouBenchaError, OSError) as error:
            with contextlib.suppress(YouBenchaError):  # git leaves what it wrote to a full disk, which the results need
                await asyncio.to_thread(remove_tree, context.directory.private / _START)
            record.failure = f"Cannot determine what the agent changed: {error}"
            context.warn("CHANGES_UNKNOWN", record.failure)
            return None
        record.add_diff()
        if changes.left_out_of_patch:
            left_out = ", ".join(changes.left_out_of_patch[:10])
            context.warn("PATCH_INCOMPLETE", f"Files too large or too deeply nested for the patch: {left_out}")
        record.set_digest(await context.digest if context.digest else None)
        return changes


async def _evaluate(context: TrialContext, changes: Changes | None) -> None:
    plan, directory = context.plan, context.directory
    with context.phase("evaluation"):

        def on_result(index: int, result: EvaluationResult) -> None:
            context.record.add_result(index, result)
            if not context.record.is_judged:
                context.record.save_progress()
            context.on_event(
                EvaluatorFinished(evaluator=result.evaluator, status=result.status, message=result.message)
            )

        if (outcome := context.record.outcome_of_agent()) and not outcome.valid:
            for index, result in enumerate(skipped_results(plan.evaluators, outcome)):
                on_result(index, result)
            return
        expected_dir = None
        if context.expected_commit is not None:
            # Not before: the agent could have read it.
            expected_dir = directory.expected
            await context.repository.write_tree(context.expected_commit, expected_dir)
        shared = replace(_evaluation_context(context, changes), expected_dir=expected_dir)
        await asyncio.to_thread(_publish_checks, context)
        await evaluate_all(
            plan.evaluators, shared, gateway=context.gateway, max_concurrent=plan.max_concurrent, on_result=on_result
        )


def _evaluation_context(context: TrialContext, changes: Changes | None) -> EvaluationContext:
    plan, directory = context.plan, context.directory
    return EvaluationContext(
        directory=directory.modified,
        artifacts_dir=directory.artifacts,
        config_dir=plan.config_dir,
        changes=changes,
        repository=context.repository,
        log=context.record.log,
        agent=plan.case.agent,
        env=dict(plan.env),
        harness_env=context.host.env,
        redactor=context.redactor,
        scratch_dir=directory.private / "scratch",
        agent_scratch_dir=directory.scratch,
        open_sandbox=sandbox_for_evaluators(context),
        agent_sandbox=agent_sandbox(context),
        shared=context.host.shared,
    )


async def _close_gateway(context: TrialContext) -> None:
    if context.gateway is not None:
        for code, message in await context.gateway.close():
            context.warn(code, message)
