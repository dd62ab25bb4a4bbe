"""Python, git, Node.js, Docker."""

from __future__ import annotations

import asyncio
import platform
import re
import sys
import tempfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from youbencha.doctor.finding import Finding, State
from youbencha.process import Command, Limits, find_executable, run

_OLDEST_PYTHON = (3, 11)
_OLDEST_GIT = (2, 25)
"""From there on, `git clone --filter` and partial checkouts do what we ask of them."""
_OLDEST_NODE = (20, 0)
_KEPT = ("PATH", "HOME", "SYSTEMROOT", "PATHEXT", "COMSPEC", "USERPROFILE", "DOCKER_HOST", "DOCKER_CONTEXT")
_NUMBERS = re.compile(r"(\d+)\.(\d+)(?:\.\d+)*")


def check_python() -> Finding:
    new_enough = sys.version_info >= _OLDEST_PYTHON
    return Finding(
        group="system",
        name="python",
        state="ok" if new_enough else "failed",
        detail=f"{platform.python_version()}  {sys.executable}",
        fix=None if new_enough else "Install Python 3.11 or newer, and youBencha with it.",
    )


async def check_git(env: Mapping[str, str]) -> Finding:
    fix = "Install git 2.25 or newer: https://git-scm.com/downloads"
    return await _check_program("git", env, _OLDEST_GIT, without="failed", fix=fix)


async def check_node(env: Mapping[str, str]) -> Finding:
    fix = "Only agents that come from npm need it: install Node.js 20 or newer."
    return await _check_program("node", env, _OLDEST_NODE, without="note", fix=fix)


async def check_docker(env: Mapping[str, str]) -> Finding:
    """Asked as a run would ask: of its socket, whether or not there is a `docker` to type."""
    from youbencha.errors import YouBenchaError
    from youbencha.sandbox.docker.engine import connect
    from youbencha.sandbox.docker.where import find_engine

    try:
        find_engine(env)
        await asyncio.to_thread(import_module, "aiodocker")  # takes half a second, and others have deadlines
        async with connect(env) as engine:
            detail = f"{engine.facts.name} {engine.facts.version}  {find_engine(env)}"
    except YouBenchaError as error:
        fix = f"Only runs with `sandbox: docker` need one. {error.hint or ''}".strip()
        return Finding(group="system", name="docker", state="note", detail=error.message, fix=fix)
    return Finding(group="system", name="docker", state="ok", detail=detail)


async def _check_program(
    name: str, env: Mapping[str, str], oldest: tuple[int, int], *, without: State, fix: str
) -> Finding:
    path = find_executable(name, env)
    if path is None:
        return Finding(group="system", name=name, state=without, detail="not on PATH", fix=fix)
    said = await _said(path, env, "--version")
    found = _NUMBERS.search(said or "")
    if found is None:
        detail = f"{path} does not say which version it is"
        return Finding(group="system", name=name, state=without, detail=detail, fix=fix)
    if (int(found[1]), int(found[2])) < oldest:
        detail = f"{found[0]} is too old  {path}"
        return Finding(group="system", name=name, state=without, detail=detail, fix=fix)
    return Finding(group="system", name=name, state="ok", detail=f"{found[0]}  {path}")


async def _said(program: Path, env: Mapping[str, str], *arguments: str) -> str | None:
    """What it prints; None if it fails. Who waits too long for it is the caller's business."""
    kept = {name: env[name] for name in _KEPT if name in env}
    lines: list[bytes] = []
    command = Command(argv=(str(program), *arguments), cwd=Path(tempfile.gettempdir()), env=kept)
    done = await run(command, limits=Limits(), on_line=lines.append)
    return b"\n".join(lines).decode(errors="replace").strip() if done.exit.code == 0 else None
