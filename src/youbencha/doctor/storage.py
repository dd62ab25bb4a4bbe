"""Is there room, and may we write?"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from youbencha.doctor.finding import Finding, State
from youbencha.sandbox.toolbox import default_root
from youbencha.spec.settings import LoadedSettings
from youbencha.workspace.cache import default_cache_dir

_GB = 1_000_000_000
_LITTLE = 2 * _GB
"""Less than what two agents and a large repository take."""
_TOO_LITTLE = _GB // 5


def check_storage(settings: LoadedSettings) -> list[Finding]:
    cache = settings.cache_dir or default_cache_dir()
    places = {"workspace": settings.workspace_dir, "cache": cache, "toolbox": default_root()}
    return [_check_writable(settings.workspace_dir), *_check_room(places)]


def _check_writable(workspace: Path) -> Finding:
    """Tried where it would be made, without making it."""
    there = _nearest(workspace)
    try:
        if not there.is_dir():
            raise NotADirectoryError(20, f"{there} is not a directory")
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        return Finding(
            group="storage",
            name="workspace",
            state="failed",
            detail=f"{workspace} cannot be written: {error.strerror or error}",
            fix="Choose another place: `yb config set workspace_dir DIR`, or `workspace_dir` in the test case.",
        )
    return Finding(group="storage", name="workspace", state="ok", detail=str(workspace))


def _check_room(places: dict[str, Path]) -> list[Finding]:
    """One line for each disk, not for each directory on it."""
    disks: dict[int, list[str]] = {}
    for name, place in places.items():
        disks.setdefault(_nearest(place).stat().st_dev, []).append(name)
    return [_room(names, _nearest(places[names[0]])) for names in disks.values()]


def _room(names: list[str], there: Path) -> Finding:
    free = shutil.disk_usage(there).free
    state: State = "ok" if free >= _LITTLE else "note" if free >= _TOO_LITTLE else "failed"
    return Finding(
        group="storage",
        name="disk",
        state=state,
        detail=f"{free / _GB:.1f} GB free for {', '.join(names)}",
        fix=None if state == "ok" else "Make room: `yb prune` removes old workspaces, `yb agents remove` old agents.",
    )


def _nearest(place: Path) -> Path:
    """The place itself, or what it would be made in."""
    place = place.absolute()
    return next((each for each in (place, *place.parents) if os.path.lexists(each)), Path(place.anchor))
