"""What an image declares as its VOLUMEs: the engine would make each a writable directory that nobody counts.

So each is covered. Most are as read-only as the image around them, with what the image has there: they belong to a
container that is never started, and the others borrow them. A volume that touches what is shared with the container is
replaced by a directory of the harness, which is counted like the home.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from youbencha.errors import YouBenchaError
from youbencha.sandbox.docker.engine import Engine


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


def keeper_of(sandbox: str) -> str:
    """The container that has the volumes. With the last that borrows them, they are gone as well."""
    return f"{sandbox}-volumes"


async def keep_volumes(engine: Engine, image: str, sandbox: str, labels: Mapping[str, str]) -> None:
    await engine.create(keeper_of(sandbox), {"Image": image, "Cmd": ["never-started"], "Labels": dict(labels)})


def touches(volume: PurePosixPath, place: PurePosixPath) -> bool:
    """Whether one lies in the other."""
    return volume.is_relative_to(place) or place.is_relative_to(volume)
