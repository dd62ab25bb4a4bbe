"""A cache that cannot be written: what only saves time is a warning, once; what cannot work without it is an error."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from faulty_provider import OWN, asks, faulty_provider, program_of
from run_bench import RunBench

from claude_bench import API_KEY
from small_disk import MIB, fill, small_disk
from yb import run_here

PLACES = {name: os.environ[name] for name in ("DOCKER_HOST",) if name in os.environ}
LARGE = "#" + "." * 1_100_000
"""The digest of a smaller program is not cached."""


@contextmanager
def unwritable(path: Path, how: str) -> Iterator[None]:
    """Put something that nobody can write to in the place of the cache: root may write to every directory."""
    if how == "a file":
        path.write_text("")
        yield
        return
    with small_disk(path, size=MIB):
        (path / "youbencha").mkdir()
        fill(path / "filler")
        yield


@pytest.mark.parametrize(
    ("how", "sandbox"), [("a file", "local"), ("a full disk", "local"), ("a file", "docker"), ("a full disk", "docker")]
)
async def test_a_run_goes_on_without_it(
    runs: RunBench, request: pytest.FixtureRequest, tmp_path: Path, how: str, sandbox: str
) -> None:
    """Without the table of prices and the digest of the agent, on the host; without two files for the container."""
    if sandbox == "docker":
        agent = runs.program("echo made > made.txt")
        more: dict[str, Any] = {"sandbox": {"type": "docker", "image": request.getfixturevalue("image")}}
    else:
        program = tmp_path / "agent"
        program.write_text(f"#!{sys.executable}\n{program_of([asks('ok')], 0)}\n{LARGE}\n")
        program.chmod(0o755)
        agent = {"type": "command", "model": OWN, "config": {"command": [str(program)], "prompt_by": "none"}}
        more = {"gateway": "builtin"}
    with unwritable(tmp_path / "cache", how):
        async with faulty_provider() as url:
            env = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": API_KEY, "XDG_CACHE_HOME": str(tmp_path / "cache")}
            done = await runs.run(agent, env={**PLACES, **env}, **more)
    assert done.done.code == 0, done.done.err
    assert done.bundle.agent is not None
    (warning,) = done.bundle.agent.warnings
    assert warning.code == "CACHE_NOT_WRITABLE"
    assert f": {tmp_path / 'cache' / 'youbencha'}. " in warning.message
    assert "`cache_dir`" in warning.message
    assert done.done.err.count("cannot be written") == 1
    if sandbox == "local":
        assert done.bundle.agent.gateway is not None
        assert (done.bundle.agent.gateway.requests, done.bundle.agent.gateway.failed) == (1, 0)
        assert done.bundle.identity is not None
        assert done.bundle.identity.agent_sha256 is not None


async def test_a_mirror_and_the_lock_of_a_loop_need_it(runs: RunBench, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    env = {**runs.env, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    runs.write_case(runs.program("true"), repo="https://127.0.0.1:9/somewhere.git")
    done = await runs.yb("run", "-c", str(runs.case_file), env=env)
    assert done.code == 2
    assert "[CACHE_NOT_WRITABLE] Cannot keep a mirror of the repository in " in done.err
    assert runs.runs() == []
    arguments = ("loop", "run", "-a", "-p", "Do it.", "-b", "claude")
    looped: subprocess.CompletedProcess[str] = await asyncio.to_thread(
        run_here, arguments, cwd=runs.repository, env=env
    )
    assert looped.returncode == 2
    assert "[CACHE_NOT_WRITABLE] Cannot keep the lock of a loop in " in looped.stderr
