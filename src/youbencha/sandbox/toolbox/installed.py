"""Versions of agent CLIs, and installed ones: the version that a CLI reports, its `manifest.json`, its command line."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from packaging.version import InvalidVersion, Version
from pydantic import BaseModel, ConfigDict, Field

from youbencha.errors import YouBenchaError
from youbencha.files import is_directory, walk
from youbencha.process import Command, Limits, ProcessResult, ProcessStartError, find_executable
from youbencha.process.environment import PROGRAM, select
from youbencha.sandbox.base import Sandbox
from youbencha.sandbox.local import HOST

PackageSource = Literal["pypi", "npm"]
MANIFEST = "manifest.json"
MANIFEST_FORMAT = 1
_SCRIPTS = {".js", ".cjs", ".mjs"}
LATEST = "latest"

# A version becomes the name of a directory: it starts with a digit, without separators, so it cannot leave its parent.
_VERSION = re.compile(r"\d+(\.\d+)*([-.+]?[0-9A-Za-z]+)*", re.ASCII)
_PRINTED = re.compile(r"\d+(?:\.\d+)+(?:[-+][0-9A-Za-z]+(?:\.[0-9A-Za-z]+)*)?", re.ASCII)
_PRINTED_ALONE = re.compile(rf"^v?({_PRINTED.pattern})(?: \([^()]*\))?\s*$", re.ASCII | re.MULTILINE)
"""A version on a line with nothing else but the program's name."""
_NUMBERS = re.compile(r"\d+(\.\d+)*", re.ASCII)
MAX_VERSION_CHARS = 64
_TIMEOUT_S = 120.0  # the first start of a 350 MB binary from a cold disk was seen to take 15 s
MAX_ANSWER_CHARS = 300
# Nothing should be downloaded for this: no newer version of the CLI, and no price list (LiteLLM).
_QUIET = {"DISABLE_AUTOUPDATER": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}


def is_version(text: str) -> bool:
    return len(text) <= MAX_VERSION_CHARS and _VERSION.fullmatch(text) is not None


def parse_version(text: str | None) -> str | None:
    """Return the requested version; None for the newest."""
    if text is None or text == LATEST:
        return None
    if not is_version(text):
        raise YouBenchaError(
            "AGENT_VERSION_INVALID",
            f"{text!r} is not a valid version",
            hint="Give a number such as 2.0.62, or `latest`.",
        )
    return text


def sort_key(version: str) -> tuple[Version, str]:
    """Return a key for sorting: 2.0.9 < 2.0.10-nightly.x < 2.0.10-beta.2 < 2.0.10-beta.10 < 2.0.10."""
    try:
        return Version(version), ""
    except InvalidVersion:  # npm allows any words in a pre-release
        numbers = _NUMBERS.match(version)
        return Version(f"{numbers[0] if numbers else 0}.dev0"), version


def newest_first(versions: Iterable[str]) -> list[str]:
    return sorted(versions, key=sort_key, reverse=True)


def printed_version(output: str) -> str | None:
    """Return the version in the output of `--version`: `2.0.62 (Claude Code)`, `codex-cli 0.166.0`, `aider 0.86.2`.

    A wrapper may print lines with other versions before it.
    """
    if alone := _PRINTED_ALONE.search(output):
        return alone[1]
    match = _PRINTED.search(output)
    return match.group() if match else None


@dataclass(frozen=True, slots=True)
class VersionAnswer:
    version: str | None
    """None unless the program printed one and exited with 0."""
    said: str
    """The end of its output; may be empty."""
    ending: str
    """How it ended: `exit code 1`."""


async def ask_version(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str], within: Sandbox = HOST
) -> VersionAnswer:
    """Run `COMMAND --version`. Raises ProcessStartError if it does not start."""
    lines: list[bytes] = []
    question = Command(argv=(*command, "--version"), cwd=cwd, env=env)
    result = await within.run(question, limits=Limits(timeout_s=_TIMEOUT_S), on_line=lines.append)
    # Not from stderr: a warning may contain a path, and our paths contain version numbers.
    version = printed_version(b"\n".join(lines).decode(errors="replace"))
    return VersionAnswer(
        version if result.exit.code == 0 else None, result.output.strip()[-MAX_ANSWER_CHARS:], _ending(result)
    )


async def read_version(command: Sequence[str], home: Path) -> str:
    """Return the version that a CLI reports, run without the user's environment; raise an error if it reports none.

    The caller removes `home` afterwards: Copilot unpacks 235 MB there.
    """
    try:
        answer = await ask_version(command, cwd=home, env=_clean_environment(home))
    except ProcessStartError as error:
        raise _cannot_run(command, error.message) from error
    if answer.version is None:
        raise _cannot_run(command, f"{answer.ending}: {answer.said or 'no output'}")
    return answer.version


def _ending(result: ProcessResult) -> str:
    if result.timed_out:
        return f"did not end within {_TIMEOUT_S:.0f} s"
    return f"exit code {result.exit.code}" if result.exit.code is not None else f"ended by {result.exit.signal}"


def _clean_environment(home: Path) -> Mapping[str, str]:
    kept = select(os.environ, PROGRAM)
    places = dict.fromkeys(("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA"), str(home))
    return kept | places | _QUIET


def _cannot_run(command: Sequence[str], reason: str) -> YouBenchaError:
    return YouBenchaError(
        "AGENT_CANNOT_RUN",
        f"`{' '.join(command)} --version` failed: {reason}",
        hint="This build may not run on this host (processor, C library). Try another version.",
    )


class InstalledAgent(BaseModel):
    """An installed version. Its manifest has the same fields, but a relative path, so that a toolbox can be moved."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    agent: str
    version: str
    executable: Path
    """The absolute path of the real file, never a link or a shim."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """The digest of the executable; for a JavaScript CLI, of its entry script."""
    source: PackageSource
    package: str
    """The package in the package manager's notation: `claude-agent-sdk==0.2.182`, `@openai/codex@0.166.0`."""
    size_bytes: Annotated[int, Field(ge=0)]
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


def write_manifest(agent: InstalledAgent, directory: Path) -> None:
    """Write an installation's manifest, and sync it to disk: a power cut must not leave an empty one."""
    executable = agent.executable.relative_to(directory).as_posix()
    manifest = {"format": MANIFEST_FORMAT, **agent.model_dump(mode="json"), "executable": executable}
    with (directory / MANIFEST).open("w", encoding="utf-8") as file:
        file.write(json.dumps(manifest, indent=2) + "\n")
        file.flush()
        os.fsync(file.fileno())


def read_installed(directory: Path) -> InstalledAgent | None:
    """Read the installation in `<root>/<agent>/<version>`; None if its manifest is missing or does not match."""
    try:
        manifest = json.loads((directory / MANIFEST).read_bytes())
        if manifest.pop("format", MANIFEST_FORMAT) != MANIFEST_FORMAT:
            return None
        inside = PurePosixPath(manifest["executable"])
        agent = InstalledAgent.model_validate({**manifest, "executable": directory.absolute() / inside})
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return None
    is_named_so = (agent.agent, agent.version) == (directory.parent.name, directory.name)
    if not is_named_so or inside.is_absolute() or ".." in inside.parts or not agent.executable.is_file():
        return None
    return agent


def version_directories(home: Path) -> list[Path]:
    """The directories of an agent's versions."""
    try:
        return sorted(path for path in home.iterdir() if is_version(path.name) and path.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def installed_in(home: Path) -> list[InstalledAgent]:
    """All usable versions of an agent, newest first."""
    agents = [agent for path in version_directories(home) if (agent := read_installed(path))]
    return sorted(agents, key=lambda agent: sort_key(agent.version), reverse=True)


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def directory_size(directory: Path) -> int:
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
    node = find_executable("node", env, platform=platform)
    if node is None:
        raise YouBenchaError(
            "NODE_NOT_FOUND",
            f"{what} is a JavaScript program, but `node` is not on PATH",
            hint="Install Node.js 20 or newer, and try again.",
        )
    return node


def command_for(executable: Path, env: Mapping[str, str] = os.environ, platform: str = sys.platform) -> tuple[str, ...]:
    """Return the start of the command line.

    Windows ignores `#!` lines; elsewhere they may have required options for Node.js. The path of Node.js is absolute,
    because Windows would first look for its bare name in the agent's repository.
    """
    if platform == "win32" and needs_node(executable):
        return (str(require_node(str(executable), env, platform)), str(executable))
    return (str(executable),)
