"""Starts commands in containers, for `process.run`."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from youbencha.process import Command, Limits, Stream
from youbencha.process.errors import start_error
from youbencha.process.spool import Spool
from youbencha.process.systems.stdin import open_stdin
from youbencha.sandbox.docker.channel import InitChannel, StartFailure, StartOrder
from youbencha.sandbox.docker.container import Container
from youbencha.sandbox.docker.disk import file_id
from youbencha.sandbox.docker.failures import died_at_once, explain
from youbencha.sandbox.docker.running import ContainerRunning

if TYPE_CHECKING:
    from youbencha.spec.sandbox import SandboxSpec

_LOOK_EVERY_S = 0.5


class World(NamedTuple):
    """What a container is made of, apart from the command that runs in it."""

    spec: SandboxSpec
    settings: Callable[[Path], dict[str, Any]]
    """For a container with this lifeline."""
    relays: list[tuple[int, str]]
    probe: int | None
    inside: Callable[[Path], str]


class ContainerSystem:
    """Of one run: one container."""

    def __init__(self, world: World, container: Container, lifeline: Path) -> None:
        self._world = world
        self._container = container
        self._lifeline_path = lifeline
        self.has_started: asyncio.Future[ContainerRunning] = asyncio.get_running_loop().create_future()

    def get_ready(self) -> None:
        """Nothing can be made before it is known what for."""

    async def spawn(self, command: Command, limits: Limits) -> ContainerRunning:
        order = self._order(command, limits)
        try:
            return await self._spawn(command, order, limits)
        except OSError as error:  # no descriptors, no disk left
            raise start_error(command, str(error), error.errno) from error

    async def _spawn(self, command: Command, order: StartOrder, limits: Limits) -> ContainerRunning:
        with contextlib.ExitStack() as on_failure:
            lifeline = InitChannel(self._lifeline_path)
            on_failure.callback(self._container.remove_soon)
            on_failure.callback(lifeline.close)
            with open_stdin(command.stdin) as stdin:
                spools = self._open_spools(limits, on_failure)
                fds = (stdin.fileno(), *(spool.writer for spool in spools))
                await self._start(lifeline, order, fds)
            output_files = frozenset(file_id(os.fstat(spool.writer)) for spool in spools)
            for spool in spools:
                spool.close_writer()
            if failure := await self._started(lifeline):
                raise explain(failure, command)
            on_failure.pop_all()
        running = ContainerRunning(self._container, lifeline, self._world.spec, spools, output_files)
        self.has_started.set_result(running)
        return running

    def _order(self, command: Command, limits: Limits) -> StartOrder:
        try:
            cwd = self._world.inside(command.cwd)
        except ValueError as error:
            raise start_error(command, str(error), None, hint="Share it first, or run in the workspace.") from error
        order = StartOrder(
            argv=command.argv,
            env=command.env.items(),
            cwd=cwd,
            relays=self._world.relays,
            probe=self._world.probe,
            alone=self._world.spec.network != "open",
            terminal=command.terminal,
            grace_s=limits.grace_s,
            settle_s=limits.settle_s,
        )
        _check_texts(command)
        return order

    async def _start(self, lifeline: InitChannel, order: StartOrder, fds: tuple[int, ...]) -> None:
        """Until the first program has called and been told what to do."""
        calling = asyncio.create_task(lifeline.send(order, fds))
        starting = asyncio.create_task(self._container.start(self._world.settings(self._lifeline_path)))
        try:
            await asyncio.wait({calling, starting}, return_when=asyncio.FIRST_COMPLETED)
            if not calling.done():
                await starting
            while not calling.done():
                await asyncio.wait({calling}, timeout=_LOOK_EVERY_S)
                if not calling.done() and not await self._container.is_running():
                    raise died_at_once(await self._container.state())
            await calling
        finally:
            calling.cancel()
            await asyncio.wait({calling})
            starting.add_done_callback(_look_at)

    async def _started(self, lifeline: InitChannel) -> StartFailure | None:
        try:
            return await lifeline.started()
        except EOFError:
            raise died_at_once(await self._container.state_when_stopped()) from None

    @staticmethod
    def _open_spools(limits: Limits, on_failure: contextlib.ExitStack) -> tuple[Spool, Spool]:
        out = Spool(Stream.OUT, limits)
        on_failure.callback(out.close)
        err = Spool(Stream.ERR, limits)
        on_failure.callback(err.close)
        return out, err


def _look_at(task: asyncio.Task[None]) -> None:
    """So that nobody warns about an error that was told by another way."""
    if not task.cancelled():
        task.exception()


def _check_texts(command: Command) -> None:
    """What no system takes is refused here as it is there."""
    texts = (*command.argv, *command.env, *command.env.values())
    if any("\0" in text for text in texts):
        raise start_error(command, "embedded null byte", None)
    if any(not name or "=" in name for name in command.env):
        raise start_error(command, "illegal environment variable name", None)
    try:
        for text in texts:
            text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise start_error(command, str(error), None) from error
