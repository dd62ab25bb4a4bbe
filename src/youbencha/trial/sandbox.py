"""The sandbox that a plan asks for: open from before the agent begins until the trial is over."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from youbencha.adapters.home import fresh_home_for
from youbencha.evaluators.base import OpensSandbox, Place
from youbencha.events import EventSink
from youbencha.gateway.access import GatewayAccess
from youbencha.sandbox.base import Sandbox
from youbencha.sandbox.here import HERE
from youbencha.spec.sandbox import Network
from youbencha.trial.plan import Plan
from youbencha.workspace import RunDirectory

if TYPE_CHECKING:
    from youbencha.trial.gateway.way import WayToModel


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
        yield HERE
        return
    from youbencha.sandbox.local import open_local_sandbox

    yield open_local_sandbox(scratch=directory.new_scratch())


@asynccontextmanager
async def _container(plan: Plan, directory: RunDirectory, on_event: EventSink) -> AsyncIterator[Sandbox]:
    from youbencha.sandbox.docker import open_docker_sandbox, reap_containers

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
    plan: Plan, directory: RunDirectory, way: WayToModel | None, on_event: EventSink
) -> OpensSandbox | None:
    """What runs an agent's code, or reads it with tools, is kept where the agent was kept. None: it runs here."""
    if plan.sandbox.type == "local":
        return None

    @asynccontextmanager
    async def opened(tree: Path, gateway: GatewayAccess | None = None) -> AsyncIterator[Place]:
        from youbencha.sandbox.docker import open_docker_sandbox

        reached: Network = "open" if plan.sandbox.network == "open" else "gateway" if gateway else "none"
        async with open_docker_sandbox(
            plan.sandbox.model_copy(update={"network": reached}),
            workspace=tree,
            scratch=directory.new_scratch(),
            run_id=directory.path.name,
            on_event=on_event,
        ) as sandbox:
            yield Place(sandbox, await way.let_in(sandbox, gateway) if way and gateway else None)

    return opened
