"""Find the CLI to run: an explicit path, then PATH, then the toolbox; and learn its version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from youbencha.adapters.claude_code.codes import VERSION_UNKNOWN
from youbencha.adapters.claude_code.config import ClaudeCodeConfig
from youbencha.adapters.claude_code.errors import cli_not_found
from youbencha.adapters.claude_code.versions import CliVersion
from youbencha.errors import YouBenchaError
from youbencha.process import ProcessStartError, find_executable
from youbencha.sandbox.toolbox import Toolbox, ask_version, default_root

AGENT = "claude-code"
_COMMAND = "claude"
_INSTALL_HINT = "Install it with `yb agents install claude-code{version}`, or set agent.config.executable."


@dataclass(frozen=True)
class Cli:
    path: Path
    version: CliVersion
    command: tuple[str, ...] = ()
    """How it is started, where that is more than its path (a script on Windows)."""
    sha256: str | None = None
    """Known for what is in the toolbox."""

    @property
    def argv(self) -> tuple[str, ...]:
        return self.command or (str(self.path),)


async def locate_cli(config: ClaudeCodeConfig, env: Mapping[str, str]) -> Cli:
    """The CLI that this configuration asks for; an error that says how to get it if there is none."""
    if config.executable is not None:
        return await _explicit(Path(config.executable).expanduser(), config.version, env)
    found = await find_cli(env, config.version)
    if found is None:
        wanted = f" {config.version}" if config.version else ""
        at_version = f"@{config.version}" if config.version else ""
        raise cli_not_found(
            f"Claude Code{wanted} is neither on PATH nor in the toolbox.", _INSTALL_HINT.format(version=at_version)
        )
    return found


async def find_cli(env: Mapping[str, str], version: str | None = None) -> Cli | None:
    """On PATH, else in the toolbox; with a version, whichever of them has it."""
    on_path = await _on_path(env, version)
    if on_path is not None:
        return on_path
    installed = Toolbox(default_root(env)).find(AGENT, version)
    if installed is None:
        return None
    known = CliVersion.parse(installed.version)
    version_here = known or await cli_version(installed.executable, env)
    return Cli(installed.executable, version_here, installed.command, installed.sha256)


async def _on_path(env: Mapping[str, str], version: str | None) -> Cli | None:
    path = find_executable(_COMMAND, env)
    if path is None:
        return None
    try:
        cli = Cli(path, await cli_version(path, env))
    except YouBenchaError:
        if version is None:
            raise
        return None  # a broken one on PATH is no reason not to use the version that was asked for
    return cli if version in (None, str(cli.version)) else None


async def _explicit(path: Path, version: str | None, env: Mapping[str, str]) -> Cli:
    if not path.is_file():
        raise cli_not_found(f"agent.config.executable: there is no file {path}.", "Correct the path, or leave it out.")
    cli = Cli(path.resolve(), await cli_version(path.resolve(), env))
    if version not in (None, str(cli.version)):
        raise cli_not_found(
            f"{path} is Claude Code {cli.version}, but agent.config.version asks for {version}.",
            "Leave out one of the two.",
        )
    return cli


_known: dict[tuple[str | int, ...], CliVersion] = {}


async def cli_version(path: Path, env: Mapping[str, str]) -> CliVersion:
    """Ask the CLI, once for each file as it is now: a JavaScript CLI takes a second to answer."""
    stat = path.stat()
    # Not by time and size alone: packages come with the times that their makers gave them.
    identity = (str(path.resolve()), stat.st_ino, stat.st_ctime_ns, stat.st_mtime_ns, stat.st_size)
    if identity not in _known:
        _known[identity] = await _ask_version(path, env)
    return _known[identity]


async def _ask_version(path: Path, env: Mapping[str, str]) -> CliVersion:
    hint = "Run it by hand to see; `yb agents install claude-code` brings one that works."
    try:
        answer = await ask_version((str(path),), cwd=path.parent, env=env)
    except ProcessStartError as error:
        raise cli_not_found(f"Claude Code at {path} does not start: {error.message}", hint) from error
    version = CliVersion.parse(answer.version or "")
    if version is None:
        what = f"{answer.said or 'nothing'!r} ({answer.ending})"
        raise YouBenchaError(VERSION_UNKNOWN, f"{path} --version answered {what}, which is no version.", hint=hint)
    return version
