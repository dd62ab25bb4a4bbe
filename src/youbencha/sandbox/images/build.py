"""Build an image that brings an agent along."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import re
import sys
import tempfile
import textwrap
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import youbencha
from youbencha.errors import YouBenchaError
from youbencha.progress import StepProgress
from youbencha.sandbox.docker import ownership
from youbencha.sandbox.docker.engine import image_engine, refused
from youbencha.sandbox.images.context import ImageParts, ImagePython, packages_for, write_context
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.sandbox.toolbox.portable import portable_cli
from youbencha.sandbox.toolbox.toolbox import Toolbox
from youbencha.text import did_you_mean

if TYPE_CHECKING:
    import aiodocker


_CHUNK = 1 << 20

_LINE = 110

_STEP = ("Step ", "STEP ")
"""As Docker says it, and as Podman does."""


class BuiltImage(NamedTuple):
    tag: str
    id: str
    agent: str
    version: str


def _silent(_step: str, _detail: str = "") -> None:
    pass


async def build_image(
    agent: str,
    *,
    base: str | None = None,
    tag: str | None = None,
    version: str | None = None,
    toolbox: Toolbox | None = None,
    env: Mapping[str, str] = os.environ,
    progress: StepProgress = _silent,
) -> BuiltImage:
    """Quick if nothing has changed since the last time: the engine keeps what it made."""
    recipe = recipe_for(agent)
    base, tag = base or recipe.base, tag or recipe.tag
    adapter = recipe.adapter
    async with image_engine(env) as client:
        python = await ask_base(client, base, progress)
        _check_same_kind(python, base)
        toolbox = toolbox or Toolbox()
        wanted = version or recipe.pinned_version
        installed = toolbox.find(agent, wanted) or await toolbox.install(agent, wanted, progress=progress)
        progress("gathering what goes into the image")
        carried = await portable_cli(installed, env)
        with tempfile.TemporaryDirectory(prefix="youbencha-image-") as scratch, tempfile.TemporaryFile() as file:
            packages = await packages_for(python, Path(scratch), progress)
            parts = ImageParts(recipe.dockerfile, adapter, recipe.command, f"/opt/{agent}", carried, packages)
            await asyncio.to_thread(write_context, file, parts)
            return await _built(client, file, tag, base, installed, progress)


def _check_same_kind(python: ImagePython, base: str) -> None:
    """The toolbox holds programs of this computer."""
    if sys.platform != "linux" or python.machine != platform.machine():
        raise YouBenchaError(
            "IMAGE_OTHER_MACHINE",
            f"{base} is for Linux on {python.machine}, this computer is {sys.platform} on {platform.machine()}",
            hint="The agent's CLI is taken from this computer's toolbox: build on a computer of the image's kind.",
        )


async def _built(
    client: aiodocker.Docker, file: IO[bytes], tag: str, base: str, installed: InstalledAgent, progress: StepProgress
) -> BuiltImage:
    from aiodocker import DockerError

    progress(f"building {tag} from {base}")
    steps = client.images.build(
        fileobj=_InLargePieces(file),
        encoding="identity",
        tag=tag,
        buildargs={"BASE_IMAGE": base, "AGENT_VERSION": installed.version},
        labels=labels_for(installed),
        forcerm=True,
        stream=True,
    )
    try:
        async for step in steps:
            if line := _spoken(step):
                progress(line)
        image = await client.images.inspect(tag)
    except DockerError as error:
        raise refused(f"build {tag}", error) from error
    return BuiltImage(tag, image["Id"], installed.agent, installed.version)


def labels_for(installed: InstalledAgent) -> dict[str, str]:
    return {
        YOUBENCHA: youbencha.__version__,
        AGENT: installed.agent,
        AGENT_VERSION: installed.version,
        DIGEST: installed.sha256,
    }


def _spoken(step: Mapping[str, Any]) -> str | None:
    """Of all that the engine says, what a person wants to see: which step it is at."""
    text = " ".join(str(step.get("stream", "")).split())
    return textwrap.shorten(text, _LINE, placeholder=" …") if text.startswith(_STEP) else None


class _InLargePieces:
    """aiodocker reads 8 KB at a time: half a gigabyte takes seconds longer by that."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, length: int = -1, /) -> bytes:
        return self._file.read(max(length, _CHUNK))


# The image that another is built from: whether it is there, and what it has.

_MISSING = 404

_ASK = """
import json, platform, shutil, sys
missing = [name for name in ("bash", "git", "useradd") if not shutil.which(name)]
print(json.dumps([sys.version_info[:2], platform.machine(), platform.libc_ver(), missing]))
"""

_HINT = (
    "The image needs Debian's or another glibc, python3 (3.11 or newer), git, bash and useradd. "
    "Choose one with --base; in a checkout of youBencha, `scripts/docker-engine start` makes youbencha/base:bookworm."
)


async def ask_base(client: aiodocker.Docker, base: str, progress: StepProgress) -> ImagePython:
    """Its Python; an error that says what is wrong with the image if nothing can be built from it."""
    await _have(client, base, progress)
    version, machine, (libc, release), missing = await _asked(client, base)
    if missing:
        raise _unfit(base, f"has no {', no '.join(missing)}")
    if libc != "glibc":
        raise _unfit(base, "is not made with glibc")
    if tuple(version) < (3, 11):
        raise _unfit(base, f"has Python {version[0]}.{version[1]}")
    major, minor = (int(part) for part in release.split(".")[:2])
    return ImagePython((version[0], version[1]), machine, (major, minor))


async def _have(client: aiodocker.Docker, base: str, progress: StepProgress) -> None:
    from aiodocker import DockerError

    try:
        await client.images.inspect(base)
        return
    except DockerError as error:
        if error.status != _MISSING:
            raise refused("look at the base image", error) from error
    progress(f"fetching {base}")
    try:
        await client.images.pull(base)
    except DockerError as error:
        raise YouBenchaError(
            "IMAGE_BASE_MISSING",
            f"the engine does not have the base image {base}, and cannot fetch it: {error.message}",
            hint=_HINT,
        ) from error


async def _asked(client: aiodocker.Docker, base: str) -> Any:
    from aiodocker import DockerError

    config: dict[str, Any] = {
        "Image": base,
        "Entrypoint": ["python3"],
        "Cmd": ["-I", "-c", _ASK],
        # So that what is left of a builder that was killed is removed with what trials left.
        "Labels": {
            ownership.OURS: "1",
            ownership.OWNER: str(ownership.this_owner()),
            ownership.RUN: f"images-{os.getpid()}",
        },
        "HostConfig": {"NetworkMode": "none", "CapDrop": ["ALL"]},
    }
    try:
        container = await client.containers.create(config)
        try:
            await container.start()
            ended = await container.wait()
            said = "".join(await container.log(stdout=True, stderr=True))
        finally:
            await container.delete(force=True)
    except DockerError as error:
        raise _unfit(base, f"does not run python3: {error.message}") from error
    if ended["StatusCode"] != 0:
        raise _unfit(base, f"does not run python3: {said.strip()[-300:]}")
    return json.loads(said.strip().splitlines()[-1])


def _unfit(base: str, why: str) -> YouBenchaError:
    return YouBenchaError("IMAGE_BASE_UNFIT", f"the base image {base} {why}", hint=_HINT)


# The images that were built here.

YOUBENCHA = "youbencha.version"

AGENT = "youbencha.agent"

AGENT_VERSION = "youbencha.agent.version"

DIGEST = "youbencha.agent.sha256"


class ListedImage(NamedTuple):
    tag: str | None
    """None for one whose name another has taken."""
    agent: str
    version: str
    youbencha: str
    size_bytes: int
    created_at: str
    id: str


async def list_images(env: Mapping[str, str] = os.environ) -> list[ListedImage]:
    """By agent, and the newest first."""
    from aiodocker import DockerError

    async with image_engine(env) as client:
        try:
            found = await client.images.list(filters={"label": [AGENT]})
        except DockerError as error:
            raise refused("list its images", error) from error
    images = [image for each in found for image in _read(each)]
    images.sort(key=lambda image: image.created_at, reverse=True)
    return sorted(images, key=lambda image: image.agent)


def _read(found: Mapping[str, Any]) -> list[ListedImage]:
    labels = found["Labels"]
    created = datetime.fromtimestamp(found["Created"], UTC).isoformat(timespec="seconds")
    tags = [tag for tag in found.get("RepoTags") or () if tag != "<none>:<none>"] or [None]
    return [
        ListedImage(
            tag=tag,
            agent=labels[AGENT],
            version=labels.get(AGENT_VERSION, "unknown"),
            youbencha=labels.get(YOUBENCHA, "unknown"),
            size_bytes=found["Size"],
            created_at=created,
            id=found["Id"],
        )
        for tag in tags
    ]


# The images that can be built, as a table, and where their material is.

_PACKAGE = Path(youbencha.__file__).parent

_SHIPPED = Path(__file__).parent / "material"

_CHECKOUT = _PACKAGE.parents[1]

_PINNED = re.compile(r"^ARG AGENT_VERSION=(\S+)$", re.MULTILINE)

_BASE = re.compile(r"^ARG BASE_IMAGE=(\S+)$", re.MULTILINE)


class Recipe(NamedTuple):
    agent: str
    """As the toolbox names it; so are the directories of its Dockerfile and of its adapter."""
    command: str
    """What it is called inside."""
    tag: str

    @property
    def dockerfile(self) -> str:
        return _material(f"docker/{self.agent}/Dockerfile").read_text(encoding="utf-8")

    @property
    def adapter(self) -> Path:
        return _material(f"adapters/{self.agent}/adapter.sh")

    @property
    def pinned_version(self) -> str:
        return str(_PINNED.findall(self.dockerfile)[0])

    @property
    def base(self) -> str:
        return str(_BASE.findall(self.dockerfile)[0])


RECIPES = {
    recipe.agent: recipe
    for recipe in (
        Recipe("claude-code", "claude", "thunderdome/claude-code:latest"),
        Recipe("aider", "aider", "thunderdome/aider:latest"),
    )
}


def recipe_for(name: str) -> Recipe:
    if recipe := RECIPES.get(name):
        return recipe
    near = did_you_mean(name, RECIPES)
    known = f"There are: {', '.join(RECIPES)}."
    raise YouBenchaError(
        "IMAGE_UNKNOWN",
        f"no image is called {name!r}",
        hint=f"{near[0].upper()}{near[1:]} {known}" if near else known,
    )


def _material(name: str) -> Path:
    """In an installed package beside us; in a checkout where people look for it."""
    for root in (_SHIPPED, _CHECKOUT):
        if (path := root / name).is_file():
            return path
    raise YouBenchaError(
        "IMAGE_MATERIAL_MISSING",
        f"{name} is missing from this installation of youBencha",
        hint="Install youBencha again.",
    )
