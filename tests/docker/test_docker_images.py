"""Images that contain an agent: the real CLI, the real engine, and no network."""

from __future__ import annotations

import asyncio
import io
import json
import os
import tarfile
from collections.abc import Iterator

import aiodocker
import pytest

from agent_clis import AGENT, OLD, request
from docker_engine import Engine, containers_of
from toolbox_tools import installed
from yb import yb
from youbencha import __version__
from youbencha.errors import YouBenchaError
from youbencha.sandbox.images.build import RECIPES, build_image
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.sandbox.toolbox.toolbox import Toolbox

ALL_OF_CONTROL = "import youbencha.control, aiohttp"
OTHER_USER = "4321:4321"
"""The harness runs agents with the user's own uid, which no image knows."""


def tagged(name: str) -> str:
    return f"youbencha-test/{name}:{os.getpid()}"


async def removed(engine: Engine, tag: str) -> None:
    async with aiodocker.Docker(engine.host) as client:
        await client.images.delete(tag, force=True)


async def run_in(engine: Engine, tag: str, *command: str, user: str = "") -> str:
    """What it prints, in a container as locked as the harness's are."""
    config = {
        "Image": tag,
        **({"Cmd": list(command)} if command else {}),
        "User": user,
        "Env": ["HOME=/tmp"] if user else [],
        "HostConfig": {"NetworkMode": "none", "CapDrop": ["ALL"], "SecurityOpt": ["no-new-privileges"]},
    }
    async with aiodocker.Docker(engine.host) as client:
        container = await client.containers.create(config)
        try:
            await container.start()
            ended = await container.wait()
            said = "".join(await container.log(stdout=True, stderr=True))
        finally:
            await container.delete(force=True)
    assert ended["StatusCode"] == 0, said
    return said


@pytest.fixture(scope="module")
def claude() -> InstalledAgent:
    """Not the newest: this one is half as large."""
    found = Toolbox().find(AGENT, OLD)
    if found is None:
        reason = f"Claude Code {OLD} is not in the toolbox: run `yb agents install {request(OLD)}`"
        if os.environ.get("YOUBENCHA_REQUIRE_REAL_CLI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture(scope="module")
def claude_image(engine: Engine, image: str, claude: InstalledAgent) -> Iterator[str]:
    tag = tagged("claude-code")
    done = yb("images", "build", "claude-code", "--base", image, "--tag", tag, "--version", claude.version)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{tag}\n"
    assert "COPY cli/ /opt/claude-code/" in done.stderr, "steps are reported while it builds"
    yield tag
    asyncio.run(removed(engine, tag))


@pytest.mark.full
async def test_the_cli_runs_inside_for_any_user(engine: Engine, claude_image: str, claude: InstalledAgent) -> None:
    words = "claude --version && git config user.email && python3 -m youbencha.control --help >/dev/null && id -u"
    said = await run_in(engine, claude_image, "/bin/sh", "-c", words, user=OTHER_USER)
    assert said.splitlines() == [f"{claude.version} (Claude Code)", "bench@localhost", "4321"]


@pytest.mark.full
async def test_the_control_server_has_its_dependencies(engine: Engine, claude_image: str) -> None:
    assert await run_in(engine, claude_image, "python3", "-c", ALL_OF_CONTROL) == ""


@pytest.mark.full
async def test_a_tasks_modules_come_before_the_control_servers(engine: Engine, claude_image: str) -> None:
    words = (
        "cd /tmp && mkdir own && echo OWN=1 > own/aiohttp.py && cd /workspace && "
        "PYTHONPATH=/tmp/own python3 -c 'import aiohttp; print(aiohttp.OWN)' && env | grep -c PYTHON || true"
    )
    assert await run_in(engine, claude_image, "/bin/sh", "-c", words) == "1\n0\n"


@pytest.mark.full
async def test_the_adapter_starts_in_the_workspace(engine: Engine, claude_image: str) -> None:
    shown = engine.get(f"/images/{claude_image}/json")["Config"]
    assert shown["Cmd"] == ["/bin/bash", "/adapter.sh"]
    assert (shown["WorkingDir"], shown["User"]) == ("/workspace", "agent")
    words = "cat /adapter.sh && touch by-the-agent && test $(id -u) != 0"
    assert await run_in(engine, claude_image, "/bin/sh", "-c", words) == RECIPES["claude-code"].adapter.read_text()


@pytest.mark.full
def test_the_image_is_listed(claude_image: str, claude: InstalledAgent) -> None:
    rows = json.loads(yb("images", "list", "--json").stdout)
    row = next(row for row in rows if (row["tag"] or "").endswith(claude_image))  # Podman puts a host before it
    assert (row["agent"], row["version"], row["youbencha"]) == ("claude-code", claude.version, __version__)
    assert row["size_bytes"] > claude.size_bytes
    lines = yb("images", "list").stdout.splitlines()
    assert any(claude_image in line and claude.version in line for line in lines)


def test_a_missing_base_image(engine: Engine) -> None:
    done = yb("images", "build", "claude-code", "--base", "youbencha/there-is-none:1")
    assert done.returncode == 2
    assert "IMAGE_BASE_MISSING" in done.stderr
    assert "--base" in done.stderr


def test_a_base_image_with_an_invalid_name(engine: Engine) -> None:
    """A failed call has the code of image builds, not that of sandboxes."""
    done = yb("images", "build", "claude-code", "--base", "Bad Image!!")
    assert done.returncode == 2
    assert "IMAGE_ENGINE_FAILED" in done.stderr
    assert "'Bad Image!!' is not a valid image name" in done.stderr


async def test_a_base_image_that_lacks_something(engine: Engine, image: str) -> None:
    tag = tagged("without-git")
    text = f"FROM {image}\nRUN rm /usr/bin/git\n".encode()
    context, entry = io.BytesIO(), tarfile.TarInfo("Dockerfile")
    entry.size = len(text)
    with tarfile.open(fileobj=context, mode="w") as tar:
        tar.addfile(entry, io.BytesIO(text))
    context.seek(0)
    async with aiodocker.Docker(engine.host) as client:
        await client.images.build(fileobj=context, encoding="identity", tag=tag)
    try:
        with pytest.raises(YouBenchaError, match="has no git") as caught:
            await build_image("claude-code", base=tag)
        assert caught.value.code == "IMAGE_BASE_UNFIT"
        assert containers_of(f"images-{os.getpid()}") == []
    finally:
        await removed(engine, tag)


@pytest.mark.full
async def test_aider(engine: Engine, image: str) -> None:
    aider, tag = installed("aider"), tagged("aider")
    await build_image("aider", base=image, tag=tag, version=aider.version)
    try:
        said = await run_in(engine, tag, "aider", "--version", user=OTHER_USER)
        assert said.split()[-1] == aider.version
        assert await run_in(engine, tag, "python3", "-c", ALL_OF_CONTROL) == ""
    finally:
        await removed(engine, tag)
