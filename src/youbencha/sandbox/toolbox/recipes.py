"""The three ways to get an agent CLI, as plain data. How each is done is in `sources/`.

`about_mb` is what travels over the network for the newest release, measured on Linux x64.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from youbencha.sandbox.toolbox.installed import Source


@dataclass(frozen=True, slots=True)
class Carrier:
    release: str
    about_mb: int


@dataclass(frozen=True, slots=True)
class Wheel:
    """A Python wheel that carries the CLI as one binary. Only that file is kept; the wheel is never installed."""

    kind: ClassVar[Source] = "pypi"
    package: str
    binary: str
    """Inside the wheel, without `.exe`."""
    version_file: str
    """Inside the wheel: the Python file that names the version of the CLI."""
    about_mb: int
    known: Mapping[str, Carrier] = field(default_factory=dict)
    """Version of the CLI -> the release of the package that carries it. They are numbered independently."""


@dataclass(frozen=True, slots=True)
class Npm:
    """An npm package, with all it depends on."""

    kind: ClassVar[Source] = "npm"
    package: str
    about_mb: int
    native: tuple[str, ...] = ()
    """Globs under `node_modules` for the platform's own binary, without `.exe`. None found: the `bin` entry is used."""


@dataclass(frozen=True, slots=True)
class Venv:
    """A Python package in a virtual environment of its own."""

    kind: ClassVar[Source] = "pypi"
    package: str
    module: str
    """Run as `python -m MODULE`."""
    extra: str | None = None
    """An optional part of the package, which is to be installed with it."""


Recipe = Wheel | Npm | Venv
