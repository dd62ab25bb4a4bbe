"""What a dead harness left is removed; what belongs to anybody else is not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from docker_boxes import Box

from youbencha.sandbox.docker import Reaped, labels, reap_containers
from youbencha.sandbox.docker.engine import Engine, connect
from youbencha.sandbox.docker.lobby import Lobby, remove_lobby


@pytest.fixture
def box(tmp_path: Path, engine: object, image: str) -> Box:
    return Box(tmp_path, image)


@pytest.fixture
async def client(box: Box) -> AsyncIterator[Engine]:
    async with connect() as client:
        yield client
        for each in await client.labelled(f"{labels.RUN}={box.run_id}"):
            await client.remove(each["Id"])


def dead_owner() -> labels.Owner:
    """A process that was there a moment ago."""
    me = labels.this_owner()
    script = "from youbencha.sandbox.docker.labels import this_owner; print(this_owner())"
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()
    owner = labels.Owner.parse(told)
    assert owner is not None
    assert owner.machine == me.machine
    return owner


async def test_only_what_the_dead_left(box: Box, client: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    here = f"computer-of-{box.run_id}"
    dead = dead_owner()._replace(machine=here)
    monkeypatch.setattr(labels, "_this_machine", lambda: here)  # for other tests that reap, this is another computer
    me = labels.this_owner()
    lobby = Lobby()
    owners = {
        "dead": str(dead),
        "same-number": str(me._replace(started="1")),
        "living": str(me),
        "other-computer": str(dead._replace(machine="another")),
        "nobodys": "no owner that anybody could read",
    }
    for name, owner in owners.items():
        worn = {**labels.labels(box.run_id, "s", lobby.path if name == "dead" else Path("/")), labels.OWNER: owner}
        await client.create(f"{box.run_id}-{name}", {"Image": box.image, "Cmd": ["true"], "Labels": worn})
    expected = {f"{box.run_id}-dead", f"{box.run_id}-same-number"}

    would = await reap_containers(dry_run=True)
    assert {name for name in would.names if name.startswith(box.run_id)} == expected
    assert len(await box.containers()) == 5

    reaped = await reap_containers()
    assert {name for name in reaped.names if name.startswith(box.run_id)} == expected
    assert reaped.failed == ()
    assert reaped.in_use >= 3
    left = {each["Names"][0].removeprefix(f"/{box.run_id}-") for each in await box.containers()}
    assert left == {"living", "other-computer", "nobodys"}
    assert not lobby.path.exists()


async def test_a_container_that_is_gone_is_gone(client: Engine) -> None:
    await client.remove("youbencha-no-such-container")
    assert await client.inspect("youbencha-no-such-container") is None


async def test_without_an_engine_there_is_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for host in ("unix:///nowhere/docker.sock", "tcp://127.0.0.1:2375"):
        monkeypatch.setenv("DOCKER_HOST", host)
        assert await reap_containers() == Reaped()


def test_labels_that_anybody_wrote_remove_nothing(tmp_path: Path) -> None:
    """A lobby is removed only if it is one."""
    for name in ("precious", "yb-lobby-link"):
        (tmp_path / "precious").mkdir(exist_ok=True)
        path = tmp_path / name
        if name.endswith("link"):
            path.symlink_to(tmp_path / "precious")
        remove_lobby(path)
        assert (tmp_path / "precious").is_dir()
    remove_lobby(Path(""))
    assert labels.Owner.parse("x/y/z") is None
    assert not labels.is_orphan({})


def test_a_lobby_has_short_paths_for_one_user_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import tempfile

    long = tmp_path / ("d" * 120)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    lobby = Lobby()
    try:
        door = lobby.door(65535)
        assert len(os.fsencode(door.socket)) <= 107
        assert lobby.path.stat().st_mode & 0o777 == 0o700
        assert list(long.iterdir()) == []
    finally:
        lobby.close()
    assert not lobby.path.exists()
