"""The image that a container starts from: there already, or fetched once."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.sandbox.docker.engine import Engine

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
