"""Containers as sandboxes: Docker, or Podman by its Docker-compatible socket.

async with open_docker_sandbox(spec, workspace=tree, scratch=scratch, run_id=run, on_event=sink) as sandbox:
    door = sandbox.door(4000)  # the gateway listens at door.socket
    result = await sandbox.run(command)
    await sandbox.freeze()
"""

from __future__ import annotations
