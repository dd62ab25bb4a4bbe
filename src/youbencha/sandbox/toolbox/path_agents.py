"""The agents that the user has on PATH, beside the toolbox."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from youbencha.errors import YouBenchaError
from youbencha.process import find_executable
from youbencha.sandbox.toolbox.catalogue import AGENTS, Agent
from youbencha.sandbox.toolbox.installed import sha256_of
from youbencha.sandbox.toolbox.probe import version_of


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOnPath:
    agent: str
    version: str | None
    """None if it did not say."""
    executable: Path
    """As it was found; often a link."""
    sha256: str
    """Of the file behind it, and so is the size."""
    size_bytes: int


async def on_path() -> list[AgentOnPath]:
    """Each is started to hear its version, all at once: some need more than a second."""
    found = await asyncio.gather(*map(_find, AGENTS))
    return [agent for agent in found if agent]


async def _find(agent: Agent) -> AgentOnPath | None:
    executable = find_executable(agent.command, os.environ)
    if executable is None:
        return None
    real = executable.resolve()
    return AgentOnPath(
        agent=agent.name,
        version=await _version(executable),
        executable=executable,
        sha256=await asyncio.to_thread(sha256_of, real),
        size_bytes=real.stat().st_size,
    )


async def _version(executable: Path) -> str | None:
    with TemporaryDirectory(ignore_cleanup_errors=True) as home:
        try:
            return await version_of((str(executable),), Path(home))
        except YouBenchaError:
            return None
