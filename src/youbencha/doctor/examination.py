"""All checks at once, each with a deadline of its own: one program that hangs holds up nothing but its own line."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

from youbencha.doctor.agents import check_agent, examined_agents
from youbencha.doctor.finding import Diagnosis, Finding, Group
from youbencha.doctor.gateway import check_gateway
from youbencha.doctor.settings import check_settings
from youbencha.doctor.storage import check_storage
from youbencha.doctor.system import check_docker, check_git, check_node, check_python
from youbencha.errors import YouBenchaError

DEADLINE_S = 30.0
"""For each check. The first start of a large CLI from a cold disk was seen to take 15 s."""


async def examine(directory: Path, home: Path, env: Mapping[str, str], *, deadline_s: float = DEADLINE_S) -> Diagnosis:
    """Look at this computer as a run in `directory` would find it."""

    def begin(group: Group, name: str, check: Coroutine[Any, Any, Finding]) -> asyncio.Task[Finding]:
        return asyncio.create_task(_in_time(group, name, check, deadline_s))

    system = [
        begin("system", "git", check_git(env)),
        begin("system", "node", check_node(env)),
        begin("system", "docker", check_docker(env)),
    ]
    agents = [begin("agents", name, check_agent(name, env)) for name in examined_agents()]
    checked = check_settings(directory, home)
    storage = check_storage(checked.settings)
    return Diagnosis(
        (
            check_python(),
            *await asyncio.gather(*system),
            check_gateway(checked.settings, env),
            checked.finding,
            *storage,
            *await asyncio.gather(*agents),
        )
    )


async def _in_time(group: Group, name: str, check: Coroutine[Any, Any, Finding], deadline_s: float) -> Finding:
    try:
        async with asyncio.timeout(deadline_s):
            return await check
    except TimeoutError:
        detail = f"gave no answer within {deadline_s:g} s"
        fix = f"Start {name} by hand to see what it waits for; `yb doctor --timeout SECONDS` waits longer."
    except YouBenchaError as error:
        detail, fix = error.message, error.hint or ""
    except Exception as error:  # noqa: BLE001 (somebody else's adapter may raise anything: that is its own line)
        detail, fix = f"its check failed: {type(error).__name__}: {error}", ""
    return Finding(group=group, name=name, state="failed", detail=" ".join(detail.split()), fix=fix or None)
