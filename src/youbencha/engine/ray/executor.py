"""Run attempts on a Ray cluster: the trial moves, while schedule, budgets, keys and results stay here."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import pickle
from collections.abc import AsyncIterator, Hashable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from youbencha import __version__
from youbencha.engine.attempt import NODE_LOST, AttemptLost, FinishedAttempt, OpensExecutor, TrialJob, run_attempt
from youbencha.engine.matrix import Cell, Matrix
from youbencha.engine.ray.cluster import Cluster
from youbencha.engine.ray.node import (
    AttemptFailure,
    AttemptOrder,
    EventBatch,
    FileBatch,
    NodeStarted,
    Shipment,
    run_on_node,
)
from youbencha.engine.ray.shipping import FilePart, PartsWriter, collect_files, make_portable_plan
from youbencha.errors import YouBenchaError
from youbencha.events import EventSink
from youbencha.files import write_atomically
from youbencha.log.model import as_json
from youbencha.report.markdown import render_markdown
from youbencha.report.run_document import run_document
from youbencha.spec.sandbox import SandboxSpec
from youbencha.store.bundle import ResultsBundle
from youbencha.store.layout import LEDGER_FILE, REPORT_FILE, RESULTS_FILE
from youbencha.store.read import load_results
from youbencha.text import format_count
from youbencha.trial.context import Host
from youbencha.trial.plan import Plan
from youbencha.trial.remote_gateways import lend
from youbencha.workspace.run_dir import ARTIFACTS

_CANCEL_S = 20.0
"""How long a cancelled attempt may take to end its agent, and to remove what it made on its node."""

_MAX_UNREAD_REPORTS = 16
"""A node waits while more of its reports than this are unread."""


def opens_ray_executor(cluster: Cluster, *, never_sent: Sequence[Path]) -> OpensExecutor:
    """Return the function that opens the executor of a run.

    `never_sent` are files and directories that must not leave this machine.
    """

    @asynccontextmanager
    async def opened(host: Host) -> AsyncIterator[RayExecutor]:
        yield RayExecutor(cluster, host, never_sent)

    return opened


def ray_resources(sandbox: SandboxSpec) -> dict[str, float]:
    """Return what a trial reserves on its node, in Ray's words."""
    memory = {"memory": sandbox.memory} if "memory" in sandbox.model_fields_set else {}
    return {"num_cpus": sandbox.cpus or 1.0, **memory}


def check_resources(matrix: Matrix, cluster: Cluster) -> None:
    """Raise if no node has what a trial needs: Ray would wait for one."""
    for cell in matrix.cells:
        needed = ray_resources(cell.plan.sandbox)
        cpus, memory = needed["num_cpus"], needed.get("memory", 0.0)
        if not any(node.cpus >= cpus and node.resources.get("memory", 0.0) >= memory for node in cluster.nodes):
            size = f" and {format_count(round(memory / 1024**2))} MiB" if memory else ""
            raise YouBenchaError(
                "RAY_TOO_SMALL",
                f"No node of the Ray cluster has {cpus:g} CPUs{size}, which {cell.orchestrator} needs on {cell.task}.",
                hint="Add such a node, or lower the task's `resources`.",
            )


class RayExecutor:
    """Runs each attempt as a task of Ray."""

    def __init__(self, cluster: Cluster, host: Host, never_sent: Sequence[Path]) -> None:
        self._ray = cluster.ray
        self._host = host
        self._never_sent = never_sent
        self._shipments: dict[tuple[str, str], tuple[Shipment, str]] = {}
        self._stored: dict[Hashable, Any] = {}
        self._shipping = asyncio.Lock()
        self._task = self._ray.remote(
            num_returns="streaming", max_retries=0, _generator_backpressure_num_objects=_MAX_UNREAD_REPORTS
        )(run_on_node)

    async def run_attempt(
        self, job: TrialJob, number: int, *, on_event: EventSink, keep_workspace: bool
    ) -> FinishedAttempt:
        async def run(directory: Path) -> ResultsBundle:
            shipment, repo = await self._ship(job.cell, directory)
            artifacts = directory / ARTIFACTS
            artifacts.mkdir(parents=True)
            run_id, agent = job.directory.attempt_id(number), job.key.orchestrator
            lending = lend(
                job.cell.plan, self._host, agent=agent, attempt=run_id, artifacts=artifacts, on_event=on_event
            )
            async with lending as ticket:
                order = AttemptOrder(run_id=run_id, agent=agent, ticket=ticket, keep_workspace=keep_workspace)
                task = self._task.options(**ray_resources(job.cell.plan.sandbox))
                stream = task.remote(__version__, shipment, order)
                await self._follow(stream, PartsWriter(directory), on_event)
            return await asyncio.to_thread(_load_sent_results, directory, repo)

        return await run_attempt(job, number, run)

    async def _ship(self, cell: Cell, near: Path) -> tuple[Shipment, str]:
        """Prepare, once, what the cell's attempts need on nodes. Returns it and the name of the repository."""
        place = (cell.orchestrator, cell.task)
        async with self._shipping:
            if place not in self._shipments:
                repository = await self._host.open_plan_repository(cell.plan, lambda _step, _detail="", /: None)
                portable_plan = make_portable_plan(cell.plan, repository, self._host.env)
                never = [*self._never_sent, *_secrets_file(cell.plan)]
                files = pickle.dumps(await asyncio.to_thread(collect_files, cell.plan, never))
                pack = None
                if portable_plan.commits and (pack := self._stored.get(portable_plan.commits)) is None:
                    pack = await self._store(portable_plan.commits, await repository.pack(portable_plan.commits, near))
                sent = await self._store(hashlib.sha256(files).digest(), files)
                self._shipments[place] = Shipment(pickle.dumps(portable_plan), sent, pack), portable_plan.repo
        return self._shipments[place]

    async def _store(self, key: Hashable, data: bytes) -> Any:
        """Put data into Ray's object store, once."""
        if key not in self._stored:
            self._stored[key] = await asyncio.to_thread(self._ray.put, data)
        return self._stored[key]

    async def _follow(self, stream: Any, writer: PartsWriter, on_event: EventSink) -> None:
        """Read the reports of an attempt to the end. Raises what it failed with."""
        node: str | None = None
        try:
            async for reference in stream:
                match await reference:
                    case NodeStarted(host, pid):
                        node = f"{host} (process {pid})"
                    case EventBatch(events):
                        for event in events:
                            on_event(event)
                    case FileBatch(parts):
                        await asyncio.to_thread(writer.write, _without_ledger(parts))
                    case AttemptFailure(code, message, hint):
                        raise YouBenchaError(code or "TRIAL_FAILED", f"On {node}: {message}", hint=hint)
        except asyncio.CancelledError:
            await self._cancel(stream, writer)
            raise
        except self._ray.exceptions.RayError as error:
            raise _describe_loss(self._ray.exceptions, error, node) from error

    async def _cancel(self, stream: Any, writer: PartsWriter) -> None:
        """Let the node end its agent and remove what it made, before this process disconnects."""
        self._ray.cancel(stream, force=False)
        with contextlib.suppress(TimeoutError, YouBenchaError, self._ray.exceptions.RayError):
            async with asyncio.timeout(_CANCEL_S):
                async for reference in stream:
                    match await reference:
                        case FileBatch(parts):
                            writer.write(_without_ledger(parts))


def _without_ledger(parts: Sequence[FilePart]) -> list[FilePart]:
    """Leave out the ledger: it is written here, and no node can replace it, however it writes the name."""
    return [part for part in parts if PurePosixPath(part.name) != PurePosixPath(ARTIFACTS, LEDGER_FILE)]


def _secrets_file(plan: Plan) -> list[Path]:
    file = plan.gateway.spec.secrets_file if plan.gateway else None
    return [plan.config_dir / Path(file).expanduser()] if file else []


def _describe_loss(kinds: Any, error: Exception, name: str | None) -> YouBenchaError:
    """Return the error for a Ray task that ended without results. `name` is that of its node, if it was started."""
    node = name or "a node"
    if isinstance(error, kinds.OutOfMemoryError):
        message = f"Ray ended the trial on {node}, because that node was running out of memory."
        return AttemptLost("RAY_OUT_OF_MEMORY", message, hint="Reserve more `memory` for the task.")
    if isinstance(error, kinds.NodeDiedError | kinds.ObjectLostError):
        message = f"The node {name} was lost." if name else "The node was lost before the trial began there."
        return AttemptLost(NODE_LOST, message)
    if isinstance(error, kinds.WorkerCrashedError):
        return AttemptLost("RAY_WORKER_LOST", f"The process of the trial on {node} was killed.")
    reason = str(error).strip().splitlines()[-1]  # of a traceback
    return YouBenchaError("RAY_FAILED", f"Ray could not run the trial on {node}: {reason}")


def _load_sent_results(directory: Path, repo: str) -> ResultsBundle:
    """Load results that a node sent, with the paths that they have here."""
    artifacts = directory / ARTIFACTS
    bundle = load_results(artifacts)
    execution = bundle.execution
    environment = execution.environment.model_copy(update={"workspace_dir": os.fspath(directory)})
    bundle = bundle.model_copy(
        update={
            "test_case": bundle.test_case.model_copy(update={"repo": repo}),
            "execution": execution.model_copy(update={"environment": environment}),
        }
    )
    write_atomically(artifacts / RESULTS_FILE, as_json(bundle).encode("utf-8", "replace"))
    write_atomically(artifacts / REPORT_FILE, render_markdown(run_document(bundle)).encode("utf-8", "replace"))
    return bundle
