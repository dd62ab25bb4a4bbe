"""A run from the moment its workspace is ready.

Whatever is finished is on the disk before the next thing begins, so that an interrupt, or a kill, loses none of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Iterator
from importlib import import_module

from youbencha.adapters import AgentExecutionContext
from youbencha.errors import YouBenchaError
from youbencha.events import (
    EvaluatorFinished,
    Event,
    EventSink,
    PhaseStarted,
    ProcessStarted,
    ProgressNote,
    WarningRaised,
)
from youbencha.log import EvaluationResult, GatewayReport, TestCaseInfo, YouBenchaLog
from youbencha.process import Redactor
from youbencha.trial.agent import Digest
from youbencha.trial.evaluation import Evidence, evaluate_all
from youbencha.trial.plan import Plan
from youbencha.trial.prepare import Prepared, prepare, sandbox_for_evaluators
from youbencha.trial.results import DIFF_FILE, ResultFiles, RunRecord, TrialResult
from youbencha.workspace import Changes, Snapshot

_LAST_LOOK_S = 10.0


class Trial:
    """A run whose workspace is ready."""

    def __init__(self, plan: Plan, ready: Prepared, on_event: EventSink) -> None:
        self.directory = ready.directory
        self._plan = plan
        self._repository = ready.repository
        self._expected = ready.expected
        self._record = _record(plan, ready)
        self._way = ready.gateway_session
        self._sandbox = ready.sandbox
        self._on_event = on_event
        self._digest = Digest(plan.cache_dir)
        self._reclaimed = False
        self._begun: Snapshot | None = None
        """How the tree was when the agent began; None before that, and once it was compared."""
        secrets = self._way.secrets if self._way else {}
        redactor = Redactor.for_env(os.environ, plan.env, secrets)
        self._files = ResultFiles(self.directory.artifacts, self._record, redactor)

    async def run(self, *, delete_workspace: bool) -> TrialResult:
        self._begun = await self._start()
        self._files.save_results(complete=False)
        await self._run_agent()
        changes = await self._freeze()
        self._files.save_results(complete=False)
        await self._evaluate(changes)
        await self._close_way()
        bundle = await self._files.conclude(
            self._plan.case.post_evaluation,
            judged=self.directory.modified,
            config_dir=self._plan.loaded.directory,
            on_event=self._on_event,
        )
        if delete_workspace:
            self.directory.delete_sources()
        return TrialResult(bundle, self.directory)

    async def save_interrupted(self) -> None:
        """Somebody interrupts: what the agent has changed so far is kept too, if that takes no long time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_LOOK_S):
                await self._sandbox.freeze()
                await self._end_calls()
                await self._freeze()
                await self._close_way()
        self._files.save_metrics()
        self._files.save_results(complete=False, interrupted=True)

    async def _start(self) -> Snapshot:
        """How the tree is when the agent begins. What hooks did to it is not the agent's."""
        start = await self._repository.snapshot(self.directory.modified, self.directory.private / "start.git")
        if not self._plan.case.pre_execution:
            return start
        with self._phase("pre_execution"):
            await self._run_pre_execution()
            return await start.retake()

    async def _run_pre_execution(self) -> None:
        from youbencha.hooks import PreHookPlaces, run_pre_execution

        places = PreHookPlaces(
            workspace_dir=self.directory.modified,
            artifacts_dir=self.directory.artifacts,
            config_dir=self._plan.loaded.directory,
            test_case=self._plan.loaded.name,
            repo_url=self._repository.public_url,
            branch=self._repository.branch,
        )
        results = await run_pre_execution(self._plan.case.pre_execution, places, env=os.environ, on_note=self._note)
        self._record.pre_execution = results
        if results and results[-1].status == "failed":
            raise YouBenchaError(
                "PRE_EXECUTION_FAILED",
                f"A pre-execution hook failed, so the agent was not run: {results[-1].message}",
                hint=f"Its output is in {self.directory.artifacts / 'hooks'}",
            )

    async def _run_agent(self) -> None:
        plan, directory = self._plan, self.directory
        context = AgentExecutionContext(
            workspace_dir=directory.modified,
            repo_dir=directory.modified,
            artifacts_dir=directory.artifacts,
            config=plan.agent_config,
            timeout=plan.timeout_ms,
            env=plan.env,
            model=plan.model,
            config_dir=plan.loaded.directory,
            on_event=self._agent_event,
            gateway=self._way.access if self._way else None,
            sandbox=self._sandbox,
            scratch_dir=directory.scratch,
            stop=self._way.stop if self._way else None,
        )
        with self._phase("agent", plan.case.agent.type):
            directory.hand_over()
            try:
                result = await plan.adapter.execute(context)
            except YouBenchaError:
                directory.remove()  # nothing ran
                raise
            await self._sandbox.freeze()
            await self._end_calls()
            log = plan.adapter.normalize_log(result, context)
            if self._record.gateway is not None:
                log = self._reconciled(log, self._record.gateway)
            self._files.save_log(log)
            self._files.save_metrics()

    def _reconciled(self, log: YouBenchaLog, report: GatewayReport) -> YouBenchaLog:
        from youbencha.trial.gateway_report import reconciled, tokens_outside_gateway

        log, self._record.gateway = reconciled(log, report)
        if beyond := tokens_outside_gateway(self._record.gateway.difference):
            told = f"the agent says it used {beyond:,} tokens more than went through the gateway"
            self._warn("USAGE_UNACCOUNTED", f"{told}: if it is right, it has another way to a model, beside any budget")
        return log

    async def _end_calls(self) -> None:
        """The agent is gone: what it asked is answered or cut off, and its key opens nothing any more."""
        if self._way is None or self._record.gateway is not None:
            self._reclaim()
            return
        await self._way.end_agent()
        self._reclaim()
        self._record.gateway = self._way.report()
        for code, message in self._way.findings():
            self._warn(code, message)

    async def _close_way(self) -> None:
        if self._way is not None:
            for code, message in await self._way.close():
                self._warn(code, message)

    def _agent_event(self, event: Event) -> None:
        if isinstance(event, ProcessStarted) and self._record.executable is None:
            self._record.executable = event.executable
            self._digest.begin(event.executable)
        self._on_event(event)

    def _reclaim(self) -> None:
        """The agent's processes are gone. Nothing that it put beside its tree has a say in what follows."""
        if self._reclaimed:  # what is there by now is ours
            return
        self._reclaimed = True
        for fixed in self.directory.reclaim():
            self._warn("WORKSPACE_TAMPERED", fixed)

    async def _freeze(self) -> Changes | None:
        """What the agent left. It worked, and was paid for: what cannot be told now is a finding, not an abortion."""
        start, self._begun = self._begun, None
        if start is None:
            return None
        with self._phase("freeze"):
            self._reclaim()
            try:
                changes = await start.changes(self.directory.artifacts / DIFF_FILE)
            except (YouBenchaError, OSError) as error:
                self._record.failure = f"What the agent changed cannot be told: {error}"
                self._warn("CHANGES_UNKNOWN", self._record.failure)
                return None
            self._record.files.add(DIFF_FILE)
            if changes.left_out_of_patch:
                left_out = ", ".join(changes.left_out_of_patch[:10])
                self._warn("PATCH_INCOMPLETE", f"too large or too deep for the patch: {left_out}")
            self._record.executable_sha256 = await self._digest.finish()
            return changes

    async def _evaluate(self, changes: Changes | None) -> None:
        plan, directory = self._plan, self.directory
        with self._phase("evaluation"):
            expected_dir = None
            if self._expected is not None:
                # Not before: an agent could have read it.
                expected_dir = directory.expected
                await self._repository.write_tree(self._expected, expected_dir)
            evidence = Evidence(
                directory=directory.modified,
                expected_dir=expected_dir,
                changes=changes,
                log=self._record.log,
                agent=plan.case.agent,
                env=dict(plan.env),
                artifacts_dir=directory.artifacts,
                scratch_dir=directory.private / "scratch",
                agent_scratch_dir=directory.scratch,
                gateway_session=self._way,
                open_sandbox=sandbox_for_evaluators(plan, directory, self._way, self._on_event),
            )
            await evaluate_all(
                plan.loaded.evaluators, evidence, at_once=plan.max_concurrent, finished=self._evaluator_finished
            )

    def _evaluator_finished(self, place: int, result: EvaluationResult) -> None:
        self._record.evaluators[place] = result
        if len(self._record.evaluators) < self._record.expected_evaluators:
            self._files.save_results(complete=False)
        self._on_event(EvaluatorFinished(evaluator=result.evaluator, status=result.status, message=result.message))

    def _warn(self, code: str, message: str) -> None:
        self._record.warnings.append((code, message))
        self._on_event(WarningRaised(code=code, message=message))

    def _note(self, text: str) -> None:
        self._on_event(ProgressNote(text=text))

    @contextlib.contextmanager
    def _phase(self, name: str, detail: str = "") -> Iterator[None]:
        self._on_event(PhaseStarted(phase=name, detail=detail))
        started = time.monotonic()
        try:
            yield
        finally:
            self._record.phases_ms[name] = round((time.monotonic() - started) * 1000)


def _record(plan: Plan, ready: Prepared) -> RunRecord:
    agent, repository = plan.case.agent, ready.repository
    return RunRecord(
        run_id=ready.directory.path.name,
        workspace_dir=ready.directory.path,
        test_case=TestCaseInfo(
            name=plan.loaded.name,
            description=plan.case.description,
            config_file=str(plan.loaded.file),
            config_hash=plan.loaded.config_hash,
            repo=repository.public_url,
            branch=repository.branch,
            commit=repository.commit,
            expected_branch=plan.case.expected,
        ),
        expected_evaluators=len(plan.loaded.evaluators),
        started_at=ready.started_at,
        agent_type=agent.type,
        agent_name=agent.agent_name,
        agent_model=plan.model,
        sandbox=ready.sandbox.report(),
        phases_ms={"checkout": ready.checkout_ms},
    )


# One test case from its repository to its verdict.


async def run_test_case(plan: Plan, *, on_event: EventSink, delete_workspace: bool = False) -> TrialResult:
    """Run a plan to its end. What prevents a start raises, and leaves nothing behind; everything else is a result.

    A cancellation leaves a valid bundle of what was finished, marked as interrupted.
    """
    async with contextlib.AsyncExitStack() as opened:
        opened.callback(asyncio.create_task(load_ahead()).cancel)
        ready = await prepare(plan, on_event, opened)

        trial = Trial(plan, ready, on_event)
        with trial.directory:
            try:
                return await trial.run(delete_workspace=delete_workspace)
            except asyncio.CancelledError:
                await trial.save_interrupted()
                raise


# What a run needs only once its workspace is there, loaded while it waits for git and for its agent anyway.

_STEPS = (
    ("youbencha.log.model", ()),
    ("youbencha.log.results", ("SandboxReport", "TestCaseInfo", "Environment", "RunExecution", "AgentRun", "Summary")),
    ("youbencha.trial.run", ()),
    ("youbencha.log.results", ("Identity", "Hooks", "ArtifactManifest", "ResultsBundle")),
    ("youbencha.adapters.cli_agent.session", ("SessionFacts",)),
    ("youbencha.log.model", ("Execution", "AgentInfo", "ModelInfo", "Message", "YouBenchaLog")),
    ("youbencha.log.results", ("Artifact", "EvaluationResult", "Outcome")),
    ("youbencha.report.markdown", ()),
)
"""In the order in which they are needed: modules, and their models. To build what checks one takes a millisecond."""


async def load_ahead() -> None:
    """In small steps: what has come meanwhile is looked at after each. What is not done in time is done when needed."""
    for name, models in _STEPS:
        module = import_module(name)
        await asyncio.sleep(0)
        for model in models:
            getattr(module, model).model_rebuild()
            await asyncio.sleep(0)
