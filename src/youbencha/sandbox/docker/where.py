"""Where a container engine listens on this computer."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from youbencha.errors import YouBenchaError

UNIX = "unix://"
NO_ENGINE = "SANDBOX_NO_ENGINE"
REMOTE_ENGINE = "SANDBOX_ENGINE_REMOTE"


def find_engine(env: Mapping[str, str] = os.environ) -> Path:
    """The socket of the engine: the one that the environment names, or the first that is there."""
    if host := env.get("DOCKER_HOST"):
        return _named(host)
    for path in candidates(env):
        if path.is_socket():
            return path
    raise YouBenchaError(
        NO_ENGINE,
        "There is no container engine: neither Docker nor Podman listens at any of the usual places.",
        hint="Start Docker (or `systemctl --user start podman.socket`), set DOCKER_HOST to its socket, "
        "or run without a container: `sandbox: local`.",
    )


def candidates(env: Mapping[str, str]) -> Iterator[Path]:
    """Docker first, then Podman; of each, the system's before the user's own."""
    yield Path("/var/run/docker.sock")
    runtime = env.get("XDG_RUNTIME_DIR")
    if runtime:
        yield Path(runtime, "docker.sock")
    if home := env.get("HOME"):
        yield Path(home, ".docker/run/docker.sock")
    yield Path("/run/podman/podman.sock")
    if runtime:
        yield Path(runtime, "podman/podman.sock")


def _named(host: str) -> Path:
    if host.startswith(UNIX):
        return Path(host.removeprefix(UNIX))
    raise YouBenchaError(
        REMOTE_ENGINE,
        f"DOCKER_HOST names an engine that is reached by {host.partition(':')[0]}, not by a Unix socket.",
        hint="Only an engine on this host is supported, because containers share files and Unix sockets with it: "
        "run youBencha on the engine's host, or unset DOCKER_HOST.",
    )
