"""The image that a container starts from: there already, or fetched once."""

from __future__ import annotations

import contextlib
import posixpath
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.files import write_atomically
from youbencha.sandbox.docker.engine import Engine, User
from youbencha.sandbox.docker.mounts import HOME, Mount
from youbencha.user_dirs import default_cache_dir

_SAY_EVERY_S = 1.0


class Image(NamedTuple):
    name: str
    id: str
    digest: str | None
    volumes: tuple[str, ...] = ()
    """Directories that the image declares to be volumes."""


async def ensure_image(engine: Engine, name: str, progress: Callable[[str], None]) -> Image:
    found = await engine.image(name)
    if found is None:
        await engine.pull(name, _seldom(f"fetching the image {name}", progress))
        found = await engine.image(name)
    if found is None:
        raise YouBenchaError(
            "SANDBOX_IMAGE_NOT_FOUND",
            f"The engine has no image {name}, though it says that it has fetched it.",
            hint="Name it as `docker images` does.",
        )
    if found.get("Os", "linux") != "linux":
        raise YouBenchaError(
            "SANDBOX_IMAGE_UNUSABLE", f"The image {name} is for {found['Os']}.", hint="Use an image for Linux."
        )
    digests = found.get("RepoDigests") or []
    digest = str(digests[0]).partition("@")[2] if digests else None
    return Image(name, str(found["Id"]), digest, tuple((found.get("Config") or {}).get("Volumes") or ()))


def _seldom(label: str, progress: Callable[[str], None]) -> Callable[[str], None]:
    """An engine tells of every layer many times a second."""
    started = said = time.monotonic()
    progress(label)

    def tell(step: str) -> None:
        nonlocal said
        if (now := time.monotonic()) - said >= _SAY_EVERY_S:
            said = now
            progress(f"{label} ... {step.lower()}, {now - started:.0f} s")

    return tell


# What an image declares as its VOLUMEs: the engine would make each a writable directory that nobody counts.
#
# So each is covered. Most are as read-only as the image around them, with what the image has there: they belong to a
# container that is never started, and the others borrow them. A volume that touches what is shared with the container
# is
# replaced by a directory of the harness, which is counted like the home.


def read_volumes(image: str, declared: Iterable[str], forbidden: Iterable[PurePosixPath]) -> list[PurePosixPath]:
    """The outer ones first. Refused, if one lies within a place where it would hide what has to be seen."""
    volumes = sorted({PurePosixPath(posixpath.normpath(f"/{name.lstrip('/')}")) for name in declared})
    for volume in volumes:
        for place in forbidden:
            if volume != place and volume.is_relative_to(place):
                raise YouBenchaError(
                    "SANDBOX_IMAGE_UNUSABLE",
                    f"The image {image} declares a volume {volume}, which would hide a part of {place}.",
                    hint="Use an image without that VOLUME. It cannot be taken back by another Dockerfile on top.",
                )
    return volumes


def volume_holder(sandbox: str) -> str:
    """The container that has the volumes. With the last that borrows them, they are gone as well."""
    return f"{sandbox}-volumes"


async def keep_volumes(engine: Engine, image: str, sandbox: str, labels: Mapping[str, str]) -> None:
    await engine.create(volume_holder(sandbox), {"Image": image, "Cmd": ["never-started"], "Labels": dict(labels)})


# A name for the user inside.
#
# The container runs under the harness's user number, so that files belong to whom they should. Few images know that
# number, and programs trip over it: `whoami`, git, Node's `os.userInfo()`. So where an image lacks it, a copy of its
# `/etc/passwd` and `/etc/group` with one more line lies over its own.

NAME = "agent"

_PASSWD, _GROUP = "/etc/passwd", "/etc/group"

_ROOT = {_PASSWD: "root:x:0:0:root:/root:/bin/sh", _GROUP: "root:x:0:"}

_NUMBER = 2


class AccountLine(NamedTuple):
    file: str
    number: int
    text: str


async def account_mounts(engine: Engine, image: str, user: User, labels: Mapping[str, str]) -> list[Mount]:
    """What to mount, so that this user has a name in this image. Looked up once for each image, and kept."""
    directory = default_cache_dir() / "accounts" / f"{image.removeprefix('sha256:')[:32]}-{user.uid}-{user.gid}"
    if not directory.is_dir():
        await _look_up(engine, image, user, labels, directory)
    return [Mount(path, PurePosixPath("/etc", path.name), writable=False) for path in sorted(directory.iterdir())]


async def _look_up(engine: Engine, image: str, user: User, labels: Mapping[str, str], directory: Path) -> None:
    lines = (
        AccountLine(_PASSWD, user.uid, f"{NAME}:x:{user.uid}:{user.gid}::{HOME}:/bin/sh"),
        AccountLine(_GROUP, user.gid, f"{NAME}:x:{user.gid}:"),
    )
    container = f"youbencha-look-{uuid.uuid4().hex[:12]}"
    made = directory.with_name(f".partial-{uuid.uuid4().hex}")
    made.mkdir(parents=True)
    try:
        await engine.create(container, {"Image": image, "Cmd": ["never-started"], "Labels": dict(labels)})
        for line in lines:
            before = await engine.read_file(container, line.file) or b""
            known = with_line(
                before, AccountLine(line.file, 0, _ROOT[line.file])
            )  # an image may have no such file at all
            if (text := with_line(known, line)) != before:
                write_atomically(made / Path(line.file).name, text)
                (made / Path(line.file).name).chmod(0o644)
        with contextlib.suppress(OSError):  # somebody else was faster: theirs is the same
            made.rename(directory)
    finally:
        shutil.rmtree(made, ignore_errors=True)
        await engine.remove(container)


def with_line(text: bytes, line: AccountLine) -> bytes:
    """The same, if the number is known already. A name that is taken gets a number behind it."""
    entries = [entry.split(b":") for entry in text.splitlines()]
    if any(len(entry) > _NUMBER and entry[_NUMBER] == b"%d" % line.number for entry in entries):
        return text
    taken = {entry[0] for entry in entries}
    added = line.text.encode()
    if NAME.encode() in taken:
        added = added.replace(NAME.encode(), b"%s%d" % (NAME.encode(), line.number), 1)
    return text.rstrip(b"\n") + b"\n" * bool(text.strip()) + added + b"\n"
