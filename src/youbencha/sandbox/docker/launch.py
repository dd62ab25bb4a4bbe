"""Starts commands in containers, for `process.run`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.process import Command, Exit, LimitHit, Limits, OutputSource, Stream
from youbencha.process.program import start_error
from youbencha.process.streams import Spool, open_stdin
from youbencha.sandbox.docker.channel import ExitReport, InitChannel, StartFailure, StartOrder
from youbencha.sandbox.docker.container import Container
from youbencha.sandbox.docker.disk import FileId, file_id

if TYPE_CHECKING:
    from youbencha.spec.sandbox import SandboxSpec


class ContainerRunning:
    def __init__(
        self,
        container: Container,
        channel: InitChannel,
        spec: SandboxSpec,
        sources: tuple[OutputSource, ...],
        output_files: frozenset[FileId],
    ) -> None:
        self.pid = channel.pid
        self.sources = sources
        self.output_files = output_files
        """Held open inside, but ours."""
        self._container = container
        self._channel = channel
        self._spec = spec
        self._started = time.monotonic()
        self._asked = False
        self._disk_full = False
        self._closed = False
        self.limit_touched: LimitHit | None = None
        """A limit that something in there ran into, though the program itself got over it."""

    async def wait(self) -> Exit:
        """The first program tells when all the others are gone."""
        try:
            ended = await self._channel.ended()
        except EOFError:
            return await self._lost()
        self._container.remove_soon()
        return self._exit(ended)

    def end(self) -> None:
        self._asked = True
        self._channel.end()

    def end_for_disk(self) -> None:
        self._disk_full = True
        self._channel.end()

    async def kill(self) -> None:
        self._asked = True
        self._channel.hang_up()
        self._container.remove_soon()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._channel.close()
        self._container.remove_soon()
        for source in self.sources:
            source.close()

    def _exit(self, ended: ExitReport) -> Exit:
        code = os.waitstatus_to_exitcode(ended.status)
        limit = self._limit_of(ended)
        on_its_own = ended.by_itself or not self._asked
        breached = self._disk_full or (limit is not None and code != 0 and on_its_own)
        self.limit_touched = None if breached else limit
        return Exit(
            code=code if code >= 0 else None,
            signal=_signal_name(-code) if code < 0 else None,
            signal_number=-code if code < 0 else None,
            lifetime_s=ended.lifetime_s,
            by_itself=ended.by_itself,
            leftovers=ended.leftovers,
            breach=self._breached_disk or (limit if breached else None),
            cpu_s=ended.cpu_s,
            peak_rss_bytes=ended.peak_rss_bytes,
        )

    async def _lost(self) -> Exit:
        """Nobody told the end: process 1 itself was ended, by the engine or for lack of memory."""
        state = None if self._asked else await self._container.state_when_stopped()
        out_of_memory = bool((state or {}).get("OOMKilled"))
        await self._container.removed()
        return Exit(
            code=None,
            signal="SIGKILL",
            signal_number=int(signal.SIGKILL),
            lifetime_s=time.monotonic() - self._started,
            breach=self._breached_disk or (self._memory if out_of_memory else None),
            guard_lost=not (self._asked or self._disk_full or out_of_memory),
        )

    @property
    def _memory(self) -> LimitHit:
        return LimitHit("memory", in_words(self._spec.memory))

    @property
    def _breached_disk(self) -> LimitHit | None:
        return LimitHit("disk", in_words(self._spec.disk)) if self._disk_full else None

    def _limit_of(self, ended: ExitReport) -> LimitHit | None:
        if ended.oom_kills > 0:
            return self._memory
        return LimitHit("processes", str(self._spec.pids)) if ended.pids_refused > 0 else None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have no names here
        return f"SIG{number}"


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

    def __init__(self, world: World, container: Container, channel: Path) -> None:
        self._world = world
        self._container = container
        self._channel_path = channel
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
            channel = InitChannel(self._channel_path)
            on_failure.callback(self._container.remove_soon)
            on_failure.callback(channel.close)
            with open_stdin(command.stdin) as stdin:
                spools = self._open_spools(limits, on_failure)
                fds = (stdin.fileno(), *(spool.writer for spool in spools))
                await self._start(channel, order, fds)
            output_files = frozenset(file_id(os.fstat(spool.writer)) for spool in spools)
            for spool in spools:
                spool.close_writer()
            if failure := await self._started(channel):
                raise explain(failure, command)
            on_failure.pop_all()
        running = ContainerRunning(self._container, channel, self._world.spec, spools, output_files)
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

    async def _start(self, channel: InitChannel, order: StartOrder, fds: tuple[int, ...]) -> None:
        """Until the first program has called and been told what to do."""
        calling = asyncio.create_task(channel.send(order, fds))
        starting = asyncio.create_task(self._container.start(self._world.settings(self._channel_path)))
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

    async def _started(self, channel: InitChannel) -> StartFailure | None:
        try:
            return await channel.started()
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


# Why a program in a container did not start or did not end as it should, in words that help.

_OF_THE_PROGRAM = {"exec", "cwd"}

_LIBRARIES = {"ld-linux": "glibc", "ld-musl": "musl"}
"""The dynamic linkers of C libraries."""

_WITH = {"glibc": "Debian, Ubuntu or Fedora", "musl": "Alpine"}

_HINTS = {
    "alone": (
        "SANDBOX_NOT_ISOLATED",
        "The container is not cut off from the network: {text}",
        "This engine gives containers a network that they did not ask for. "
        "If that is acceptable, say so: `sandbox: {{type: docker, network: open}}`.",
    ),
    "gateway": (
        "SANDBOX_GATEWAY_SILENT",
        "The gateway does not answer from inside the container: {text}",
        "The harness's gateway must listen before an agent starts. Run again with --debug to see more.",
    ),
    "relay": (
        "SANDBOX_PORT_TAKEN",
        "A port of the container's own loopback could not be opened: {text}",
        "Another program in the image seems to use it.",
    ),
}


def explain(failure: StartFailure, command: Command) -> YouBenchaError:
    """The error for a step of the first program that failed."""
    if failure.step == "loader":
        reason, hint = without_loader(command.argv[0], failure.text)
        return start_error(command, reason, failure.number, hint=hint)
    if failure.step in _OF_THE_PROGRAM:
        return start_error(command, failure.text, failure.number)
    code, message, hint = _HINTS.get(
        failure.step,
        ("SANDBOX_FAILED", f"The container could not be set up ({failure.step}): {{text}}", "Please report this."),
    )
    return YouBenchaError(code, message.format(text=failure.text), hint=hint.format())


def without_loader(program: str, loader: str) -> tuple[str, str]:
    """The program is there, but not what has to load it. Which that is, its name tells."""
    for words, library in _LIBRARIES.items():
        if words in loader:
            return (
                f"the image has no {library} (the loader {loader} of {program} is not in it)",
                f"Use an image with {library}, such as one that is made from {_WITH[library]}.",
            )
    return (
        f"its interpreter {loader} is not in the image",
        f"Use an image that has {loader}, or change the program's first line.",
    )


def died_at_once(state: dict[str, Any] | None) -> YouBenchaError:
    """The container ended before its first program called. `state`: what the engine says of it, if it still does."""
    told = state or {}
    reason = told.get("Error") or f"exit code {told.get('ExitCode', 'unknown')}"
    return YouBenchaError(
        "SANDBOX_FAILED",
        f"The container ended before anything could be started in it: {reason}",
        hint="The image must be for this computer's architecture. More memory may help: `sandbox: {memory: 1g}`.",
    )


def in_words(size: int) -> str:
    for unit, bytes_ in (("TiB", 1024**4), ("GiB", 1024**3), ("MiB", 1024**2)):
        if size >= bytes_:
            return f"{size / bytes_:.4g} {unit}"
    return f"{size} bytes"
