"""The image that another is built from: whether it is there, and what it has."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from youbencha.errors import YouBenchaError
from youbencha.sandbox.docker import labels
from youbencha.sandbox.images.engine import refused
from youbencha.sandbox.images.packages import ImagePython
from youbencha.sandbox.toolbox import Progress

if TYPE_CHECKING:
    import aiodocker

_MISSING = 404
_ASK = """
import json, platform, shutil, sys
missing = [name for name in ("bash", "git", "useradd") if not shutil.which(name)]
print(json.dumps([sys.version_info[:2], platform.machine(), platform.libc_ver(), missing]))
"""
_HINT = (
    "The image needs Debian's or another glibc, python3 (3.11 or newer), git, bash and useradd. "
    "Choose one with --base; in a checkout of youBencha, `scripts/docker-engine start` makes youbencha/base:bookworm."
)


async def ask_base(client: aiodocker.Docker, base: str, progress: Progress) -> ImagePython:
    """Its Python; an error that says what is wrong with the image if nothing can be built from it."""
    await _have(client, base, progress)
    version, machine, (libc, release), missing = await _asked(client, base)
    if missing:
        raise _unfit(base, f"has no {', no '.join(missing)}")
    if libc != "glibc":
        raise _unfit(base, "is not made with glibc")
    if tuple(version) < (3, 11):
        raise _unfit(base, f"has Python {version[0]}.{version[1]}")
    major, minor = (int(part) for part in release.split(".")[:2])
    return ImagePython((version[0], version[1]), machine, (major, minor))


async def _have(client: aiodocker.Docker, base: str, progress: Progress) -> None:
    from aiodocker import DockerError

    try:
        await client.images.inspect(base)
        return
    except DockerError as error:
        if error.status != _MISSING:
            raise refused("look at the base image", error) from error
    progress(f"fetching {base}")
    try:
        await client.images.pull(base)
    except DockerError as error:
        raise YouBenchaError(
            "IMAGE_BASE_MISSING",
            f"the engine does not have the base image {base}, and cannot fetch it: {error.message}",
            hint=_HINT,
        ) from error


async def _asked(client: aiodocker.Docker, base: str) -> Any:
    from aiodocker import DockerError

    config: dict[str, Any] = {
        "Image": base,
        "Entrypoint": ["python3"],
        "Cmd": ["-I", "-c", _ASK],
        # So that what is left of a builder that was killed is removed with what trials left.
        "Labels": {labels.OURS: "1", labels.OWNER: str(labels.this_owner()), labels.RUN: f"images-{os.getpid()}"},
        "HostConfig": {"NetworkMode": "none", "CapDrop": ["ALL"]},
    }
    try:
        container = await client.containers.create(config)
        try:
            await container.start()
            ended = await container.wait()
            said = "".join(await container.log(stdout=True, stderr=True))
        finally:
            await container.delete(force=True)
    except DockerError as error:
        raise _unfit(base, f"does not run python3: {error.message}") from error
    if ended["StatusCode"] != 0:
        raise _unfit(base, f"does not run python3: {said.strip()[-300:]}")
    return json.loads(said.strip().splitlines()[-1])


def _unfit(base: str, why: str) -> YouBenchaError:
    return YouBenchaError("IMAGE_BASE_UNFIT", f"the base image {base} {why}", hint=_HINT)
