"""Find the CLI to run, and its version: an explicit path, then PATH, then the toolbox.

For a container, the CLI is shared with it, and the toolbox comes before PATH, because it records what each CLI needs.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from youbencha.adapters import codes
from youbencha.adapters.base import AgentDescription
from youbencha.errors import YouBenchaError
from youbencha.process import ProcessStartError, find_executable
from youbencha.sandbox.base import Sandbox
from youbencha.sandbox.local import HOST
from youbencha.sandbox.toolbox.installed import InstalledAgent, ask_version
from youbencha.sandbox.toolbox.portable import PortableCli, portable_cli, portable_file
from youbencha.sandbox.toolbox.toolbox import Toolbox
from youbencha.user_dirs import toolbox_dir


class AgentCli(NamedTuple):
    path: Path
    version: str
    command: tuple[str, ...] = ()
    """How to start it, if that is more than its path (a script on Windows) or differs from it (in a container)."""
    sha256: str | None = None
    """Known for CLIs in the toolbox."""
    needs: tuple[Path, ...] = ()
    """Files of the host that it needs in a container. They are shared already."""

    @property
    def argv(self) -> tuple[str, ...]:
        return self.command or (str(self.path),)


class CliFinder:
    """Finds one agent's CLI."""

    def __init__(self, agent: type[AgentDescription]) -> None:
        self._agent = agent

    async def locate(
        self,
        env: Mapping[str, str],
        *,
        executable: str | None,
        version: str | None,
        sandbox: Sandbox = HOST,
        workspace: Path | None = None,
    ) -> AgentCli:
        """Return the CLI; raise an error with a hint for installing it if there is none, or only one that is too old.

        `env` is the host's environment, to search in. For a container, `argv` has the paths in there. `workspace` is
        the directory in which an image's CLI is asked for its version.
        """
        if version is not None and self._agent.is_too_old(version):
            raise self._agent.too_old(version)  # it need not be installed first
        if sandbox.kind != "local":
            finder = ContainerFinder(self, self._agent, sandbox, workspace or Path("/"))
            return self._supported(await finder.locate(env, executable=executable, version=version))
        if executable is not None:
            return self._supported(await self.explicit(Path(executable).expanduser(), version, env))
        cli = await self.find(env, version)
        if cli is None:
            raise self.not_installed(version)
        return cli

    async def find(self, env: Mapping[str, str], version: str | None = None) -> AgentCli | None:
        """Search PATH, then the toolbox; with a version, for that version. Raise an error if it is too old."""
        # Slow to import, and not needed by the command agent.
        cli = await self.on_path(env, version)
        # One that is too old does not prevent the use of another.
        if cli is None or self._agent.is_too_old(cli.version):
            installed = Toolbox(toolbox_dir(env)).find(self._agent.name, version)
            cli = installed_cli(installed) if installed else cli
        return None if cli is None else self._supported(cli)

    async def read_version(self, path: Path, env: Mapping[str, str]) -> str:
        """Ask the CLI, once for each file: a JavaScript CLI takes a second to answer."""
        stat = path.stat()
        # Modification time and size are not enough: packages set the times of their files.
        identity = (str(path.resolve()), stat.st_ino, stat.st_ctime_ns, stat.st_mtime_ns, stat.st_size)
        if identity not in _versions:
            _versions[identity] = await self._ask(path, env)
        return _versions[identity]

    async def on_path(self, env: Mapping[str, str], version: str | None) -> AgentCli | None:
        path = find_executable(self._agent.program, env)
        if path is None:
            return None
        try:
            cli = AgentCli(path, await self.read_version(path, env))
        except YouBenchaError:
            if version is None:
                raise
            return None  # a broken CLI on PATH does not prevent the use of the requested version
        return cli if version in (None, cli.version) else None

    async def explicit(self, path: Path, version: str | None, env: Mapping[str, str]) -> AgentCli:
        if not path.is_file():
            raise self.not_found(
                f"agent.config.executable: there is no file {path}.", "Correct the path, or leave it out."
            )
        cli = AgentCli(path.resolve(), await self.read_version(path.resolve(), env))
        if version not in (None, cli.version):
            raise self.not_found(
                f"{path} is {self._agent.title} {cli.version}, but agent.config.version asks for {version}.",
                "Leave out one of the two.",
            )
        return cli

    async def _ask(self, path: Path, env: Mapping[str, str]) -> str:
        try:
            answer = await ask_version((str(path),), cwd=path.parent, env=env)
        except ProcessStartError as error:
            message = f"{self._agent.title} at {path} does not start: {error.message}"
            raise self.not_found(message, reinstall_hint(self._agent)) from error
        if answer.version is None:
            raise unknown_version(self._agent, path, f"{answer.said or 'nothing'!r} ({answer.ending})")
        return answer.version

    def _supported(self, cli: AgentCli) -> AgentCli:
        if self._agent.is_too_old(cli.version):
            raise self._agent.too_old(cli.version, f" ({cli.path})")
        return cli

    def not_found(self, message: str, hint: str) -> YouBenchaError:
        return self._agent.error(codes.CLI_NOT_FOUND, message, hint)

    def not_installed(self, version: str | None) -> YouBenchaError:
        wanted = f" {version}" if version else ""
        request = f"{self._agent.name}@{version}" if version else self._agent.name
        return self.not_found(
            f"{self._agent.title}{wanted} is neither on PATH nor in the toolbox.",
            f"Install it with `yb agents install {request}`, or set agent.config.executable.",
        )


_versions: dict[tuple[str | int, ...], str] = {}
"""The versions of files that were asked."""


def installed_cli(installed: InstalledAgent) -> AgentCli:
    return AgentCli(installed.executable, installed.version, installed.command, installed.sha256)


def unknown_version(agent: type[AgentDescription], path: Path, answer: str) -> YouBenchaError:
    message = f"{path} --version answered {answer}, which is not a version."
    return agent.error(codes.VERSION_UNKNOWN, message, reinstall_hint(agent))


def reinstall_hint(agent: type[AgentDescription]) -> str:
    return f"Run it by hand to see the reason; `yb agents install {agent.name}` installs one that works."


class ContainerFinder:
    """Finds the CLI that runs in a container: the image's own, or one of the host that is shared with it."""

    def __init__(self, finder: CliFinder, agent: type[AgentDescription], sandbox: Sandbox, workspace: Path) -> None:
        self._finder = finder
        self._agent = agent
        self._sandbox = sandbox
        self._workspace = workspace

    async def locate(self, env: Mapping[str, str], *, executable: str | None, version: str | None) -> AgentCli:
        if self._sandbox.brings_agent:
            return await self._in_image(executable or self._agent.program, version)
        if sys.platform != "linux":
            raise self._finder.not_found(
                f"The {self._agent.title} of this computer does not run in a container, which is Linux.",
                "Use an image that has it: `sandbox.agent: image`.",
            )
        if executable is not None:
            return await self._explicit(Path(executable).expanduser(), version, env)
        cli = await self._in_toolbox(env, version) or await self._on_path(env, version)
        if cli is None:
            raise self._finder.not_installed(version)
        return cli

    async def _in_image(self, name: str, version: str | None) -> AgentCli:
        env = self._sandbox.environment({})
        hint = "Use an image that has it, or leave out `sandbox.agent: image`: then the toolbox's is used."
        try:
            answer = await ask_version((name,), cwd=self._workspace, env=env, within=self._sandbox)
        except ProcessStartError as error:
            raise self._finder.not_found(f"{name} of the image does not start: {error.message}", hint) from error
        if answer.version is None:
            printed = f"{answer.said or 'nothing'!r} ({answer.ending})"
            raise self._finder.not_found(f"The image's {name} does not report its version: it printed {printed}.", hint)
        cli = AgentCli(Path(name), answer.version, (name,))
        if version not in (None, cli.version):
            raise self._finder.not_found(
                f"The image has {self._agent.title} {cli.version}, but agent.config.version asks for {version}.", hint
            )
        return cli

    async def _explicit(self, path: Path, version: str | None, env: Mapping[str, str]) -> AgentCli:
        cli = await self._finder.explicit(path, version, env)
        # What an unknown kind of file needs is not known: only the file itself is shared.
        portable = await portable_file(cli.path, toolbox_dir(env), env) or PortableCli((cli.path,), (cli.path,))
        return self._shared(cli, portable)

    async def _in_toolbox(self, env: Mapping[str, str], version: str | None) -> AgentCli | None:
        installed = Toolbox(toolbox_dir(env)).find(self._agent.name, version)
        if installed is None:
            return None
        return self._shared(installed_cli(installed), await portable_cli(installed, env))

    async def _on_path(self, env: Mapping[str, str], version: str | None) -> AgentCli | None:
        cli = await self._finder.on_path(env, version)
        if cli is None:
            return None
        portable = await portable_file(cli.path, toolbox_dir(env), env)
        if portable is None:
            raise self._finder.not_found(
                f"{self._agent.title} is on PATH ({cli.path}), but its dependencies in a container are unknown.",
                f"Install one that runs in containers: `yb agents install {self._agent.name}`.",
            )
        return self._shared(cli, portable)

    def _shared(self, cli: AgentCli, portable: PortableCli) -> AgentCli:
        for path in portable.needs:
            self._sandbox.share(path)
        inside = tuple(self._sandbox.inside(part) if isinstance(part, Path) else part for part in portable.command)
        return cli._replace(command=inside, needs=portable.needs)
