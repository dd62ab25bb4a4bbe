"""The engine that images are built on."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from youbencha.errors import YouBenchaError
from youbencha.sandbox.docker.where import NO_ENGINE, UNIX, find_engine

if TYPE_CHECKING:
    import aiodocker


@asynccontextmanager
async def image_engine(env: Mapping[str, str] = os.environ) -> AsyncIterator[aiodocker.Docker]:
    """Unlike a trial, a build shares nothing with this computer: any engine will do that answers here."""
    import aiodocker

    socket = find_engine(env)
    async with aiodocker.Docker(f"{UNIX}{socket}") as client:
        try:
            await client.version()
        except (OSError, TimeoutError, aiodocker.DockerError) as error:
            raise YouBenchaError(
                NO_ENGINE,
                f"The container engine at {socket} does not answer: {getattr(error, 'message', error)}",
                hint="Start it, or set DOCKER_HOST to the socket of one that runs.",
            ) from error
        yield client


def refused(what: str, error: aiodocker.DockerError) -> YouBenchaError:
    return YouBenchaError(
        "IMAGE_ENGINE_FAILED",
        f"the container engine could not {what}: {error.message}",
        hint="Its own log says more. `docker info` tells whether it still works.",
    )
