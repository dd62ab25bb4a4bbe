"""The images that were built here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from youbencha.sandbox.images.engine import image_engine, refused

YOUBENCHA = "youbencha.version"
AGENT = "youbencha.agent"
AGENT_VERSION = "youbencha.agent.version"
DIGEST = "youbencha.agent.sha256"


class ListedImage(NamedTuple):
    tag: str | None
    """None for one whose name another has taken."""
    agent: str
    version: str
    youbencha: str
    size_bytes: int
    created_at: str
    id: str


async def list_images(env: Mapping[str, str] = os.environ) -> list[ListedImage]:
    """By agent, and the newest first."""
    from aiodocker import DockerError

    async with image_engine(env) as client:
        try:
            found = await client.images.list(filters={"label": [AGENT]})
        except DockerError as error:
            raise refused("list its images", error) from error
    images = [image for each in found for image in _read(each)]
    images.sort(key=lambda image: image.created_at, reverse=True)
    return sorted(images, key=lambda image: image.agent)


def _read(found: Mapping[str, Any]) -> list[ListedImage]:
    labels = found["Labels"]
    created = datetime.fromtimestamp(found["Created"], UTC).isoformat(timespec="seconds")
    tags = [tag for tag in found.get("RepoTags") or () if tag != "<none>:<none>"] or [None]
    return [
        ListedImage(
            tag=tag,
            agent=labels[AGENT],
            version=labels.get(AGENT_VERSION, "unknown"),
            youbencha=labels.get(YOUBENCHA, "unknown"),
            size_bytes=found["Size"],
            created_at=created,
            id=found["Id"],
        )
        for tag in tags
    ]
