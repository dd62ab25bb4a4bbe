"""A node: runs one attempt in a process of its own, which has only a portable plan and a ticket."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.spec.settings import load_settings
from youbencha.trial.context import Host
from youbencha.trial.gateway_session import RemoteGateways, Ticket
from youbencha.trial.plan import Plan
from youbencha.trial.run import run_trial

PATIENCE_S = 120
Job = tuple[Plan, Ticket, Path]
"""The plan, the ticket, and the run directory on the node."""


async def start_node(job: Job, *, root: Path, env: Mapping[str, str]) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, __file__),
        cwd=root,
        env=dict(env),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(pickle.dumps(job))
    process.stdin.close()
    return process


async def ended(node: asyncio.subprocess.Process) -> str:
    """What a node prints: the code of the error, or `done`."""
    out, err = await asyncio.wait_for(node.communicate(), PATIENCE_S)
    assert node.returncode == 0, err.decode()
    return out.decode().strip()


async def _run(job: Job) -> str:
    plan, ticket, directory = job
    host = Host(os.environ, load_settings(Path.cwd(), Path.home()))
    host.gateways = RemoteGateways(ticket)
    try:
        await run_trial(plan, host, directory=directory)
    except YouBenchaError as error:
        return error.code
    return "done"


if __name__ == "__main__":
    print(asyncio.run(_run(pickle.load(sys.stdin.buffer))))
