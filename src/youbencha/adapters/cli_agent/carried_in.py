"""Find the CLI that runs in a container: the image's own, or one of this computer that is carried in.

The toolbox comes before PATH here: of what it keeps, it is known what each CLI needs.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from youbencha.adapters.cli_agent.kind import Kind
from youbencha.process import ProcessStartError
from youbencha.sandbox.base import Sandbox

if TYPE_CHECKING:
    from youbencha.adapters.cli_agent.locate import Cli, Finder
    from youbencha.sandbox.toolbox import Carried

V = TypeVar("V")


class CarriedIn(Generic[V]):
    def __init__(self, finder: Finder[V], kind: Kind, sandbox: Sandbox, workspace: Path) -> None:
        self._finder = finder
        self._kind = kind
        self._sandbox = sandbox
        self._workspace = workspace

    async def locate(self, env: Mapping[str, str], *, executable: str | None, version: str | None) -> Cli[V]:
        if self._sandbox.brings_agent:
            return await self._of_the_image(executable or self._kind.command, version)
        if sys.platform != "linux":
            raise self._finder.not_found(
                f"{self._kind.title} as it is on this computer does not run in a container, which is Linux.",
                "Use an image that brings it: `sandbox.agent: image`.",
            )
        if executable is not None:
            return await self._explicit(Path(executable).expanduser(), version, env)
        found = await self._of_the_toolbox(env, version) or await self._on_path(env, version)
        if found is None:
            raise self._finder.neither(version)
        return found

    async def _of_the_image(self, name: str, version: str | None) -> Cli[V]:
        from youbencha.adapters.cli_agent.locate import Cli
        from youbencha.sandbox.toolbox import ask_version

        asked = self._sandbox.environment({})
        hint = "Use an image that has it, or leave out `sandbox.agent: image`: then it is the toolbox's."
        try:
            answer = await ask_version((name,), cwd=self._workspace, env=asked, within=self._sandbox)
        except ProcessStartError as error:
            raise self._finder.not_found(f"{name} of the image does not start: {error.message}", hint) from error
        if answer.version is None:
            said = f"{answer.said or 'nothing'!r} ({answer.ending})"
            raise self._finder.not_found(f"The image has no {name} that names its version: it said {said}.", hint)
        cli = Cli(Path(name), self._finder.parsed(answer.version, Path(name)), (name,))
        if version not in (None, str(cli.version)):
            raise self._finder.not_found(
                f"The image has {self._kind.title} {cli.version}, but agent.config.version asks for {version}.", hint
            )
        return cli

    async def _explicit(self, path: Path, version: str | None, env: Mapping[str, str]) -> Cli[V]:
        from youbencha.sandbox.toolbox import Carried, carry_file, default_root

        cli = await self._finder.explicit(path, version, env)
        # Whoever names a file that we know nothing of has to know what it needs.
        carried = await carry_file(cli.path, default_root(env), env) or Carried((cli.path,), (cli.path,))
        return self._shared(cli, carried)

    async def _of_the_toolbox(self, env: Mapping[str, str], version: str | None) -> Cli[V] | None:
        from youbencha.sandbox.toolbox import Toolbox, carry, default_root

        installed = Toolbox(default_root(env)).find(self._kind.name, version)
        if installed is None:
            return None
        return self._shared(await self._finder.installed(installed, env), await carry(installed, env))

    async def _on_path(self, env: Mapping[str, str], version: str | None) -> Cli[V] | None:
        from youbencha.sandbox.toolbox import carry_file, default_root

        cli = await self._finder.on_path(env, version)
        if cli is None:
            return None
        carried = await carry_file(cli.path, default_root(env), env)
        if carried is None:
            raise self._finder.not_found(
                f"{self._kind.title} is on PATH ({cli.path}), but what it needs to run in a container cannot be told.",
                f"Have one that can be carried in: `yb agents install {self._kind.name}`.",
            )
        return self._shared(cli, carried)

    def _shared(self, cli: Cli[V], carried: Carried) -> Cli[V]:
        for path in carried.needs:
            self._sandbox.share(path)
        seen = tuple(self._sandbox.inside(part) if isinstance(part, Path) else part for part in carried.command)
        return cli._replace(command=seen, needs=carried.needs)
