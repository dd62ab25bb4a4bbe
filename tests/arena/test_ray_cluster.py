"""Ray clusters that cannot be used, and what is sent to nodes and back."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from arena_bench import ArenaBench, changed
from arena_process import ArenaProject
from engine_bench import EngineBench
from ray_bench import RayBench

from youbencha import __version__
from youbencha.engine.matrix import Matrix
from youbencha.engine.ray import cluster, shipping
from youbencha.engine.ray.cluster import Cluster, Node, connect
from youbencha.engine.ray.executor import _without_ledger, check_resources
from youbencha.engine.ray.node import node_environment
from youbencha.engine.ray.shipping import (
    FilePart,
    PartsWriter,
    batches,
    check_files,
    collect_files,
    make_portable_plan,
    read_agent_files,
    read_user_files,
    unpack_plan,
)
from youbencha.errors import YouBenchaError
from youbencha.workspace import open_repository
from youbencha.workspace.trees import remove_tree


async def refused(address: str | None, env: Mapping[str, str] | None = None) -> YouBenchaError:
    with pytest.raises(YouBenchaError) as raised:
        async with connect(address, env or {}):
            pass
    return raised.value


@pytest.mark.parametrize(
    ("address", "code"),
    [
        ("127.0.0.1:1", "RAY_UNREACHABLE"),
        ("192.0.2.77:6379", "RAY_UNREACHABLE"),
        ("no-such-host.invalid:6379", "RAY_UNREACHABLE"),
        ("ray://127.0.0.1:10001", "RAY_CLIENT_UNSUPPORTED"),
        ("somewhere", "OPTION_INVALID"),
    ],
)
async def test_a_cluster_that_cannot_be_reached(address: str, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_DEADLINE_S", 1.0)
    began = time.monotonic()
    error = await refused(address)
    assert error.code == code
    assert address in error.message
    assert error.hint
    assert time.monotonic() - began < 15


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="silent"),
        pytest.param(b"SSH-2.0-OpenSSH_9.6\r\n", id="another protocol"),
        pytest.param(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", id="web server"),
    ],
)
async def test_another_server_at_the_address(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await reader.read()
        writer.close()

    monkeypatch.setattr(cluster, "_DEADLINE_S", 0.5)
    began = time.monotonic()
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        error = await refused(f"{host}:{port}")
    assert error.code == "RAY_UNREACHABLE"
    assert f"The server at {host}:{port} is not the head of a Ray cluster" in error.message
    assert time.monotonic() - began < 8


async def test_a_token_is_found_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cluster.find_token({}) is None
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray/auth_token").write_text("from home\n")
    (tmp_path / "named").write_text("named\n")
    assert cluster.find_token({}) == "from home"
    assert cluster.find_token({"RAY_AUTH_TOKEN_PATH": "~/named"}) == "named"
    assert cluster.find_token({"RAY_AUTH_TOKEN": "set", "RAY_AUTH_TOKEN_PATH": "~/named"}) == "set"


async def test_ray_on_this_machine_writes_nothing_to_the_home_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray makes its token before it starts, and here it cannot start."""
    (home := tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("RAY_TMPDIR", "/dev/null")
    error = await refused(None)
    assert error.code == "RAY_UNREACHABLE"
    assert "Cannot connect to Ray on this machine" in error.message
    assert list(home.iterdir()) == []
    assert "RAY_AUTH_TOKEN" not in os.environ


async def test_ray_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    error = await refused(None)
    assert (error.code, error.hint) == ("RAY_NOT_INSTALLED", "Install it: `pip install 'youbencha[ray]'`.")


def test_an_address_needs_ray(tmp_path: Path) -> None:
    done = ArenaProject(tmp_path).run("--address", "127.0.0.1:6379")
    assert done.returncode == 2
    assert "Add --executor ray." in done.stderr


def test_no_node_is_large_enough(tmp_path: Path) -> None:
    bench = EngineBench(tmp_path)
    cell = bench.cell(bench.host(), "agent", "task", sandbox={"type": "docker", "cpus": 4, "memory": "8g"})
    small = Node("1", "small", {"CPU": 8.0, "memory": 4 * 1024.0**3})
    narrow = Node("2", "narrow", {"CPU": 2.0, "memory": 64 * 1024.0**3})
    with pytest.raises(YouBenchaError, match="No node of the Ray cluster has 4 CPUs and 8,192 MiB, which agent needs"):
        check_resources(Matrix(cells=(cell,), trials=1), Cluster(None, (small, narrow), "here"))
    large = small._replace(resources={"CPU": 4.0, "memory": 8 * 1024.0**3})
    check_resources(Matrix(cells=(cell,), trials=1), Cluster(None, (small, large), "here"))


@pytest.mark.full
async def test_versions_differ(cluster: RayBench, tmp_path: Path) -> None:
    (tmp_path / "youbencha").mkdir()
    (tmp_path / "youbencha" / "__init__.py").write_text("__version__ = '0.0.1'\n")
    node = cluster.add_node(env={"PYTHONPATH": str(tmp_path)})
    try:
        error = await refused(cluster.address, cluster.token)
    finally:
        cluster.cluster.remove_node(node)
    assert error.code == "RAY_VERSION_MISMATCH"
    assert f"All nodes need youBencha {__version__}, like this machine: {os.uname().nodename} has 0.0.1." in str(error)


async def test_a_repository_travels_without_its_history(arenas: ArenaBench, tmp_path: Path) -> None:
    repository = arenas.repository("repos/fix")
    cell = await asyncio.to_thread(arenas.cell, changed("tasks", 0, "validation_tag", "v1-validation"))
    host = arenas.host()
    source = await host.open_plan_repository(cell.plan, lambda _step, _detail="", /: None)
    portable_plan = make_portable_plan(cell.plan, source, host.env)
    pack = await source.pack(portable_plan.commits, tmp_path / "near")
    plan = await unpack_plan(portable_plan, (), lambda: pack, tmp_path / "node", tmp_path / "cache")
    assert str(arenas.root / "repos") not in plan.case.repo
    opened = await open_repository(plan.case.repo, base=plan.config_dir, branch="v1", commit=plan.case.commit)
    await opened.check_out(tmp_path / "tree")
    assert (tmp_path / "tree" / "v1.txt").read_text() == "v1"
    validation = await opened.find(plan.evaluators[0].config["validation_tag"])
    await opened.write_tree(validation, tmp_path / "validation")
    assert (tmp_path / "validation" / "v1-validation.txt").is_file()
    with pytest.raises(YouBenchaError, match="has no commit"):
        await opened.find(arenas.git(repository, "rev-parse", "v1-solution"))
    assert plan.gateway is not None
    assert not plan.gateway.upstreams
    assert "sk-ant" not in repr((plan.env, plan.gateway.secrets, portable_plan.env))


def test_a_node_keeps_its_keys_from_agents() -> None:
    env = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k", "RAY_JOB_ID": "1", "PATH": "/bin"}
    assert node_environment(env) == {"PATH": "/bin"}


def test_files_of_an_agent_arrive_without_links(tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    (there / "deep").mkdir(parents=True)
    here.mkdir()
    (there / "deep" / "large").write_bytes(large := os.urandom(2_500_000))
    (there / "empty").touch()
    (there / "program").write_text("#!/bin/sh\n")
    (there / "program").chmod(0o4755)
    (there / "link").symlink_to("/etc/passwd")
    os.mkfifo(there / "pipe")
    above = os.open(there, os.O_RDONLY)
    for _ in range(20):  # no path of it can be opened
        os.mkdir("d" * 250, dir_fd=above)
        below = os.open("d" * 250, os.O_RDONLY, dir_fd=above)
        os.close(above)
        above = below
    os.close(above)
    writer = PartsWriter(here)
    for batch in batches(read_agent_files(there)):
        writer.write(batch)
    assert sorted(file.name for file in here.rglob("*")) == ["deep", "empty", "large", "program"]
    remove_tree(there)
    assert (here / "deep" / "large").read_bytes() == large
    assert (here / "program").stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize(
    "name", ["../out", "/tmp/out", "a/../../out", "C:\\out", "a\0b", pytest.param("a/" * 3000, id="long")]
)
def test_a_hostile_node_writes_nowhere_else(tmp_path: Path, name: str) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(YouBenchaError) as caught:
        PartsWriter(tmp_path / "in").write([FilePart(name, b"x")])
    assert caught.value.code == "FILES_HOSTILE"
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "in"]


def test_a_hostile_node_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link").symlink_to(tmp_path)
    with pytest.raises(OSError, match="is a link"):
        PartsWriter(tmp_path / "in").write([FilePart("link/out", b"x")])


def test_a_hostile_node_sends_no_more_than_allowed(tmp_path: Path) -> None:
    for writer in (PartsWriter(tmp_path, max_bytes=10), PartsWriter(tmp_path, max_files=1)):
        with pytest.raises(YouBenchaError, match="A trial's files exceed"):
            writer.write([FilePart("a", b"123456"), FilePart("b", b"123456", first=False)])


def test_an_agent_cannot_prevent_its_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by files that are too large, nor by too many."""
    for name, size in {
        "artifacts/results.json": 50,
        "artifacts/log": 20,
        "kept/a": 10,
        "artifacts/large": 10**12,
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
        os.truncate(tmp_path / name, size)
    monkeypatch.setattr(shipping, "MAX_BYTES", 100)
    assert [part.name for part in read_agent_files(tmp_path)] == ["artifacts/results.json", "artifacts/log", "kept/a"]
    monkeypatch.setattr(shipping, "MAX_FILES", 2)
    assert [part.name for part in read_agent_files(tmp_path)] == ["artifacts/results.json"]


@pytest.mark.parametrize("name", ["artifacts/gateway-ledger.jsonl", "artifacts//./gateway-ledger.jsonl"])
def test_a_hostile_node_does_not_replace_the_ledger(name: str) -> None:
    kept = FilePart("artifacts/results.json", b"x")
    assert _without_ledger([FilePart(name, b"x"), kept]) == [kept]


def test_links_in_a_circle_are_followed_once(tmp_path: Path) -> None:
    (tmp_path / "tools/below").mkdir(parents=True)
    (tmp_path / "tools/a.py").touch()
    for number in range(3):
        (tmp_path / f"tools/below/{number}").symlink_to("..")
    assert [part.name for part in read_user_files(tmp_path, ["tools"])] == ["tools/a.py"]


def test_only_files_that_the_plan_names_are_sent(tmp_path: Path) -> None:
    bench = EngineBench(tmp_path)
    named = ("laid/over/one.md", "rooms/.rc", "prompts/task.md", "tools/a.py", "tools/b.py", "tools/secrets.env")
    for name in (*named, "other.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    config = {"command": ["python3", "{config_dir}/tools/a.py"], "prompt_file": "prompts/task.md"}
    agent = {"type": "command", "config": config, "files": "laid/../laid", "home": "rooms"}
    plan = bench.cell(bench.host(), "agent", "task", agent=agent).plan
    sent = collect_files(plan, [tmp_path / "tools/secrets.env"])
    assert {part.name: part.data.decode() for part in sent} == {
        name: name for name in named if name != "tools/secrets.env"
    }
    check_files(plan)
    for outside in ("../laid", str(tmp_path.parent), "laid/../../laid"):
        case = plan.case.model_copy(update={"agent": plan.case.agent.model_copy(update={"files": outside})})
        with pytest.raises(YouBenchaError, match=r"files: .* cannot be sent to nodes"):
            check_files(replace(plan, case=case))
