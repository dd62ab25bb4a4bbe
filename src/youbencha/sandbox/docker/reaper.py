"""Removes the containers (and their lobbies) that a dead harness left, and never those of a living one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.sandbox.docker import labels
from youbencha.sandbox.docker.engine import Engine, connect
from youbencha.sandbox.docker.engine_errors import ENGINE_DENIED
from youbencha.sandbox.docker.lobby import remove_lobbies_of_the_dead, remove_lobby
from youbencha.sandbox.docker.where import NO_ENGINE, REMOTE_ENGINE

_NOT_OURS_TO_TELL = {NO_ENGINE, REMOTE_ENGINE, ENGINE_DENIED}
"""Where we could never have made a container, there is none of ours."""


class Reaped(NamedTuple):
    names: tuple[str, ...] = ()
    """The containers that were removed, or would have been."""
    failed: tuple[str, ...] = ()
    in_use: int = 0
    """Containers of harnesses that live, or of other computers."""


async def reap_containers(*, dry_run: bool = False) -> Reaped:
    """At the start of a run, and by `yb prune`. Where there is no engine, there are no containers."""
    if not dry_run:
        remove_lobbies_of_the_dead()
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
    remove_lobby(Path(worn.get(labels.LOBBY, "")))
    return True
