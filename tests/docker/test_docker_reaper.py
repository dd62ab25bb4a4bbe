"""Containers of a dead harness are removed; those of others are not."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import aiodocker
import pytest
from docker_boxes import PATIENCE_S, Box, until

from youbencha.process import Limits
from youbencha.sandbox.docker import ownership
from youbencha.sandbox.docker.channel import SocketDir
from youbencha.sandbox.docker.engine import Engine, connect
from youbencha.sandbox.docker.ownership import ReapResult, reap_containers, remove_socket_dir


@pytest.fixture
def box(tmp_path: Path, engine: object, image: str) -> Box:
    return Box(tmp_path, image)


@pytest.fixture
async def client(box: Box) -> AsyncIterator[Engine]:
    async with connect() as client:
        yield client
        for each in await client.labelled(f"{ownership.RUN}={box.run_id}"):
            await client.remove(each["Id"])


@pytest.fixture
async def user(engine: object) -> AsyncIterator[aiodocker.Docker]:
    """Someone else who uses the engine."""
    async with aiodocker.Docker() as docker:
        yield docker


def dead_owner() -> ownership.Owner:
    """A process that was there a moment ago."""
    script = "from youbencha.sandbox.docker.ownership import this_owner; print(this_owner())"
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()
    owner = ownership.Owner.parse(printed)
    assert owner is not None
    me = ownership.this_owner()
    assert (owner.boot, owner.namespace) == (me.boot, me.namespace)
    return owner


@pytest.fixture
def elsewhere(box: Box, monkeypatch: pytest.MonkeyPatch) -> str:
    """A process namespace of this test, so that what it makes is not abandoned for others that reap meanwhile."""
    namespace = f"pid:[{box.run_id}]"
    me = replace(ownership.this_owner(), namespace=namespace)
    monkeypatch.setattr(ownership, "this_owner", lambda: me)
    return namespace


async def test_only_containers_of_dead_runs_are_removed(box: Box, client: Engine, elsewhere: str) -> None:
    dead, me = dead_owner_elsewhere(elsewhere), ownership.this_owner()
    socket_dir = SocketDir()
    owners = {
        "dead": str(dead),
        "of-an-older-version": f"machine/{dead}",
        "same-number": str(replace(me, started="1")),
        "living": str(me),
        "other-namespace": str(replace(dead, namespace="pid:[2]")),
        "unreadable": "not an owner",
    }
    sandbox = f"youbencha-{os.urandom(6).hex()}"
    names = {kind: f"{sandbox}-{number}" for number, kind in enumerate(owners, start=1)}
    for kind, owner in owners.items():
        container_labels = {
            **ownership.labels(box.run_id, sandbox, socket_dir.path if kind == "dead" else Path("/")),
            ownership.OWNER: owner,
        }
        await client.create(names[kind], {"Image": box.image, "Cmd": ["true"], "Labels": container_labels})
    expected = {names[kind] for kind in ("dead", "of-an-older-version", "same-number")}

    would = await reap_containers(dry_run=True)
    assert {name for name in would.names if name.startswith(sandbox)} == expected
    assert len(await box.containers()) == len(owners)
    assert socket_dir.path.exists()

    reaped = await reap_containers()
    assert {name for name in reaped.names if name.startswith(sandbox)} == expected
    assert reaped.failed == ()
    assert reaped.in_use >= 3
    assert await names_left(box) == {names[kind] for kind in ("living", "other-namespace", "unreadable")}
    assert not socket_dir.path.exists()


def dead_owner_elsewhere(namespace: str) -> ownership.Owner:
    return ownership.Owner(ownership.this_owner().boot, namespace, 2**22 + 1, "1")


def test_after_a_restart_only_a_running_container_has_a_living_owner() -> None:
    """A restart stops all containers: one that runs belongs to another host that shares the engine."""
    earlier = replace(ownership.this_owner(), boot="earlier")
    assert earlier.has_left("exited")
    assert earlier.has_left("created")
    assert not earlier.has_left("running")


async def test_what_a_user_made_of_a_container_of_ours_is_kept(
    box: Box, client: Engine, user: aiodocker.Docker, elsewhere: str
) -> None:
    """`docker commit` gives our labels to an image, and to all containers of it."""
    sandbox, copy = f"youbencha-{os.urandom(6).hex()}", f"{box.run_id}-copy"
    dead = dead_owner_elsewhere(elsewhere)
    labels = {**ownership.labels(box.run_id, sandbox, Path("/")), ownership.OWNER: str(dead)}
    own = f"{sandbox}-1"
    await client.create(own, {"Image": box.image, "Cmd": ["true"], "Labels": labels})
    await user.containers.container(own).commit(repository=copy)
    users = {copy, f"youbencha-{os.urandom(6).hex()}-1", f"{box.run_id}-theirs"}
    for name in users:
        await user.containers.create({"Image": copy, "Cmd": ["true"]}, name=name)
    network = await user.networks.create({"Name": copy, "Labels": labels})
    volume = await user.volumes.create({"Name": copy, "Labels": labels})
    try:
        assert [name for name in (await reap_containers()).names if name.startswith(sandbox)] == [own]
        assert await names_left(box) == users
        assert (await network.show())["Name"] == (await volume.show())["Name"] == copy
    finally:
        for name in await names_left(box):
            await client.remove(name)
        await network.delete()
        await volume.delete()
        await user.images.delete(copy)


async def test_freezing_a_sandbox_keeps_what_a_user_made_of_it(box: Box, user: aiodocker.Docker) -> None:
    copy = f"{box.run_id}-copy"
    async with box.open() as sandbox:
        running = asyncio.create_task(sandbox.run(box.command("sleep", "60"), limits=Limits(timeout_s=PATIENCE_S)))
        await until(lambda: is_running(box))
        (own,) = await names_left(box)
        await user.containers.container(own).commit(repository=copy)
        await user.containers.create({"Image": copy, "Cmd": ["true"]}, name=copy)
        await sandbox.freeze()
        await running
    try:
        assert await names_left(box) == {copy}
    finally:
        await user.containers.container(copy).delete()
        await user.images.delete(copy)


async def is_running(box: Box) -> bool:
    return [each["State"] for each in await box.containers()] == ["running"]


async def names_left(box: Box) -> set[str]:
    return {each["Names"][0].removeprefix("/") for each in await box.containers()}


async def test_removing_a_missing_container_is_not_an_error(client: Engine) -> None:
    await client.remove("youbencha-no-such-container")
    assert await client.inspect("youbencha-no-such-container") is None


async def test_without_an_engine_there_is_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for host in ("unix:///nowhere/docker.sock", "tcp://127.0.0.1:2375"):
        monkeypatch.setenv("DOCKER_HOST", host)
        assert await reap_containers() == ReapResult()


def test_labels_of_other_programs_are_not_trusted(tmp_path: Path) -> None:
    """A socket directory is removed only if it is one."""
    for name in ("precious", "yb-sock-link"):
        (tmp_path / "precious").mkdir(exist_ok=True)
        path = tmp_path / name
        if name.endswith("link"):
            path.symlink_to(tmp_path / "precious")
        remove_socket_dir(path)
        assert (tmp_path / "precious").is_dir()
    remove_socket_dir(Path(""))
    assert ownership.Owner.parse("x/y/z") is None
    assert ownership.Owner.parse("boot/space/12/") is None


async def test_socket_directories_of_dead_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Killed between two containers: no label leads there. What is not certainly such a one stays."""
    import tempfile

    (tmp_path / "elsewhere").mkdir()
    short = tempfile.mkdtemp(prefix="yb-t-", dir="/tmp")
    monkeypatch.setattr(tempfile, "tempdir", short)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    try:
        living, dead, odd, ownerless = SocketDir(), SocketDir(), SocketDir(), SocketDir()
        (dead.path / "owner").write_text(str(dead_owner()))
        (odd.path / "owner").unlink()
        written = tmp_path / "elsewhere" / "owner"
        written.write_text(str(dead_owner()))
        (odd.path / "owner").symlink_to(written)
        (ownerless.path / "owner").unlink()
        link = Path(short, "yb-sock-link")
        link.symlink_to(tmp_path / "elsewhere")
        await reap_containers(dry_run=True)
        assert dead.path.exists()
        await reap_containers()
        assert set(Path(short).iterdir()) == {living.path, odd.path, ownerless.path, link}
        assert written.exists()
    finally:
        shutil.rmtree(short)


def test_a_socket_directory_has_short_paths_and_is_private(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import tempfile

    long = tmp_path / ("d" * 120)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    socket_dir = SocketDir()
    try:
        forwarded = socket_dir.forward_port(65535)
        assert len(os.fsencode(forwarded.socket)) <= 107
        assert socket_dir.path.stat().st_mode & 0o777 == 0o700
        assert list(long.iterdir()) == []
    finally:
        socket_dir.close()
    assert not socket_dir.path.exists()
