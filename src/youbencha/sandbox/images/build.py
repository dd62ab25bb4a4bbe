"""Build and list images that contain an agent.

The contents of an image are collected on this host, from the toolbox and the running youBencha: the build itself
downloads nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import re
import sys
import tempfile
import textwrap
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import youbencha
from youbencha.errors import YouBenchaError
from youbencha.events import StepProgress
from youbencha.sandbox.docker import ownership
from youbencha.sandbox.docker.engine import CONNECTION_CAUSES, Engine, EngineCause, EngineError, connect
from youbencha.sandbox.docker.image import ensure_image
from youbencha.sandbox.images.context import ImageParts, ImagePython, packages_for, write_context
from youbencha.sandbox.toolbox.fetch import no_progress
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.sandbox.toolbox.portable import portable_cli
from youbencha.sandbox.toolbox.toolbox import Toolbox
from youbencha.text import did_you_mean

_SHIPPED = Path(__file__).parent / "material"
_CHECKOUT = Path(youbencha.__file__).parents[2]
_PINNED = re.compile(r"^ARG AGENT_VERSION=(\S+)$", re.MULTILINE)
_BASE = re.compile(r"^ARG BASE_IMAGE=(\S+)$", re.MULTILINE)
_VERSION_LABEL = "youbencha.version"
_AGENT_LABEL = "youbencha.agent"
_AGENT_VERSION_LABEL = "youbencha.agent.version"
_DIGEST_LABEL = "youbencha.agent.sha256"
MAX_STEP_CHARS = 110
_STEPS = ("Step ", "STEP ")
"""The start of a build step's line in Docker's and Podman's output."""

MIN_PYTHON = (3, 11)
_DESCRIBE = """
import json, platform, shutil, sys
missing = [name for name in ("bash", "git", "useradd") if not shutil.which(name)]
print(json.dumps([sys.version_info[:2], platform.machine(), platform.libc_ver(), missing]))
"""
_BASE_HINT = (
    "The image needs Debian's or another glibc, python3 (3.11 or newer), git, bash and useradd. "
    "Choose one with --base; in a checkout of youBencha, `scripts/docker-engine start` makes youbencha/base:bookworm."
)


class ImageRecipe(NamedTuple):
    """An image that can be built."""

    agent: str
    """The agent's name in the toolbox, and of the directories of its Dockerfile and adapter."""
    command: str
    """The name of the CLI in the image."""
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


def _material(name: str) -> Path:
    """A file beside this one in an installed package, or at the root of a checkout."""
    for root in (_SHIPPED, _CHECKOUT):
        if (path := root / name).is_file():
            return path
    raise YouBenchaError(
        "IMAGE_MATERIAL_MISSING",
        f"{name} is missing from this installation of youBencha",
        hint="Install youBencha again.",
    )


RECIPES = {
    recipe.agent: recipe
    for recipe in (
        ImageRecipe("claude-code", "claude", "thunderdome/claude-code:latest"),
        ImageRecipe("aider", "aider", "thunderdome/aider:latest"),
    )
}


def recipe_for(name: str) -> ImageRecipe:
    """Return the recipe with that name, or raise an error that suggests one."""
    if recipe := RECIPES.get(name):
        return recipe
    near = did_you_mean(name, RECIPES)
    known = f"Available: {', '.join(RECIPES)}."
    raise YouBenchaError(
        "IMAGE_UNKNOWN", f"Unknown image {name!r}", hint=f"{near[0].upper()}{near[1:]} {known}" if near else known
    )


class BuiltImage(NamedTuple):
    tag: str
    id: str
    agent: str
    version: str


async def build_image(
    agent: str,
    *,
    base: str | None = None,
    tag: str | None = None,
    version: str | None = None,
    toolbox: Toolbox | None = None,
    env: Mapping[str, str] = os.environ,
    progress: StepProgress = no_progress,
) -> BuiltImage:
    """Build the image of an agent. Fast if nothing has changed, because the engine caches layers."""
    recipe = recipe_for(agent)
    base, tag = base or recipe.base, tag or recipe.tag
    async with connect(env, same_host=False) as engine:
        with _image_errors():
            python = await _check_base(engine, base, progress)
        toolbox = toolbox or Toolbox()
        wanted = version or recipe.pinned_version
        installed = toolbox.find(agent, wanted) or await toolbox.install(agent, wanted, progress=progress)
        progress("collecting the contents of the image")
        cli = await portable_cli(installed, env)
        with tempfile.TemporaryDirectory(prefix="youbencha-image-") as scratch, tempfile.TemporaryFile() as file:
            packages = await packages_for(python, Path(scratch), progress)
            parts = ImageParts(recipe.dockerfile, recipe.adapter, recipe.command, f"/opt/{agent}", cli, packages)
            await asyncio.to_thread(write_context, file, parts)
            progress(f"building {tag} from {base}")
            with _image_errors():
                image = await engine.build(
                    file,
                    tag,
                    arguments={"BASE_IMAGE": base, "AGENT_VERSION": installed.version},
                    labels=_labels(installed),
                    progress=_only_steps(progress),
                )
    return BuiltImage(tag, image, installed.agent, installed.version)


@contextmanager
def _image_errors() -> Iterator[None]:
    """Give failed calls the error code of image builds. Connection errors keep theirs."""
    try:
        yield
    except EngineError as error:
        if error.cause in CONNECTION_CAUSES:
            raise
        raise YouBenchaError("IMAGE_ENGINE_FAILED", error.message, hint=error.hint) from error


def _labels(installed: InstalledAgent) -> dict[str, str]:
    return {
        _VERSION_LABEL: youbencha.__version__,
        _AGENT_LABEL: installed.agent,
        _AGENT_VERSION_LABEL: installed.version,
        _DIGEST_LABEL: installed.sha256,
    }


def _only_steps(progress: StepProgress) -> Callable[[str], None]:
    """Report only the steps in the engine's output."""

    def report(output: str) -> None:
        text = " ".join(output.split())
        if text.startswith(_STEPS):
            progress(textwrap.shorten(text, MAX_STEP_CHARS, placeholder=" …"))

    return report


async def _check_base(engine: Engine, base: str, progress: StepProgress) -> ImagePython:
    """Return the Python of a base image, or raise an error that says why the image cannot be used."""
    try:
        await ensure_image(engine, base, progress)
    except EngineError as error:
        if error.cause is not EngineCause.IMAGE_MISSING:
            raise
        raise YouBenchaError("IMAGE_BASE_MISSING", error.message, hint=_BASE_HINT) from error
    version, machine, (libc, release), missing = await _describe(engine, base)
    if missing:
        raise _unfit(base, f"has no {', no '.join(missing)}")
    if libc != "glibc":
        raise _unfit(base, "does not use glibc")
    if tuple(version) < MIN_PYTHON:
        raise _unfit(base, f"has Python {version[0]}.{version[1]}")
    if sys.platform != "linux" or machine != platform.machine():
        raise YouBenchaError(
            "IMAGE_OTHER_MACHINE",
            f"{base} is for Linux on {machine}, this host is {sys.platform} on {platform.machine()}",
            hint="The image uses the CLI from this host's toolbox: build on a host with the image's architecture.",
        )
    major, minor = (int(part) for part in release.split(".")[:2])
    return ImagePython((version[0], version[1]), machine, (major, minor))


async def _describe(engine: Engine, base: str) -> Any:
    """Return the output of `_DESCRIBE` in a container of the base image."""
    container = f"youbencha-base-{uuid.uuid4().hex[:12]}"
    config: dict[str, Any] = {
        "Image": base,
        "Entrypoint": ["python3"],
        "Cmd": ["-I", "-c", _DESCRIBE],
        # With labels, so that the cleanup for trials also removes what a killed build left.
        "Labels": {
            ownership.OURS: "1",
            ownership.OWNER: str(ownership.this_owner()),
            ownership.RUN: f"images-{os.getpid()}",
        },
        "HostConfig": {"NetworkMode": "none", "CapDrop": ["ALL"]},
    }
    try:
        try:
            await engine.create(container, config)
            await engine.start(container)
            code = await engine.wait(container)
            output = (await engine.output(container)).strip()
        finally:
            await engine.remove(container)
    except EngineError as error:
        raise _unfit(base, f"does not run python3: {error.reason}") from error
    if code != 0:
        raise _unfit(base, f"does not run python3: {output[-300:]}")
    return json.loads(output.splitlines()[-1])


def _unfit(base: str, reason: str) -> YouBenchaError:
    return YouBenchaError("IMAGE_BASE_UNFIT", f"The base image {base} {reason}", hint=_BASE_HINT)


class ListedImage(NamedTuple):
    tag: str | None
    """None if its tag now belongs to another image."""
    agent: str
    version: str
    youbencha: str
    size_bytes: int
    created_at: str
    id: str


async def list_images(env: Mapping[str, str] = os.environ) -> list[ListedImage]:
    """The images built here, by agent, newest first."""
    async with connect(env, same_host=False) as engine:
        with _image_errors():
            descriptions = await engine.images(_AGENT_LABEL)
    images = [image for description in descriptions for image in _list_tags(description)]
    images.sort(key=lambda image: image.created_at, reverse=True)
    return sorted(images, key=lambda image: image.agent)


def _list_tags(description: Mapping[str, Any]) -> list[ListedImage]:
    """Return one entry for each tag."""
    labels = description["Labels"]
    created = datetime.fromtimestamp(description["Created"], UTC).isoformat(timespec="seconds")
    tags = [tag for tag in description.get("RepoTags") or () if tag != "<none>:<none>"] or [None]
    return [
        ListedImage(
            tag=tag,
            agent=labels[_AGENT_LABEL],
            version=labels.get(_AGENT_VERSION_LABEL, "unknown"),
            youbencha=labels.get(_VERSION_LABEL, "unknown"),
            size_bytes=description["Size"],
            created_at=created,
            id=description["Id"],
        )
        for tag in tags
    ]
