"""Removes the containers and socket directories that a dead harness left, and never those of a living one."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.sandbox.docker import labels
from youbencha.sandbox.docker.engine import Engine, connect
from youbencha.sandbox.docker.engine_errors import ENGINE_DENIED
from youbencha.sandbox.docker.where import NO_ENGINE, REMOTE_ENGINE

_NOT_OURS_TO_TELL = {NO_ENGINE, REMOTE_ENGINE, ENGINE_DENIED}
"""Where we could never have made a container, there is none of ours."""
SOCKET_DIR_PREFIX = "yb-lobby-"
SOCKET_DIR_OWNER = "owner"
"""The file that names the process."""
_LONGEST_OWNER = 1024


class Reaped(NamedTuple):
    names: tuple[str, ...] = ()
    """The containers that were removed, or would have been."""
    failed: tuple[str, ...] = ()
    in_use: int = 0
    """Containers of harnesses that live, or of other computers."""


async def reap_containers(*, dry_run: bool = False) -> Reaped:
    """At the start of a run, and by `yb prune`. Where there is no engine, there are no containers."""
    if not dry_run:
        remove_orphaned_socket_dirs()
    try:
        async with connect() as engine:
            return await reap(engine, dry_run=dry_run)
    except YouBenchaError as error:
        if error.code not in _NOT_OURS_TO_TELL:
            raise
        return Reaped()


async def reap(engine: Engine, *, dry_run: bool = False) -> Reaped:
    names, failed, in_use = [], [], 0
    for each in await engine.labelled(f"{labels.OURS}=1"):
        worn = each.get("Labels") or {}
        name = str((each.get("Names") or [each["Id"]])[0]).removeprefix("/")
        if not labels.is_orphan(labels.Owner.parse(worn.get(labels.OWNER, ""))):
            in_use += 1
        elif dry_run or await _is_removed(engine, str(each["Id"]), worn):
            names.append(name)
        else:
            failed.append(name)
    return Reaped(tuple(names), tuple(failed), in_use)


async def _is_removed(engine: Engine, container: str, worn: Mapping[str, str]) -> bool:
    try:
        await engine.remove(container)
    except YouBenchaError:
        return False
    remove_socket_dir(Path(worn.get(labels.LOBBY, "")))
    return True


def remove_orphaned_socket_dirs() -> None:
    """Those of harnesses that were killed between two containers: no label leads there."""
    for parent in socket_dir_parents():
        with contextlib.suppress(OSError):
            for path in Path(parent).glob(f"{SOCKET_DIR_PREFIX}*"):
                if labels.is_orphan(_owner_of(path)):
                    remove_socket_dir(path)


def remove_socket_dir(path: Path) -> None:
    """Remove it only if it is recognisably one of ours, and this user's."""
    if not path.name.startswith(SOCKET_DIR_PREFIX) or not path.is_absolute():
        return
    try:
        about = path.lstat()
    except OSError:
        return
    if stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid():
        shutil.rmtree(path, ignore_errors=True)


def socket_dir_parents() -> Iterable[str]:
    return dict.fromkeys((tempfile.gettempdir(), "/tmp"))  # noqa: S108 - made by mkdtemp, with a random name


def _owner_of(path: Path) -> labels.Owner | None:
    """None for whatever is not written as we write it. No link is followed: any user may have made one."""
    try:
        if path.lstat().st_uid != os.getuid() or not stat.S_ISDIR(path.lstat().st_mode):
            return None
        file = os.open(path / SOCKET_DIR_OWNER, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            return labels.Owner.parse(os.read(file, _LONGEST_OWNER).decode("ascii"))
        finally:
            os.close(file)
    except (OSError, UnicodeDecodeError):  # not ours to read, or not there yet
        return None
