"""A name for the user inside.

The container runs under the harness's user number, so that files belong to whom they should. Few images know that
number, and programs trip over it: `whoami`, git, Node's `os.userInfo()`. So where an image lacks it, a copy of its
`/etc/passwd` and `/etc/group` with one more line lies over its own.
"""

from __future__ import annotations

import contextlib
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from youbencha.files import write_atomically
from youbencha.sandbox.docker.engine import Engine
from youbencha.sandbox.docker.mounts import HOME, Mount
from youbencha.sandbox.docker.settings import User
from youbencha.workspace.cache import default_cache_dir

NAME = "agent"
_PASSWD, _GROUP = "/etc/passwd", "/etc/group"
_ROOT = {_PASSWD: "root:x:0:0:root:/root:/bin/sh", _GROUP: "root:x:0:"}
_NUMBER = 2


class Line(NamedTuple):
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
        Line(_PASSWD, user.uid, f"{NAME}:x:{user.uid}:{user.gid}::{HOME}:/bin/sh"),
        Line(_GROUP, user.gid, f"{NAME}:x:{user.gid}:"),
    )
    container = f"youbencha-look-{uuid.uuid4().hex[:12]}"
    made = directory.with_name(f".partial-{uuid.uuid4().hex}")
    made.mkdir(parents=True)
    try:
        await engine.create(container, {"Image": image, "Cmd": ["never-started"], "Labels": dict(labels)})
        for line in lines:
            before = await engine.read_file(container, line.file) or b""
            known = with_line(before, Line(line.file, 0, _ROOT[line.file]))  # an image may have no such file at all
            if (text := with_line(known, line)) != before:
                write_atomically(made / Path(line.file).name, text)
                (made / Path(line.file).name).chmod(0o644)
        with contextlib.suppress(OSError):  # somebody else was faster: theirs is the same
            made.rename(directory)
    finally:
        shutil.rmtree(made, ignore_errors=True)
        await engine.remove(container)


def with_line(text: bytes, line: Line) -> bytes:
    """The same, if the number is known already. A name that is taken gets a number behind it."""
    entries = [entry.split(b":") for entry in text.splitlines()]
    if any(len(entry) > _NUMBER and entry[_NUMBER] == b"%d" % line.number for entry in entries):
        return text
    taken = {entry[0] for entry in entries}
    added = line.text.encode()
    if NAME.encode() in taken:
        added = added.replace(NAME.encode(), b"%s%d" % (NAME.encode(), line.number), 1)
    return text.rstrip(b"\n") + b"\n" * bool(text.strip()) + added + b"\n"
