"""The image of a container: pull it, read its volumes, and give our user a name in it."""

from __future__ import annotations

import contextlib
import posixpath
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.events import StepProgress
from youbencha.sandbox.docker.engine import Engine, EngineCause, EngineError, User
from youbencha.sandbox.docker.mounts import HOME, Mount

USER_NAME = "agent"
_PROGRESS_EVERY_S = 1.0
_NEVER_STARTED = ["never-started"]
_PASSWD, _GROUP = "/etc/passwd", "/etc/group"
_ROOT = {_PASSWD: "root:x:0:0:root:/root:/bin/sh", _GROUP: "root:x:0:"}
_NUMBER = 2
"""The field with the id in both files."""


class Image(NamedTuple):
    name: str
    id: str
    digest: str | None
    """The registry's digest; None for an image built on this host."""
    volumes: tuple[str, ...] = ()
    """Directories that the image declares as volumes."""
    variables: Mapping[str, str] = MappingProxyType({})
    """What its programs find in their environment."""


async def ensure_image(engine: Engine, name: str, progress: StepProgress) -> Image:
    """Return the image with that name; pull it if the engine does not have it."""
    description = await engine.image(name)
    if description is None:
        await engine.pull(name, _throttled(f"pulling the image {name}", progress))
        description = await engine.image(name)
    if description is None:
        raise EngineError(
            EngineCause.IMAGE_MISSING,
            f"The engine pulled the image {name}, but does not have it under that name.",
            hint="Use the name that `docker images` shows.",
        )
    if description.get("Os", "linux") != "linux":
        raise YouBenchaError(
            "SANDBOX_IMAGE_UNUSABLE", f"The image {name} is for {description['Os']}.", hint="Use an image for Linux."
        )
    digests = description.get("RepoDigests") or []
    digest = str(digests[0]).partition("@")[2] if digests else None
    config = description.get("Config") or {}
    variables = dict(str(variable).split("=", 1) for variable in config.get("Env") or () if "=" in str(variable))
    return Image(name, str(description["Id"]), digest, tuple(config.get("Volumes") or ()), variables)


def _throttled(label: str, progress: StepProgress) -> Callable[[str], None]:
    """Report at most once a second, because an engine reports each layer many times a second."""
    started = reported = time.monotonic()
    progress(label)

    def report(step: str) -> None:
        nonlocal reported
        if (now := time.monotonic()) - reported >= _PROGRESS_EVERY_S:
            reported = now
            progress(label, f"{step.lower()}, {now - started:.0f} s")

    return report


def read_volumes(image: str, declared: Iterable[str], forbidden: Iterable[PurePosixPath]) -> list[PurePosixPath]:
    """Return the volumes of an image, outer ones first. Refuse one that would hide a part of a `forbidden` directory.

    The engine would make each a writable directory outside all limits. So each is covered: one that overlaps a mount by
    a directory of the harness (`Mounts`), the others by read-only volumes of a container that is never started.
    """
    volumes = sorted({PurePosixPath(posixpath.normpath(f"/{name.lstrip('/')}")) for name in declared})
    for volume in volumes:
        for directory in forbidden:
            if volume != directory and volume.is_relative_to(directory):
                raise YouBenchaError(
                    "SANDBOX_IMAGE_UNUSABLE",
                    f"The image {image} declares a volume {volume}, which would hide a part of {directory}.",
                    hint="Use an image without that VOLUME. A Dockerfile on top cannot remove it.",
                )
    return volumes


def volume_holder(sandbox: str) -> str:
    """The name of the container with the volumes. They are removed with the last container that uses them."""
    return f"{sandbox}-volumes"


async def make_volume_holder(engine: Engine, image: str, sandbox: str, labels: Mapping[str, str]) -> None:
    await engine.create(volume_holder(sandbox), {"Image": image, "Cmd": _NEVER_STARTED, "Labels": dict(labels)})


class AccountLine(NamedTuple):
    file: str
    number: int
    text: str


async def account_mounts(
    engine: Engine, image: str, user: User, labels: Mapping[str, str], *, cache_dir: Path
) -> list[Mount]:
    """Return the files to mount so that this user has a name in this image. Created once per image, and cached.

    The container runs with the harness's user id, so that files belong to the user. Few images have an entry for that
    id, and programs fail without one: `whoami`, git, Node's `os.userInfo()`. So a copy of the image's `/etc/passwd` and
    `/etc/group` with one more line is mounted over them.
    """
    directory = cache_dir / "accounts" / f"{image.removeprefix('sha256:')[:32]}-{user.uid}-{user.gid}"
    if not directory.is_dir():
        await _make_account_files(engine, image, user, labels, directory)
    return [Mount(path, PurePosixPath("/etc", path.name), writable=False) for path in sorted(directory.iterdir())]


async def _make_account_files(
    engine: Engine, image: str, user: User, labels: Mapping[str, str], directory: Path
) -> None:
    lines = (
        AccountLine(_PASSWD, user.uid, f"{USER_NAME}:x:{user.uid}:{user.gid}::{HOME}:/bin/sh"),
        AccountLine(_GROUP, user.gid, f"{USER_NAME}:x:{user.gid}:"),
    )
    container = f"youbencha-look-{uuid.uuid4().hex[:12]}"
    partial = directory.with_name(f".partial-{uuid.uuid4().hex}")
    partial.mkdir(parents=True)
    try:
        await engine.create(container, {"Image": image, "Cmd": _NEVER_STARTED, "Labels": dict(labels)})
        for line in lines:
            before = await engine.read_file(container, line.file) or b""
            # If the image has no such file, root needs a line too.
            text = with_line(with_line(before, AccountLine(line.file, 0, _ROOT[line.file])), line)
            if text != before:
                file = partial / Path(line.file).name
                file.write_bytes(text)
                file.chmod(0o644)
        with contextlib.suppress(OSError):  # another run was faster: its files are the same
            partial.rename(directory)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        await engine.remove(container)


def with_line(text: bytes, line: AccountLine) -> bytes:
    """Add the line, unless its id exists. A name that is in use gets the id appended."""
    entries = [entry.split(b":") for entry in text.splitlines()]
    if any(len(entry) > _NUMBER and entry[_NUMBER] == b"%d" % line.number for entry in entries):
        return text
    taken = {entry[0] for entry in entries}
    name = USER_NAME.encode()
    added = line.text.encode()
    if name in taken:
        added = added.replace(name, b"%s%d" % (name, line.number), 1)
    return text.rstrip(b"\n") + b"\n" * bool(text.strip()) + added + b"\n"
