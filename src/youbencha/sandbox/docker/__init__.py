"""Containers as sandboxes: Docker, or Podman through its Docker-compatible socket. Start at `sandbox.py`."""
