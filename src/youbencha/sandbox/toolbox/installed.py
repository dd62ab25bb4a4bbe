"""An installed version of an agent CLI: its `manifest.json` and its command line."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from youbencha.errors import YouBenchaError
from youbencha.files import is_directory, walk
from youbencha.process import find_executable
from youbencha.sandbox.toolbox.versions import is_version, sort_key

PackageSource = Literal["pypi", "npm"]
MANIFEST = "manifest.json"
_SCRIPTS = {".js", ".cjs", ".mjs"}


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledAgent:
    agent: str
    version: str
    executable: Path
    """The absolute path of the real file, never a link or a shim."""
    sha256: str
    """The digest of the executable; for a JavaScript CLI, of its entry script."""
    source: PackageSource
    package: str
    """In the package manager's notation: `claude-agent-sdk==0.2.182`, `@openai/codex@0.166.0`."""
    size_bytes: int
    """The size of all installed files."""
    installed_at: str

    @property
    def directory(self) -> Path:
        """`<root>/<agent>/<version>`."""
        named = (self.agent, self.version)
        return next(path for path in self.executable.parents if (path.parent.name, path.name) == named)

    @property
    def needs_node(self) -> bool:
        return needs_node(self.executable)

    @property
    def command(self) -> tuple[str, ...]:
        """The start of the command line."""
        return command_for(self.executable)


class Manifest(BaseModel):
    """`InstalledAgent` on disk, with a relative path, so that a toolbox can be moved."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    agent: str
    version: str
    executable: str
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    source: PackageSource
    package: str
    size_bytes: Annotated[int, Field(ge=0)]
    installed_at: str


def write_manifest(manifest: Manifest, directory: Path) -> None:
    """Sync it to disk before the directory gets its final name: a power cut must not leave an empty manifest."""
    with (directory / MANIFEST).open("w", encoding="utf-8") as file:
        file.write(manifest.model_dump_json(indent=2) + "\n")
        file.flush()
        os.fsync(file.fileno())


def read_installed(directory: Path) -> InstalledAgent | None:
    """Read the installation in `<root>/<agent>/<version>`; None if its manifest is missing or does not match."""
    try:
        manifest = Manifest.model_validate_json((directory / MANIFEST).read_bytes())
    except (OSError, ValidationError):
        return None
    inside = PurePosixPath(manifest.executable)
    executable = directory.absolute() / inside
    named = (manifest.agent, manifest.version) == (directory.parent.name, directory.name)
    if not named or inside.is_absolute() or ".." in inside.parts or not executable.is_file():
        return None
    fields = manifest.model_dump(exclude={"format", "executable"})
    return InstalledAgent(executable=executable, **fields)


def version_directories(home: Path) -> list[Path]:
    """The directories of an agent's versions."""
    try:
        return sorted(path for path in home.iterdir() if is_version(path.name) and path.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def installed_in(home: Path) -> list[InstalledAgent]:
    """All usable versions of an agent, newest first."""
    found = [have for path in version_directories(home) if (have := read_installed(path))]
    return sorted(found, key=lambda have: sort_key(have.version), reverse=True)


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def bytes_under(directory: Path) -> int:
    """The size of all files in a directory, which may change meanwhile."""
    total = 0
    for entry in walk(directory):
        with suppress(OSError):
            if not is_directory(entry):
                total += entry.stat(follow_symlinks=False).st_size
    return total


def needs_node(executable: Path) -> bool:
    return executable.suffix in _SCRIPTS


def require_node(what: str, env: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path:
    """Return the path of `node`, or raise an error that says how to install it."""
    found = find_executable("node", env, platform=platform)
    if found is None:
        raise YouBenchaError(
            "NODE_NOT_FOUND",
            f"{what} is a JavaScript program, but `node` is not on PATH",
            hint="Install Node.js 20 or newer, and try again.",
        )
    return found


def command_for(executable: Path, env: Mapping[str, str] = os.environ, platform: str = sys.platform) -> tuple[str, ...]:
    """Return the start of the command line.

    Windows ignores `#!` lines; elsewhere they may have required options for Node.js. The path of Node.js is absolute,
    because Windows would first look for its bare name in the agent's repository.
    """
    if platform == "win32" and needs_node(executable):
        return (str(require_node(str(executable), env, platform)), str(executable))
    return (str(executable),)
