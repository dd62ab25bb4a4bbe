"""Some tests here need a container engine."""

from docker_lab import engine, image

__all__ = ["engine", "image"]
