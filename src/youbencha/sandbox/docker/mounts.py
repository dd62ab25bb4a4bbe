"""The paths of the host that are mounted in a container."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.files import nofollow_directory

WORKSPACE = PurePosixPath("/workspace")
HOME = PurePosixPath("/home/agent")
TMP = PurePosixPath("/tmp")  # noqa: S108 - the container's own
HARNESS = PurePosixPath("/.youbencha")
"""The directory for the harness's files: the init program and the sockets."""
INIT = HARNESS / "init"
CHANNEL = HARNESS / "life.sock"
"""The socket of `channel.InitChannel`."""
PORTS = HARNESS / "ports"
"""The sockets of forwarded ports."""

_SHARE_REFUSED = "SANDBOX_SHARE_REFUSED"
_OWN = (WORKSPACE, HOME, TMP, HARNESS)
_SYSTEM = ("bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "proc", "root", "run", "sbin", "sys")
_SYSTEM_DIRECTORIES = frozenset(
    PurePosixPath("/", name) for name in (*_SYSTEM, "usr", "usr/bin", "usr/lib", "usr/local", "usr/local/bin", "var")
)
"""Directories that an image needs, and that no mount may hide."""
_KERNEL_DIRECTORIES = tuple(PurePosixPath("/", name) for name in ("dev", "proc", "sys"))


class Mount(NamedTuple):
    outside: Path
    inside: PurePosixPath
    writable: bool

    def as_docker(self) -> dict[str, Any]:
        # `Mounts`, because `Binds` would create a missing source, as root.
        return {"Type": "bind", "Source": str(self.outside), "Target": str(self.inside), "ReadOnly": not self.writable}


class Mounts:
    """The mounts of a container; translates paths between the host and the container."""

    def __init__(self, workspace: Path, home: Path, tmp: Path, volumes: Sequence[PurePosixPath] = ()) -> None:
        """`volumes`: the image's, outer ones first. One that overlaps a mount gets a directory beside the home."""
        self._own = (
            Mount(workspace.absolute(), WORKSPACE, writable=True),
            Mount(home.absolute(), HOME, writable=True),
            Mount(tmp.absolute(), TMP, writable=True),
        )
        self._volumes = volumes
        self._volumes_dir = home.absolute().parent / "volumes"
        self._shared: dict[Path, bool] = {}
        self.protected: list[Path] = []

    def share(self, path: Path, *, writable: bool) -> None:
        """Mount a path of the host at the same path."""
        path = Path(posixpath.normpath(path.absolute()))
        if not _can_be_shared(path):
            raise YouBenchaError(
                _SHARE_REFUSED,
                f"{path} cannot be shared with a container: it would hide a directory that the container needs.",
                hint="Share a directory below it, or move what is needed elsewhere.",
            )
        for shared in {path, path.resolve()}:  # a program may resolve a link and use the real path
            if shared == path or _can_be_shared(shared):
                self._shared[shared] = writable or self._shared.get(shared, False)

    def forget_removed(self) -> None:
        """Forget what was shared for an earlier program, and is gone."""
        self._shared = {path: writable for path, writable in self._shared.items() if path.exists()}

    def protect(self, path: Path) -> None:
        """Mount a file or directory of the workspace once more, read-only; the directories above it too, as they are.

        A mount point cannot be renamed: otherwise, it could be moved away, and something else put in its place.
        """
        self.protected.append(path.absolute())

    def all(self) -> list[Mount]:
        """All mounts, outer ones first."""
        shared = [Mount(path, PurePosixPath(path), writable) for path, writable in sorted(self._shared.items())]
        mounts = [
            *self._own,
            *self._protected_mounts(),
            *(mount for mount in shared if not self._is_within_shared(mount)),
        ]
        return [*mounts, *self._volume_mounts([mount.inside for mount in mounts])]

    def writable(self) -> list[Path]:
        """The host's directories that an agent can write to."""
        paths = [mount.outside for mount in self.all() if mount.writable]
        return [path for path in paths if not any(parent in paths for parent in path.parents)]

    def inside(self, path: Path) -> str:
        """The path in the container. Raises ValueError if it is not shared."""
        path = Path(posixpath.normpath(path.absolute()))
        for mount in sorted(self.all(), key=lambda mount: len(mount.outside.parts), reverse=True):
            if path.is_relative_to(mount.outside):
                return str(mount.inside / path.relative_to(mount.outside))
        raise ValueError(f"{path} is not shared with the container")

    def outside(self, path: str) -> Path | None:
        """The path on the host; None if it is not shared, or behind a link, which leads elsewhere on the host."""
        named = PurePosixPath(posixpath.normpath(WORKSPACE / path))
        for mount in sorted(self.all(), key=lambda mount: len(mount.inside.parts), reverse=True):
            if named.is_relative_to(mount.inside):
                below = named.relative_to(mount.inside)
                behind_link = any((mount.outside / part).is_symlink() for part in (below, *below.parents)[:-1])
                return None if behind_link else mount.outside / below
        return None

    def make_mount_points(self) -> None:
        """Create the mount points within our mounts, because the engine would create them as root."""
        mounts = self.all()
        volumes = [mount for mount in mounts if mount.outside.parent == self._volumes_dir]
        for volume in volumes:
            volume.outside.mkdir(parents=True, exist_ok=True)
        for mount in mounts:
            for own in (*self._own, *volumes):
                if mount.inside != own.inside and mount.inside.is_relative_to(own.inside):
                    _make_mount_point_in(own, mount)

    def _protected_mounts(self) -> Iterator[Mount]:
        """Without those that were replaced by a link: the engine would follow it, and mount what it leads to."""
        workspace = self._own[0]
        for path in self.protected:
            below = path.relative_to(workspace.outside)
            way = [workspace.outside / part for part in (below, *below.parents)[:-1]]
            if path.exists() and not any(step.is_symlink() for step in way):
                for step in reversed(way):
                    inside = WORKSPACE / step.relative_to(workspace.outside)
                    yield Mount(step, inside, writable=step != path)

    def _volume_mounts(self, seen: list[PurePosixPath]) -> Iterator[Mount]:
        """A directory of the harness for each volume that overlaps a mount."""
        for number, volume in enumerate(self._volumes):
            if volume not in seen and any(volume.is_relative_to(path) or path.is_relative_to(volume) for path in seen):
                seen.append(volume)
                yield Mount(self._volumes_dir / str(number), volume, writable=True)

    def _is_within_shared(self, mount: Mount) -> bool:
        """Whether the path is in a directory that is already shared."""
        return any(
            mount.outside != path and mount.outside.is_relative_to(path) and (writable or not mount.writable)
            for path, writable in self._shared.items()
        )


def _can_be_shared(path: Path) -> bool:
    inside = PurePosixPath(path)
    hides_ours = any(own.is_relative_to(inside) for own in _OWN)
    is_in_ours = inside.is_relative_to(WORKSPACE) or inside.is_relative_to(HARNESS)
    is_kernels = any(inside.is_relative_to(directory) for directory in _KERNEL_DIRECTORIES)
    return not (hides_ours or is_in_ours or is_kernels or inside in _SYSTEM_DIRECTORIES)


def _make_mount_point_in(own: Mount, mount: Mount) -> None:
    try:
        make_mount_point(own.outside, mount.inside.relative_to(own.inside), directory=mount.outside.is_dir())
    except OSError as error:
        raise YouBenchaError(
            _SHARE_REFUSED,
            f"{mount.outside} cannot be shared with a container: a program in it has put something else at that path "
            f"({error.strerror}).",
            hint="Share it before the first command runs, or keep it outside /tmp and /home.",
        ) from error


def make_mount_point(root: Path, name: PurePosixPath, *, directory: bool) -> None:
    """Create an empty directory or file `name` below `root`, unless it exists. Raises OSError if something else does.

    No link is followed: an agent may have created one to the harness's own files.
    """
    with nofollow_directory(root, str(name if directory else name.parent)) as place:
        if not directory:
            os.close(place.open(name.name, os.O_WRONLY))
