"""Validate a patch as a trial's result would be validated, without an agent: for `rescore` and `calibrate`."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.evaluators.base import VALIDATION, AgentSandbox, EvaluationContext
from youbencha.events import EventSink, notes_to
from youbencha.process import Redactor
from youbencha.spec.loader import NamedEvaluator
from youbencha.store.bundle import EvaluationResult
from youbencha.trial.context import Host
from youbencha.trial.evaluation import evaluate_all
from youbencha.trial.plan import Plan
from youbencha.trial.prepare import evaluator_sandboxes
from youbencha.workspace import Changes, RunDirectory
from youbencha.workspace.run_dir import new_run_name


def find_validation(plan: Plan) -> NamedEvaluator:
    """The plan's validation. Raises `VALIDATION_MISSING`."""
    for evaluator in plan.evaluators:
        if evaluator.name.partition(":")[0] == VALIDATION:
            return evaluator
    raise YouBenchaError(
        "VALIDATION_MISSING", f"{plan.name} has no evaluator `validation`.", hint="Add one to its `evaluators`."
    )


async def validate_patch(
    plan: Plan,
    host: Host,
    patch: Path | None,
    *,
    directory: Path,
    name: str | None = None,
    on_event: EventSink = lambda _: None,
) -> EvaluationResult:
    """Validate a patch to the plan's repository. None: nothing is changed.

    `directory` must not exist; afterwards it has the logs, in `artifacts`. `name` identifies what is left of it if
    the harness is killed; it must be unique. A validation that does not work is a skipped result.
    """
    repository = await host.open_plan_repository(plan, notes_to(on_event))
    evaluator, note = _from_diff(find_validation(plan))
    async with AsyncExitStack() as opened:
        run = opened.enter_context(
            RunDirectory.create_at(directory, name=name or new_run_name(VALIDATION), cache_dir=host.cache_dir)
        )
        if plan.sandbox.type == "docker":
            await opened.enter_async_context(host.removing_orphaned_containers())
        if patch is None:
            patch = run.private / "empty.patch"
            patch.touch()
        context = EvaluationContext(
            directory=run.modified,
            artifacts_dir=run.artifacts,
            config_dir=plan.config_dir,
            changes=Changes((), patch, repository.commit, current_commit=None),
            repository=repository,
            harness_env=host.env,
            redactor=Redactor.for_env(host.env, plan.env),
            scratch_dir=run.private / "scratch",
            open_sandbox=evaluator_sandboxes(plan.sandbox, host, run, on_event),
            agent_sandbox=AgentSandbox(image=plan.sandbox.image),
            shared=host.shared,
        )
        [result] = await evaluate_all([evaluator], context)
        run.delete_sources()
    return result.model_copy(update={"message": result.message + note})


def _from_diff(evaluator: NamedEvaluator) -> tuple[NamedEvaluator, str]:
    """The evaluator in the mode `diff`, and a note if that is not its own: there is no agent whose state to use."""
    mode = evaluator.config.get("mode", "diff")
    if mode == "diff":
        return evaluator, ""
    changed = evaluator._replace(config={**evaluator.config, "mode": "diff"})
    return changed, f" Validated from the diff, not in the mode {mode}: the agent's workspace is gone."
