"""All that a trial has before its agent begins: the tree, a place for its results, and a way to a model."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from youbencha.adapters import ChecksReadiness, UsesGateway
from youbencha.adapters.cli_agent.environment import fresh_home_for
from youbencha.errors import YouBenchaError
from youbencha.evaluators.base import EvaluatorSandbox, SandboxFactory
from youbencha.events import EventSink, PhaseStarted, ProgressNote, WorkspaceReady
from youbencha.gateway.api import GatewayAccess
from youbencha.sandbox.base import Sandbox
from youbencha.sandbox.local import HOST
from youbencha.spec.sandbox import Network
from youbencha.trial.plan import Plan
from youbencha.workspace import Repository, RunDirectory, open_repository, public_url
from youbencha.workspace.prune import clear_left_behind

if TYPE_CHECKING:
    from youbencha.trial.gateway_session import TrialGateway


_SOME_ACCESS = GatewayAccess("http://127.0.0.1:9", "sk-yb-not-yet")
"""In place of the real one, where it is only asked whether an agent would be content with it."""


class Prepared(NamedTuple):
    repository: Repository
    directory: RunDirectory
    expected: str | None
    """The commit that holds how it should be."""
    gateway_session: TrialGateway | None
    """None: the agent reaches its model by itself."""
    sandbox: Sandbox
    started_at: float
    checkout_ms: int


async def prepare(plan: Plan, on_event: EventSink, opened: AsyncExitStack) -> Prepared:
    """Leaves nothing behind if it fails. What runs then, `opened` ends."""
    ready = asyncio.create_task(_check_ready(plan))
    try:
        return await _prepared(plan, on_event, ready, opened)
    finally:
        ready.cancel()
        await asyncio.gather(ready, return_exceptions=True)  # what it found counts only if nothing else was wrong


async def _prepared(plan: Plan, on_event: EventSink, ready: asyncio.Task[None], opened: AsyncExitStack) -> Prepared:
    started_at = time.time()
    case, file = plan.case, plan.loaded.file
    on_event(PhaseStarted(phase="checkout", detail=public_url(case.repo)))
    repository = await open_repository(
        case.repo,
        base=file.parent,
        cache_dir=plan.cache_dir,
        branch=case.branch,
        commit=case.commit,
        progress=lambda text: on_event(ProgressNote(text=text)),
    )
    expected = None
    if case.expected is not None:
        expected = await repository.resolve(case.expected, source=case.expected_source or "branch")
    directory = RunDirectory.create(plan.workspace_dir, case.workspace_name, cache_dir=plan.cache_dir)
    try:
        await asyncio.to_thread(clear_left_behind, directory.path.parent, directory.private.parent)
        await repository.check_out(directory.modified)
        await ready
        sandbox = await opened.enter_async_context(opened_sandbox(plan, directory, on_event))
        gateway_session = await _open_way(plan, directory, sandbox, on_event, opened)
    except BaseException:
        directory.remove()
        raise
    on_event(WorkspaceReady(directory=str(directory.path), tree=str(directory.modified)))
    checkout_ms = round((time.time() - started_at) * 1000)
    return Prepared(repository, directory, expected, gateway_session, sandbox, started_at, checkout_ms)


async def _open_way(
    plan: Plan, directory: RunDirectory, sandbox: Sandbox, on_event: EventSink, opened: AsyncExitStack
) -> TrialGateway | None:
    if plan.gateway is None:
        return None
    from youbencha.trial.gateway_session import open_trial_gateway

    return await open_trial_gateway(plan.gateway, directory, plan.case.agent.type, sandbox, on_event, opened)


async def _check_ready(plan: Plan) -> None:
    """While the repository is being fetched: an agent that is not there, or not logged in, is told at once."""
    if plan.agent_is_in_image:
        return
    if isinstance(plan.adapter, ChecksReadiness):
        env = dict(plan.env)
        if plan.gateway is not None and isinstance(plan.adapter, UsesGateway):
            env |= plan.adapter.gateway_env(_SOME_ACCESS, plan.model, plan.env)
        await plan.adapter.check_ready(plan.agent_config, env)
    elif not await plan.adapter.check_availability():
        raise YouBenchaError(
            "AGENT_NOT_INSTALLED",
            f"The agent {plan.case.agent.type} is not installed.",
            hint=f"Try `yb agents install {plan.case.agent.type}`; `yb doctor` says what is there.",
        )


# The sandbox that a plan asks for: open from before the agent begins until the trial is over.


@asynccontextmanager
async def opened_sandbox(plan: Plan, directory: RunDirectory, on_event: EventSink) -> AsyncIterator[Sandbox]:
    if plan.sandbox.type == "docker":
        async with _container(plan, directory, on_event) as sandbox:
            yield sandbox
        return
    fresh = fresh_home_for(
        plan.adapter,
        plan.sandbox.home,
        harness_env=os.environ,
        agent_env=plan.env,
        behind_gateway=plan.gateway is not None,
    )
    if not fresh:
        yield HOST
        return
    from youbencha.sandbox.local import open_local_sandbox

    yield open_local_sandbox(scratch=directory.new_scratch())


@asynccontextmanager
async def _container(plan: Plan, directory: RunDirectory, on_event: EventSink) -> AsyncIterator[Sandbox]:
    from youbencha.sandbox.docker.ownership import reap_containers
    from youbencha.sandbox.docker.sandbox import open_docker_sandbox

    reaping = asyncio.create_task(reap_containers())
    try:
        async with open_docker_sandbox(
            plan.sandbox,
            workspace=directory.modified,
            scratch=directory.new_scratch(),
            run_id=directory.path.name,
            on_event=on_event,
        ) as sandbox:
            yield sandbox
    finally:
        reaping.cancel()
        await asyncio.gather(reaping, return_exceptions=True)  # what a dead harness left is no trouble of this run's


def sandbox_for_evaluators(
    plan: Plan, directory: RunDirectory, gateway_session: TrialGateway | None, on_event: EventSink
) -> SandboxFactory | None:
    """What runs an agent's code, or reads it with tools, is kept where the agent was kept. None: it runs here."""
    if plan.sandbox.type == "local":
        return None

    @asynccontextmanager
    async def opened(tree: Path, gateway: GatewayAccess | None = None) -> AsyncIterator[EvaluatorSandbox]:
        from youbencha.sandbox.docker.sandbox import open_docker_sandbox

        reached: Network = "open" if plan.sandbox.network == "open" else "gateway" if gateway else "none"
        async with open_docker_sandbox(
            plan.sandbox.model_copy(update={"network": reached}),
            workspace=tree,
            scratch=directory.new_scratch(),
            run_id=directory.path.name,
            on_event=on_event,
        ) as sandbox:
            yield EvaluatorSandbox(
                sandbox, await gateway_session.expose_in(sandbox, gateway) if gateway_session and gateway else None
            )

    return opened
