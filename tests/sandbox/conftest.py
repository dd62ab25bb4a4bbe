"""Some tests here need a container engine."""

from docker_engine import engine, image

__all__ = ["engine", "image"]
