"""The first program of every container: a few C files, compiled once on this computer, and kept."""

from youbencha.sandbox.docker.inside.build import inside_program

__all__ = ["inside_program"]
