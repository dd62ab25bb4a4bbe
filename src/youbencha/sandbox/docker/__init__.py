"""Containers as sandboxes: Docker, or Podman by its Docker-compatible socket.

async with open_docker_sandbox(spec, workspace=tree, scratch=scratch, run_id=run, on_event=sink) as sandbox:
    door = sandbox.door(4000)  # the gateway listens at door.socket
    result = await sandbox.run(command)
    await sandbox.freeze()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from youbencha.later import imported_when_asked

if TYPE_CHECKING:
    from youbencha.sandbox.docker.opening import open_docker_sandbox
    from youbencha.sandbox.docker.reaper import Reaped, reap_containers
    from youbencha.sandbox.docker.sandbox import DockerSandbox, Identity

__all__ = ["DockerSandbox", "Identity", "Reaped", "open_docker_sandbox", "reap_containers"]

_HOMES = {
    "DockerSandbox": "sandbox",
    "Identity": "sandbox",
    "Reaped": "reaper",
    "open_docker_sandbox": "opening",
    "reap_containers": "reaper",
}
"""A run without a container needs none of it."""

__getattr__ = imported_when_asked(__name__, _HOMES)
