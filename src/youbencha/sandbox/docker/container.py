"""One container: its settings, its life, and the command in it as a `System` that `process.run` supervises."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from youbencha.errors import YouBenchaError
from youbencha.process import Command, Exit, LimitHit, Limits, OutputSource
from youbencha.process.model import signal_name
from youbencha.process.program import start_error, unusable_text
from youbencha.process.streams import Spool, open_spools, open_stdin
from youbencha.sandbox.base import GATEWAY_PORT
from youbencha.sandbox.docker.channel import ExitReport, InitChannel, StartFailure, StartOrder
from youbencha.sandbox.docker.engine import Engine, EngineError, EngineInfo
from youbencha.sandbox.docker.mounts import CHANNEL, INIT, WORKSPACE, Mount, Mounts
from youbencha.sandbox.docker.ownership import STATE, state_image, this_owner
from youbencha.spec.sandbox import SandboxSpec
from youbencha.text import format_size

_STOP_POLL_S = 0.1
_MAX_STOP_POLLS = 100
"""Removing a killed container takes a while if it was large."""
_SIZE_EVERY_S = 3.0
_SHARED_MEMORY = 256 * 1024**2
_OPEN_FILES = 65536
_PID_MAX = Path("/proc/sys/kernel/pid_max")
_POLL_S = 0.5
_STOPPED = "its container was stopped"
_KILLED = "its container was killed or removed, or the container engine stopped"
_PROGRAM_STEPS = {"exec", "cwd"}
"""Steps of the init program that fail because of the command."""
_LOADERS = {"ld-linux": "glibc", "ld-musl": "musl"}
"""Dynamic linkers, and the C libraries they belong to."""
_DISTRIBUTIONS = {"glibc": "Debian, Ubuntu or Fedora", "musl": "Alpine"}
_SETUP_FAILURES = {
    "alone": (
        "SANDBOX_NOT_ISOLATED",
        "The container is not isolated from the network: {text}",
        "This engine gives containers a network that was not requested. "
        "If that is acceptable, use `sandbox: {{type: docker, network: open}}`.",
    ),
    "gateway": (
        "SANDBOX_GATEWAY_SILENT",
        "The gateway does not answer from inside the container: {text}",
        "The gateway must listen before an agent starts. Run again with --debug for details.",
    ),
    "relay": (
        "SANDBOX_PORT_TAKEN",
        "A port of the container's own loopback could not be opened: {text}",
        "Another program in the image may be using it.",
    ),
}


def container_settings(
    spec: SandboxSpec,
    info: EngineInfo,
    image: str,
    mounts: Sequence[Mount],
    labels: Mapping[str, str],
    volumes_from: str | None = None,
) -> dict[str, Any]:
    """The engine's settings of a new container: no credentials, no capabilities, no network unless requested.

    `volumes_from`: a container with the image's volumes, which are read-only in this one.
    """
    is_open = spec.network == "open"
    return {
        "Image": image,
        "Entrypoint": [str(INIT)],
        "Cmd": [str(CHANNEL)],
        "User": str(info.user),
        "WorkingDir": str(WORKSPACE),
        "Labels": dict(labels),
        "Healthcheck": {"Test": ["NONE"]},  # the image's own would run programs in the container
        "HostConfig": {
            "Mounts": [mount.as_docker() for mount in mounts],
            "VolumesFrom": [f"{volumes_from}:ro"] if volumes_from else [],
            "Init": False,  # ours is used
            "CapDrop": ["ALL"],
            "SecurityOpt": _security(info),
            "ReadonlyRootfs": not spec.writable,
            "NetworkMode": "bridge" if is_open else "none",
            "ExtraHosts": [f"host.docker.internal:{'host-gateway' if is_open else '127.0.0.1'}"],
            "IpcMode": "private",
            "ShmSize": min(_SHARED_MEMORY, spec.memory),
            "LogConfig": {"Type": "none"},
            "RestartPolicy": {"Name": "no"},
            "Ulimits": _ulimits(info),
            **_limits(spec, info),
            **({"UsernsMode": "host"} if info.remaps_users else {}),
        },
    }


def _security(info: EngineInfo) -> list[str]:
    """The security options. Without a seccomp option, the engine's default profile applies.

    With SELinux, labels would block the mounted files and our sockets.
    """
    return ["no-new-privileges", *(["label=disable"] if info.selinux else [])]


def _ulimits(info: EngineInfo) -> list[dict[str, Any]]:
    """No core files, and the same number of open files with every engine: defaults vary from a thousand to a billion.

    Never more than our own limit, because an engine without the capability could not raise it. For the same reason, the
    number of processes is set too: Podman as root would raise it to a million (it lowers that to the number of process
    ids). The agent's actual limit is PidsLimit.
    """
    limits = {"core": 0, "nofile": _at_most(_OPEN_FILES, "RLIMIT_NOFILE")}
    if info.name == "Podman" and not info.rootless:
        limits["nproc"] = _at_most(int(_PID_MAX.read_text()), "RLIMIT_NPROC")
    return [{"Name": name, "Soft": limit, "Hard": limit} for name, limit in limits.items()]


def _at_most(wanted: int, name: str) -> int:
    import resource  # not on Windows

    ours = resource.getrlimit(getattr(resource, name))[1]
    return wanted if ours == resource.RLIM_INFINITY else min(ours, wanted)


def _limits(spec: SandboxSpec, info: EngineInfo) -> dict[str, Any]:
    """The limits that this engine can enforce."""
    limits: dict[str, Any] = {}
    if info.memory_limit:
        limits |= {"Memory": spec.memory, "MemorySwap": spec.memory}  # the same number, so no swap
    if info.pids_limit:
        limits["PidsLimit"] = spec.pids
    if (cpus := cpu_limit(spec, info)) is not None:
        limits["NanoCpus"] = round(cpus * 1e9)
    return limits


def cpu_limit(spec: SandboxSpec, info: EngineInfo) -> float | None:
    """The limit that applies, which may not be more than there are."""
    return min(spec.cpus, info.cpus or spec.cpus) if info.cpu_limit and spec.cpus is not None else None


class Container:
    """A container with a name that we choose, so that it can be removed even if the engine never answered."""

    def __init__(
        self,
        engine: Engine,
        name: str,
        on_started: Callable[[], None] = lambda: None,
        *,
        keep_files: bool = False,
    ) -> None:
        """`on_started` is called when the engine has started it, or failed to.

        `keep_files` makes an image of its files when it is removed.
        """
        self.name = name
        self.files_image: str | None = None
        """The image with its files, if they were kept."""
        self._engine = engine
        self._on_started = on_started
        self._keep_files = keep_files
        self._starting: asyncio.Task[None] | None = None
        self._removal: asyncio.Task[None] | None = None

    async def start(self, settings: dict[str, Any]) -> None:
        """Create and start it in a task that is never cancelled, because it is removed only after that has finished."""
        self._starting = asyncio.create_task(self._start(settings))
        await asyncio.shield(self._starting)

    async def _start(self, settings: dict[str, Any]) -> None:
        try:
            await self._engine.create(self.name, settings)
            await self._engine.start(self.name)
        finally:
            self._on_started()

    async def state(self) -> dict[str, Any] | None:
        """The state reported by the engine; None if the container does not exist."""
        answer = await self._engine.inspect(self.name)
        return answer["State"] if answer else None

    async def is_running(self) -> bool:
        return bool((await self.state() or {}).get("Running"))

    async def state_when_stopped(self) -> dict[str, Any] | None:
        """Wait until it stops; return its state, or None if it does not exist or does not stop."""
        for _ in range(_MAX_STOP_POLLS):
            state = await self.state()
            if not state or not state.get("Running"):
                return state
            await asyncio.sleep(_STOP_POLL_S)
        return None

    @contextlib.asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Stop its processes for a while, if the engine can. A container removed meanwhile need not continue."""
        with contextlib.suppress(EngineError):
            await self._engine.pause(self.name)
        try:
            yield
        finally:
            with contextlib.suppress(EngineError):
                await self._engine.unpause(self.name)

    async def until_larger_than(self, limit: int) -> None:
        """Return when more than this was written to the image's files. Polled rarely, because counting is expensive."""
        while True:
            await asyncio.sleep(_SIZE_EVERY_S)
            with contextlib.suppress(EngineError):  # it may come back; if not, the run ends as a failure of the host
                answer = await self._engine.inspect(self.name, size=True)
                if int((answer or {}).get("SizeRw") or 0) > limit:
                    return

    def remove_soon(self) -> None:
        """Begin to remove it, without waiting. May be called again."""
        if self._removal is None:
            self._removal = asyncio.create_task(self._remove())

    async def removed(self) -> None:
        """Remove it and wait until it is gone. Cancelling this call does not stop the removal."""
        self.remove_soon()
        assert self._removal is not None
        await asyncio.shield(self._removal)

    async def _remove(self) -> None:
        if self._starting is not None:
            with contextlib.suppress(YouBenchaError):
                await self._starting
        if self._keep_files:
            image = state_image(self.name)
            with contextlib.suppress(YouBenchaError):  # who needs it finds that there is none
                await self._engine.commit(self.name, image, {STATE: str(this_owner())})
                self.files_image = image
        await self._engine.remove(self.name)


class ContainerRunning:
    """A command that runs in a container."""

    def __init__(
        self,
        container: Container,
        channel: InitChannel,
        spec: SandboxSpec,
        spools: tuple[Spool, ...],
    ) -> None:
        self.pid = channel.pid
        self.sources: tuple[OutputSource, ...] = spools
        self.spools = spools
        self._container = container
        self._channel = channel
        self._spec = spec
        self._started = time.monotonic()
        self._asked = False
        self._disk_full = False
        self._closed = False
        self.limit_touched: LimitHit | None = None
        """A limit that a process in the container reached without ending the program."""

    async def wait(self) -> Exit:
        """Wait for the init program's report, which it sends when all other processes are gone."""
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
        limit = self._limit_hit(ended)
        on_its_own = ended.exited_on_its_own or not self._asked
        is_limit_hit = self._disk_full or (limit is not None and code != 0 and on_its_own)
        self.limit_touched = None if is_limit_hit else limit
        return Exit(
            code=code if code >= 0 else None,
            signal=signal_name(-code) if code < 0 else None,
            lifetime_s=ended.lifetime_s,
            exited_on_its_own=ended.exited_on_its_own,
            leftovers=ended.leftovers,
            limit_hit=self._disk_limit_hit or (limit if is_limit_hit else None),
            host_failure=None if ended.exited_on_its_own or self._asked or self._disk_full else _STOPPED,
            cpu_s=ended.cpu_s,
            peak_rss_bytes=ended.peak_rss_bytes,
        )

    async def _lost(self) -> Exit:
        """The result without a report: process 1 itself was killed, by the engine or for lack of memory."""
        state = None
        with contextlib.suppress(EngineError):  # it may have stopped, too
            state = None if self._asked else await self._container.state_when_stopped()
            await self._container.removed()
        out_of_memory = bool((state or {}).get("OOMKilled"))
        return Exit(
            code=None,
            signal="SIGKILL",
            lifetime_s=time.monotonic() - self._started,
            limit_hit=self._disk_limit_hit or (self._memory if out_of_memory else None),
            host_failure=None if self._asked or self._disk_full or out_of_memory else _KILLED,
        )

    @property
    def _memory(self) -> LimitHit:
        return LimitHit("memory", format_size(self._spec.memory))

    @property
    def _disk_limit_hit(self) -> LimitHit | None:
        return disk_limit(self._spec) if self._disk_full else None

    def _limit_hit(self, ended: ExitReport) -> LimitHit | None:
        if ended.oom_kills > 0:
            return self._memory
        return LimitHit("processes", str(self._spec.pids)) if ended.pids_refused > 0 else None


class ContainerSystem:
    """Starts one command in one container."""

    def __init__(
        self,
        container: Container,
        settings: dict[str, Any],
        channel: Path,
        *,
        spec: SandboxSpec,
        mounts: Mounts,
        relays: Sequence[tuple[int, str]],
    ) -> None:
        """`relays` are the forwarded ports, with the paths of their sockets in the container."""
        self._container = container
        self._settings = settings
        self._channel_path = channel
        self._spec = spec
        self._mounts = mounts
        self._relays = relays
        self.has_started: asyncio.Future[ContainerRunning] = asyncio.get_running_loop().create_future()

    def warm_up(self) -> None:
        """Do nothing: a container cannot be created before its command is known."""

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
                spools = open_spools(limits)
                for spool in spools:
                    on_failure.callback(spool.close)
                fds = (stdin.fileno(), *(spool.writer for spool in spools))
                await self._start(channel, order, fds)
            for spool in spools:
                spool.close_writer()
            if failure := await self._started(channel):
                raise explain(failure, command)
            on_failure.pop_all()
        running = ContainerRunning(self._container, channel, self._spec, spools)
        self.has_started.set_result(running)
        return running

    def _order(self, command: Command, limits: Limits) -> StartOrder:
        try:
            cwd = self._mounts.inside(command.cwd)
        except ValueError as error:
            raise start_error(command, str(error), None, hint="Share it first, or run in the workspace.") from error
        if hint := unusable_text(command):
            raise start_error(command, "an argument or an environment variable is invalid", None, hint=hint)
        return StartOrder(
            argv=command.argv,
            env=command.env.items(),
            cwd=cwd,
            relays=self._relays,
            probe=GATEWAY_PORT if GATEWAY_PORT in dict(self._relays) else None,
            alone=self._spec.network != "open",
            terminal=command.terminal,
            grace_s=limits.grace_s,
            settle_s=limits.settle_s,
        )

    async def _start(self, channel: InitChannel, order: StartOrder, fds: tuple[int, ...]) -> None:
        """Start the container, and wait until its init program has connected and received the order."""
        sending = asyncio.create_task(channel.send(order, fds))
        starting = asyncio.create_task(self._container.start(self._settings))
        try:
            await asyncio.wait({sending, starting}, return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                await starting
            while not sending.done():
                await asyncio.wait({sending}, timeout=_POLL_S)
                if not sending.done() and not await self._container.is_running():
                    raise died_at_once(await self._container.state())
            await sending
        finally:
            sending.cancel()
            await asyncio.wait({sending})
            starting.add_done_callback(_retrieve_exception)

    async def _started(self, channel: InitChannel) -> StartFailure | None:
        try:
            return await channel.started()
        except EOFError:
            raise died_at_once(await self._container.state_when_stopped()) from None


def _retrieve_exception(task: asyncio.Task[None]) -> None:
    """Keep asyncio from warning about an error that is reported elsewhere."""
    if not task.cancelled():
        task.exception()


def explain(failure: StartFailure, command: Command) -> YouBenchaError:
    """Return the error for a failed step of the init program."""
    if failure.step == "loader":
        reason, hint = without_loader(command.argv[0], failure.text)
        return start_error(command, reason, failure.number, hint=hint)
    if failure.step in _PROGRAM_STEPS:
        return start_error(command, failure.text, failure.number)
    code, message, hint = _SETUP_FAILURES.get(
        failure.step,
        ("SANDBOX_FAILED", f"The container could not be set up ({failure.step}): {{text}}", "Please report this."),
    )
    return YouBenchaError(code, message.format(text=failure.text), hint=hint.format())


def without_loader(program: str, loader: str) -> tuple[str, str]:
    """Return reason and hint for a program whose loader is not in the image."""
    for name, library in _LOADERS.items():
        if name in loader:
            return (
                f"the image has no {library} (the loader {loader} of {program} is not in it)",
                f"Use an image with {library}, such as one based on {_DISTRIBUTIONS[library]}.",
            )
    return (
        f"its interpreter {loader} is not in the image",
        f"Use an image that has {loader}, or change the program's first line.",
    )


def died_at_once(state: dict[str, Any] | None) -> YouBenchaError:
    """Return the error for a container that ended before its init program connected."""
    state = state or {}
    reason = state.get("Error") or f"exit code {state.get('ExitCode', 'unknown')}"
    return YouBenchaError(
        "SANDBOX_FAILED",
        f"The container exited before a program could be started in it: {reason}",
        hint="The image must be for this host's architecture. More memory may help: `sandbox: {memory: 1g}`.",
    )


def disk_limit(spec: SandboxSpec) -> LimitHit:
    return LimitHit("disk", format_size(spec.disk))
