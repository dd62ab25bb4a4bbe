"""What the engine says when something goes wrong, in our words."""

from __future__ import annotations

from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.sandbox.docker.where import NO_ENGINE

ENGINE_FAILED = "SANDBOX_ENGINE_FAILED"
ENGINE_DENIED = "SANDBOX_ENGINE_DENIED"


def not_there(socket: Path, error: BaseException, waited_s: float) -> YouBenchaError:
    cause = error.__cause__ or error
    if isinstance(cause, PermissionError) or isinstance(getattr(error, "os_error", None), PermissionError):
        return YouBenchaError(
            ENGINE_DENIED,
            f"This user may not use the container engine at {socket}.",
            hint="Add yourself to the group `docker` (then log in again), or use a rootless engine.",
        )
    if isinstance(error, TimeoutError):
        return YouBenchaError(
            NO_ENGINE,
            f"The container engine at {socket} takes calls, but said nothing for {waited_s:g} seconds.",
            hint="It hangs, or is still starting: look at `docker info`, start it anew, or set DOCKER_HOST to another.",
        )
    return YouBenchaError(
        NO_ENGINE,
        f"The container engine at {socket} does not answer: {reason_of(error)}",
        hint="Start it, or set DOCKER_HOST to the socket of one that runs.",
    )


def no_name(image: str, reason: str) -> YouBenchaError:
    return YouBenchaError(
        "SANDBOX_IMAGE_INVALID",
        f"{image!r} is no name of an image: {reason}",
        hint="Names are in lower case, without spaces: NAME, NAME:TAG or NAME@sha256:DIGEST, such as debian:bookworm.",
    )


_HINTS = {
    "bind source path does not exist": "The engine does not see this computer's files. Is the harness itself in a "
    "container, or the engine a snap? Run both side by side, or set TMPDIR to a directory that both see.",
    "read-only file system": "Something has no place to be mounted on. Does the image declare a VOLUME within another "
    "VOLUME, without having that directory? Then use an image that does not.",
    "no space left": "Free some space where the engine keeps its files: `docker system df`, `docker system prune`.",
    "": "Its own log says more (`journalctl -u docker`). `docker info` tells whether it still works.",
}


def failed(what: str, reason: str) -> YouBenchaError:
    hint = next(hint for words, hint in _HINTS.items() if words in reason)
    return YouBenchaError(ENGINE_FAILED, f"The container engine could not {what}: {reason}", hint=hint)


class explained:  # noqa: N801 - reads as a word: with explained("…")
    """Turns what the engine says into our error."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        from aiodocker import DockerError

        if isinstance(error, (DockerError, OSError, TimeoutError)):
            raise failed(self._what, reason_of(error)) from error


def reason_of(error: BaseException) -> str:
    return str(getattr(error, "message", None) or error or type(error).__name__).strip()
