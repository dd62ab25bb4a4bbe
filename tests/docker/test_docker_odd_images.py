"""Images made for other purposes: with volumes, without a C library, without users, with an invalid name."""

from __future__ import annotations

import os
import shutil
from pathlib import Path, PurePosixPath

import pytest
from docker_boxes import PATIENCE_S, Box, image_of

from youbencha.errors import YouBenchaError
from youbencha.process import LimitHit, Limits, ProcessStartError
from youbencha.sandbox.docker import ownership
from youbencha.sandbox.docker.container import Container, died_at_once, without_loader
from youbencha.sandbox.docker.engine import User, connect
from youbencha.sandbox.docker.image import account_mounts, ensure_image, read_volumes
from youbencha.sandbox.docker.mounts import Mounts

LIMITS = Limits(timeout_s=PATIENCE_S)
VOLUMES = """
RUN mkdir -p /data/deep /home/agent/.cache && echo kept > /data/deep/file && chmod -R 777 /data /home
VOLUME /data /workspace /tmp /home /home/agent /home/agent/.cache /home/other
"""


@pytest.fixture
def box(tmp_path: Path, engine: object, image: str) -> Box:
    return Box(tmp_path, image)


async def test_volumes_of_an_image_count_towards_the_disk_limit(box: Box) -> None:
    places = ("/data", "/data/deep", "/workspace", "/tmp", "/home", "/home/agent", "/home/agent/.cache", "/home/other")
    look = "cat /data/deep/file; for path; do if echo x 2>/dev/null > $path/x; then echo $path; fi; done 2>/dev/null"
    fill = "while head -c 8000000 /dev/zero >> /home/agent/.cache/big; do :; done"
    async with image_of(f"FROM {box.image}{VOLUMES}") as box.image, box.open(disk="48m") as sandbox:
        done = await sandbox.run(box.command("sh", "-c", look, "sh", *places), limits=LIMITS)
        assert done.output.splitlines() == ["kept", *places[2:]], "what the image has there is seen, as read-only as it"
        for path in places[2:]:
            outside = sandbox.outside(f"{path}/x")
            assert outside is not None
            assert outside.read_text() == "x\n", "and all that was written is in a directory of the harness"
        again = await sandbox.run(box.command("cat", "/home/agent/.cache/x", "/home/agent/x"), limits=LIMITS)
        assert again.output == "x\nx\n"
        full = await sandbox.run(box.command("sh", "-c", fill), limits=LIMITS)
        assert full.exit.limit_hit == LimitHit("disk", "48 MiB")


async def test_a_volume_above_something_that_is_shared(box: Box, tmp_path: Path) -> None:
    tools = tmp_path / "deep" / "tools"
    tools.mkdir(parents=True)
    (tools / "file").write_text("tool\n")
    async with image_of(f"FROM {box.image}\nVOLUME {tmp_path / 'deep'}\n") as box.image, box.open() as sandbox:
        sandbox.share(tools)
        done = await sandbox.run(box.command("cat", f"{tools}/file"), limits=LIMITS)
    assert done.output == "tool\n"


async def test_a_volume_without_a_mount_point_in_another(box: Box) -> None:
    async with image_of(f"FROM {box.image}\nVOLUME /data /data/inner\n") as box.image, box.open() as sandbox:
        with pytest.raises(YouBenchaError) as refused:
            await sandbox.run(box.command("true"), limits=LIMITS)
    assert "VOLUME within another VOLUME" in (refused.value.hint or "")


def test_volumes_that_would_hide_the_workspace() -> None:
    forbidden = [PurePosixPath("/workspace")]
    assert read_volumes("image", ["b", "/workspace/", "/a/./x", "//a"], forbidden) == [
        PurePosixPath(name) for name in ("/a", "/a/x", "/b", "/workspace")
    ]
    with pytest.raises(YouBenchaError, match="would hide a part of /workspace") as refused:
        read_volumes("image", ["/workspace/data"], forbidden)
    assert refused.value.code == "SANDBOX_IMAGE_UNUSABLE"


def test_every_overlapping_volume_is_covered_once(tmp_path: Path) -> None:
    volumes = [PurePosixPath(name) for name in ("/data", "/home", "/home/other", "/tmp", "/tmp/x", "/workspace")]
    mounts = Mounts(tmp_path / "tree", tmp_path / "home", tmp_path / "tmp", volumes)
    covered = [str(mount.inside) for mount in mounts.all()]
    assert sorted(covered) == ["/home", "/home/agent", "/home/other", "/tmp", "/tmp/x", "/workspace"]


async def test_an_image_without_the_c_library_that_a_program_needs(box: Box, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    program = Path(shutil.copy(shutil.which("true") or "", tools / "claude"))
    script = tools / "script"
    script.write_text("#! /no/such/interpreter -x\n")
    script.chmod(0o755)
    async with image_of("FROM scratch\nCOPY file /file\n", file=b"x") as box.image, box.open() as sandbox:
        sandbox.share(tools)
        for argv in ([str(program)], ["claude"]):
            with pytest.raises(ProcessStartError, match="the image has no glibc") as refused:
                await sandbox.run(box.command(*argv, PATH=str(tools)), limits=LIMITS)
            assert "/ld-linux" in refused.value.message
            assert "image with glibc" in (refused.value.hint or "")
        with pytest.raises(ProcessStartError, match="its interpreter /no/such/interpreter is not in the image"):
            await sandbox.run(box.command(str(script)), limits=LIMITS)
        with pytest.raises(ProcessStartError, match="No such file or directory"):
            await sandbox.run(box.command(str(tools / "not-there")), limits=LIMITS)
    assert "no musl" in without_loader("x", "/lib/ld-musl-x86_64.so.1")[0]


async def test_an_image_without_users(box: Box, tmp_path: Path) -> None:
    async with image_of("FROM scratch\nCOPY file /file\n", file=b"x") as tag, connect() as engine:
        image = (await ensure_image(engine, tag, print)).id
        labels = ownership.labels(box.run_id, "none", tmp_path)
        mounts = await account_mounts(engine, image, User(54321, 54322), labels, cache_dir=tmp_path / "cache")
        texts = {str(mount.inside): mount.outside.read_text().splitlines() for mount in mounts}
        assert [line.split(":")[:3] for line in texts["/etc/passwd"]] == [["root", "x", "0"], ["agent", "x", "54321"]]
        assert [line.split(":")[:3] for line in texts["/etc/group"]] == [["root", "x", "0"], ["agent", "x", "54322"]]


@pytest.mark.parametrize("name", ["Bad Image!!", "UPPER/case"])
async def test_an_invalid_image_name(box: Box, name: str) -> None:
    box.image = name
    with pytest.raises(YouBenchaError) as refused:
        await box.run("true")
    assert refused.value.code in ("SANDBOX_IMAGE_INVALID", "SANDBOX_IMAGE_NOT_FOUND")  # Podman tries to fetch it
    assert name in refused.value.message
    assert "name" in (refused.value.hint or "").lower()


async def test_why_a_container_ended_at_once(box: Box, tmp_path: Path) -> None:
    settings = {
        "Image": box.image,
        "Cmd": ["sh", "-c", "exit 3"],
        "Labels": ownership.labels(box.run_id, "none", tmp_path),
    }
    async with connect() as engine:
        container = Container(engine, box.run_id)
        try:
            await container.start(settings)
            error = died_at_once(await container.state_when_stopped())
        finally:
            await container.removed()
    assert error.message.endswith(": exit code 3")
    assert died_at_once({"Error": "exec format error", "ExitCode": 1}).message.endswith(": exec format error")
    assert died_at_once(None).message.endswith(": exit code unknown")


async def test_a_commit_has_an_author(box: Box) -> None:
    script = "git init -q repo && cd repo && git commit -q --allow-empty -m x && git log --format=%an%n%ae; ls -a ~"
    done = await box.run("sh", "-c", script)
    assert done.output.splitlines()[:2] == ["youBencha agent", "agent@youbencha.invalid"], done.output
    assert (box.scratch / "home" / ".gitconfig").stat().st_uid == os.getuid()
    (box.scratch / "home" / ".gitconfig").unlink()
    (box.scratch / "home" / ".gitconfig").symlink_to(box.scratch / "made-through-a-link")
    assert (await box.run("true")).exit.code == 0
    assert not (box.scratch / "made-through-a-link").exists()
