"""What of the host is seen inside, and where."""

from __future__ import annotations

import contextlib
import os
import posixpath
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from youbencha.errors import YouBenchaError


def touches(volume: PurePosixPath, place: PurePosixPath) -> bool:
    """Whether one lies in the other."""
    return volume.is_relative_to(place) or place.is_relative_to(volume)


WORKSPACE = PurePosixPath("/workspace")

HOME = PurePosixPath("/home/agent")

TMP = PurePosixPath("/tmp")  # noqa: S108 - the container's own

LOBBY = PurePosixPath("/.youbencha")
"""Where the harness's own things are: the first program, its lifeline, the doors."""

REFUSED = "SANDBOX_SHARE_REFUSED"

_OWN = (WORKSPACE, HOME, TMP, LOBBY)

_SYSTEM = ("bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "proc", "root", "run", "sbin", "sys")

_OF_THE_IMAGE = frozenset(
    PurePosixPath("/", name) for name in (*_SYSTEM, "usr", "usr/bin", "usr/lib", "usr/local", "usr/local/bin", "var")
)
"""Hiding one of these would leave no image to run in."""

_OF_THE_KERNEL = tuple(PurePosixPath("/", name) for name in ("dev", "proc", "sys"))


class Mount(NamedTuple):
    outside: Path
    inside: PurePosixPath
    writable: bool

    def as_docker(self) -> dict[str, Any]:
        # `Mounts` and not `Binds`: with those, a source that is missing is made, as root.
        return {
            "Type": "bind",
            "Source": str(self.outside),
            "Target": str(self.inside),
            "ReadOnly": not self.writable,
        }


class Mounts:
    """The one list of all that is shared, and the way from a path of one side to the other."""

    def __init__(self, workspace: Path, home: Path, tmp: Path, volumes: Sequence[PurePosixPath] = ()) -> None:
        """`volumes`: the image's own, the outer ones first. Those that cannot stay get a directory beside the home."""
        self._own = (
            Mount(workspace.absolute(), WORKSPACE, writable=True),
            Mount(home.absolute(), HOME, writable=True),
            Mount(tmp.absolute(), TMP, writable=True),
        )
        self._volumes = volumes
        self._instead = home.absolute().parent / "volumes"
        self._shared: dict[Path, bool] = {}

    def share(self, path: Path, *, writable: bool) -> None:
        path = Path(posixpath.normpath(path.absolute()))
        _check(path)
        for each in {path, path.resolve()}:  # a program may ask where a link leads, and go there
            if each == path or _is_harmless(each):
                self._shared[each] = writable or self._shared.get(each, False)

    def all(self) -> list[Mount]:
        """The outer ones first."""
        shared = [Mount(path, PurePosixPath(path), writable) for path, writable in sorted(self._shared.items())]
        seen = [*self._own, *(mount for mount in shared if not self._is_covered(mount))]
        return [*seen, *self._instead_of_volumes([mount.inside for mount in seen])]

    def writable(self) -> list[Path]:
        """Where an agent can write."""
        return [mount.outside for mount in self.all() if mount.writable]

    def inside(self, path: Path) -> str:
        path = Path(posixpath.normpath(path.absolute()))
        for mount in sorted(self.all(), key=lambda mount: len(mount.outside.parts), reverse=True):
            if path.is_relative_to(mount.outside):
                return str(mount.inside / path.relative_to(mount.outside))
        raise ValueError(f"{path} is not shared with the container")

    def outside(self, path: str) -> Path | None:
        """By its name alone: what a name that an agent chose leads to on the host is not looked at."""
        named = PurePosixPath(posixpath.normpath(WORKSPACE / path))
        for mount in sorted(self.all(), key=lambda mount: len(mount.inside.parts), reverse=True):
            if named.is_relative_to(mount.inside):
                return mount.outside / named.relative_to(mount.inside)
        return None

    def make_places(self) -> None:
        """Mounts within one of our own need something to be mounted on; the engine would make it as root."""
        mounts = self.all()
        ours = [*self._own, *(mount for mount in mounts if mount.outside.parent == self._instead)]
        for own in ours[len(self._own) :]:
            own.outside.mkdir(parents=True, exist_ok=True)
        for mount in mounts:
            for own in ours:
                if mount.inside != own.inside and mount.inside.is_relative_to(own.inside):
                    _make_place(own, mount)

    def _instead_of_volumes(self, seen: list[PurePosixPath]) -> Iterator[Mount]:
        for number, volume in enumerate(self._volumes):
            if volume not in seen and any(touches(volume, each) for each in seen):
                seen.append(volume)
                yield Mount(self._instead / str(number), volume, writable=True)

    def _is_covered(self, mount: Mount) -> bool:
        """What lies in a shared directory is seen already."""
        return any(
            mount.outside != path and mount.outside.is_relative_to(path) and (writable or not mount.writable)
            for path, writable in self._shared.items()
        )


def _make_place(own: Mount, mount: Mount) -> None:
    try:
        make_place(own.outside, mount.inside.relative_to(own.inside), directory=mount.outside.is_dir())
    except OSError as error:
        raise YouBenchaError(
            REFUSED,
            f"{mount.outside} cannot be shared with a container: what runs in there has put something else at that "
            f"place ({error.strerror}).",
            hint="Share it before the first command runs, or keep it outside /tmp and /home.",
        ) from error


def _check(path: Path) -> None:
    if not _is_harmless(path):
        raise YouBenchaError(
            REFUSED,
            f"{path} cannot be shared with a container: it would hide what is there under that name.",
            hint="Share a directory further down, or move what is needed elsewhere.",
        )


def _is_harmless(path: Path) -> bool:
    inside = PurePosixPath(path)
    hides_ours = any(own.is_relative_to(inside) for own in _OWN)
    in_ours = inside.is_relative_to(WORKSPACE) or inside.is_relative_to(LOBBY)
    of_kernel = any(inside.is_relative_to(place) for place in _OF_THE_KERNEL)
    return not (hides_ours or in_ours or of_kernel or inside in _OF_THE_IMAGE)


# Places to mount something on, in a directory where an agent may have been before.

_WAY = getattr(os, "O_PATH", 0) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)


def make_place(root: Path, name: PurePosixPath, *, directory: bool) -> None:
    """An empty directory or file `name` below `root`, unless it is there already. Raises OSError if another thing is.

    No link is followed: an agent could have made one that leads to the harness's own files.
    """
    at = os.open(root, _WAY & ~getattr(os, "O_NOFOLLOW", 0))
    try:
        for part in name.parts if directory else name.parts[:-1]:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, dir_fd=at)
            deeper = os.open(part, _WAY, dir_fd=at)
            os.close(at)
            at = deeper
        if not directory:
            _make_file(name.name, at)
    finally:
        os.close(at)


def _make_file(name: str, directory: int) -> None:
    try:
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode=0o644, dir_fd=directory))
    except FileExistsError:
        if not stat.S_ISREG(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            raise
