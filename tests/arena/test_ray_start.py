"""The steps of docs/ray.md: a run on this machine, then a cluster that is started with `ray start`."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from arena_process import ArenaProject
from engine_bench import PATIENCE_S

RAY = Path(sysconfig.get_path("scripts")) / "ray"
STARTED = "Ray runtime started."


@pytest.fixture
def ray_temp() -> Iterator[Mapping[str, str]]:
    path = tempfile.mkdtemp(prefix="yb-ray-", dir="/tmp")  # Ray's sockets need a short path
    yield {"RAY_TMPDIR": path}
    shutil.rmtree(path, ignore_errors=True)


@contextmanager
def started(*arguments: str, env: Mapping[str, str]) -> Iterator[None]:
    """Run `ray start` until the end of the block."""
    command = (RAY, "start", *arguments, "--disable-usage-stats", "--block")
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    try:
        output = ""
        while STARTED not in output:
            line = process.stdout.readline()
            assert line, output
            output += line
        yield
    finally:
        for each in (*psutil.Process(process.pid).children(recursive=True), process):
            with suppress(psutil.NoSuchProcess):  # it has ended with another
                each.kill()
        process.communicate()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def home_of(root: Path, name: str) -> dict[str, str]:
    """Return the environment of a machine that has its own home directory."""
    (root / name).mkdir()
    return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(root / name)}


@pytest.mark.full
def test_a_cluster_after_a_run_on_this_machine(tmp_path: Path, ray_temp: Mapping[str, str]) -> None:
    project = ArenaProject(tmp_path, agents=1, tasks=1)
    project.more_env.update(ray_temp)
    done = project.run("--executor", "ray")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in Path(project.env["HOME"]).iterdir()] == ["cache"]

    head, node = ({**home_of(tmp_path, name), **ray_temp} for name in ("head", "node"))
    address = f"127.0.0.1:{free_port()}"
    with (
        started("--head", f"--port={address.rpartition(':')[2]}", "--num-cpus=0", env=head),
        started(f"--address={address}", "--num-cpus=1", env=node),
    ):
        done = project.run("--executor", "ray", "--address", address)
        assert done.returncode == 0, done.stderr
    assert list(Path(head["HOME"]).iterdir()) == []


@pytest.mark.full
def test_a_cluster_with_a_token(tmp_path: Path, ray_temp: Mapping[str, str]) -> None:
    head, node = ({**home_of(tmp_path, name), **ray_temp, "RAY_AUTH_MODE": "token"} for name in ("head", "node"))
    subprocess.run([RAY, "get-auth-token", "--generate"], env=head, check=True, timeout=PATIENCE_S)
    token = ".ray/auth_token"
    (Path(node["HOME"]) / ".ray").mkdir()
    shutil.copy(Path(head["HOME"], token), Path(node["HOME"], token))
    project = ArenaProject(tmp_path, agents=1, tasks=1)
    address = f"127.0.0.1:{free_port()}"
    with (
        started("--head", f"--port={address.rpartition(':')[2]}", "--num-cpus=0", env=head),
        started(f"--address={address}", "--num-cpus=1", env=node),
    ):
        done = project.run("--executor", "ray", "--address", address)
        assert done.returncode == 2
        assert "RAY_TOKEN_MISSING" in done.stderr
        project.more_env.update(HOME=head["HOME"])
        done = project.run("--executor", "ray", "--address", address)
        assert done.returncode == 0, done.stderr
