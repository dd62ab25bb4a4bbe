"""Build an image that brings an agent along."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
import tempfile
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import youbencha
from youbencha.errors import YouBenchaError
from youbencha.sandbox.images.base_image import ask_base
from youbencha.sandbox.images.context import Parts, write_context
from youbencha.sandbox.images.engine import image_engine, refused
from youbencha.sandbox.images.listing import AGENT, AGENT_VERSION, DIGEST, YOUBENCHA
from youbencha.sandbox.images.packages import ImagePython, packages_for
from youbencha.sandbox.images.recipes import recipe_for
from youbencha.sandbox.toolbox import InstalledAgent, Progress, Toolbox, carry

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


def _silent(_: str) -> None:
    pass


async def build_image(
    agent: str,
    *,
    base: str | None = None,
    tag: str | None = None,
    version: str | None = None,
    toolbox: Toolbox | None = None,
    env: Mapping[str, str] = os.environ,
    progress: Progress = _silent,
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
        carried = await carry(installed, env)
        with tempfile.TemporaryDirectory(prefix="youbencha-image-") as scratch, tempfile.TemporaryFile() as file:
            packages = await packages_for(python, Path(scratch), progress)
            parts = Parts(recipe.dockerfile, adapter, recipe.command, f"/opt/{agent}", carried, packages)
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
    client: aiodocker.Docker, file: IO[bytes], tag: str, base: str, installed: InstalledAgent, progress: Progress
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
