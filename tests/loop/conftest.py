"""Fixtures of a container engine; tests that use them are skipped without one."""

from docker_engine import engine, image

__all__ = ["engine", "image"]
