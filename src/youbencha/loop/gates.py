"""Gates: the evaluators that must pass before a loop's work counts as done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from youbencha.errors import Problem
from youbencha.evaluators import EvaluationContext
from youbencha.events import EvaluatorFinished, EventSink
from youbencha.loop.backends import shell_environment
from youbencha.process import Redactor
from youbencha.sandbox.base import Sandbox
from youbencha.spec.loader import LocatedEvaluator
from youbencha.spec.loop import GateSpec
from youbencha.spec.loop_loader import LoopFile
from youbencha.spec.testcase import AgentSpec
from youbencha.store.bundle import EvaluationResult
from youbencha.store.layout import DIFF_FILE, RALPH_DIR
from youbencha.store.loops import GateRecord
from youbencha.trial.checks import evaluator_problems
from youbencha.trial.context import Host
from youbencha.trial.evaluation import evaluate_all
from youbencha.trial.prepare import evaluator_sandboxes
from youbencha.workspace import Changes, RunDirectory
from youbencha.workspace.trees import remove_tree
from youbencha.workspace.working_tree import uncommitted_changes

if TYPE_CHECKING:
    from youbencha.loop.plan import LoopPlan  # which imports this module
    from youbencha.trial.gateway_session import TrialGateway  # loads aiohttp

MAX_CHARACTERS = 4_000
"""The end of what one gate printed, where summaries are, for the next prompt."""


class GateReport(NamedTuple):
    """The results of all gates."""

    records: tuple[GateRecord, ...]
    output: str
    """Why gates failed and what they printed, for the next prompt. Empty if all passed."""

    @property
    def passed(self) -> bool:
        return all(record.status == "passed" for record in self.records)


def locate_gates(file: LoopFile) -> tuple[LocatedEvaluator, ...]:
    """The gates as evaluators, with their positions."""
    return tuple(
        LocatedEvaluator(_evaluator_name(gate), _config(gate), file.directory, file.document, ("gates", index))
        for index, gate in enumerate(file.spec.gates)
    )


def gate_problems(file: LoopFile, env: Mapping[str, str] | None, agent_type: str | None) -> list[Problem]:
    """All problems of the gates' options. `env` is the harness's environment, if references to it are checked.

    `agent_type` is that of the agent, which is also the default for a judge.
    """
    found = []
    for gate, evaluator in zip(file.spec.gates, locate_gates(file), strict=True):
        for problem in evaluator_problems(evaluator, agent_type, env):
            # The shortcut has its own key beside `config`.
            is_own = gate.command is not None and problem.keys[-2:] == ("config", "command")
            own = evaluator.problem(problem.message, problem.hint, key=("command",)) if is_own else problem
            found.append(own)
    return found


def _evaluator_name(gate: GateSpec) -> str:
    return gate.name if gate.command is None else f"command:{gate.name}"


def _config(gate: GateSpec) -> dict[str, Any]:
    if gate.command is None:
        return gate.config
    in_shell = {"shell": True} if isinstance(gate.command, str) else {}
    return {"command": gate.command, "copy": False, **in_shell, **gate.config}


async def run_gates(
    plan: LoopPlan,
    host: Host,
    directory: RunDirectory,
    *,
    artifacts_dir: Path,
    on_event: EventSink,
    since: str | None = None,
    gateway: TrialGateway | None = None,
    sandbox: Sandbox | None = None,
) -> GateReport:
    """Run all gates on the tree of the loop.

    `since` is the commit of the tree before the loop; by default HEAD. `gateway` and `sandbox` are those of the last
    iteration: in a container, gates run in containers of the same kind.
    """
    backend = plan.backend
    context = EvaluationContext(
        directory=plan.directory,
        artifacts_dir=artifacts_dir,
        config_dir=plan.config_dir,
        changes=await _changes(plan, directory, artifacts_dir, since),
        left_out=(plan.directory / RALPH_DIR,),
        agent=AgentSpec(type=backend.agent_type, model=backend.model),
        env=dict(backend.env),
        harness_env=host.env,
        shell_env=shell_environment(host.env, behind_gateway=gateway is not None),
        redactor=Redactor.for_env(host.env, backend.env, gateway.secrets if gateway else {}),
        scratch_dir=directory.private / "scratch",
        agent_scratch_dir=directory.scratch,
        open_sandbox=evaluator_sandboxes(plan.sandbox, host, directory, on_event, gateway, sandbox),
        shared=host.shared,
    )

    def on_result(index: int, result: EvaluationResult) -> None:
        name = plan.spec.gates[index].name
        on_event(EvaluatorFinished(evaluator=name, status=result.status, message=result.message))

    results = await evaluate_all(
        plan.gates, context, gateway=gateway, max_concurrent=plan.max_concurrent, on_result=on_result
    )
    return make_report(plan.spec.gates, results)


async def _changes(plan: LoopPlan, directory: RunDirectory, artifacts_dir: Path, since: str | None) -> Changes | None:
    """What the loop has changed. None if no gate asks for it, or outside of a repository."""
    if all(gate.command is not None for gate in plan.spec.gates):
        return None
    artifacts_dir.mkdir(parents=True, exist_ok=True)
    git_dir, own = directory.private / "gates.git", [plan.directory / RALPH_DIR]
    try:
        return await uncommitted_changes(plan.directory, git_dir, artifacts_dir / DIFF_FILE, since=since, left_out=own)
    finally:
        remove_tree(git_dir)


def make_report(gates: Sequence[GateSpec], results: Sequence[EvaluationResult]) -> GateReport:
    records = [
        GateRecord(name=gate.name, status=result.status, message=result.message)
        for gate, result in zip(gates, results, strict=True)
    ]
    parts = [
        "\n".join(_explained(gate, result))
        for gate, result in zip(gates, results, strict=True)
        if result.status != "passed"
    ]
    return GateReport(tuple(records), "\n\n".join(parts))


def _explained(gate: GateSpec, result: EvaluationResult) -> Iterator[str]:
    """What an agent needs to know about a gate that did not pass."""
    verdict = "failed" if result.status == "failed" else "could not be checked"
    yield f"### Gate `{gate.name}` {verdict}"
    yield result.message
    if gate.on_fail is not None:
        yield gate.on_fail
    for assertion in result.assertions:
        if not assertion.passed and assertion.message and assertion.message not in result.message:
            yield f"- {assertion.name}: {assertion.message}"
    printed = str(result.metrics.get("output_tail") or "").strip()
    if printed:
        yield f"```\n{printed[-MAX_CHARACTERS:]}\n```"
