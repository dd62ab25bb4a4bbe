"""LiteLLM as a process of ours: started, waited for, and gone when the block ends or we are gone ourselves."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import TYPE_CHECKING, Self

from youbencha.errors import YouBenchaError
from youbencha.gateway.litellm.health import Health, health_of, new_client
from youbencha.gateway.litellm.plan import StartPlan, plan_of_ours, plan_of_user
from youbencha.gateway.upstreams import Upstream
from youbencha.process import Command, ProcessResult, Redactor, Started, run

if TYPE_CHECKING:
    from aiohttp import ClientSession

_LOOK_EVERY_S = 0.1
_PORTS_TO_TRY = 5
_PORT_TAKEN = re.compile(r"address already in use|Errno 10048|WinError 10048", re.IGNORECASE)
_LAST_LINES = 15


class LiteLLM:
    """Runs for as long as the `async with` block lasts.

    `env` is where the system's variables come from, and those that a configuration of the user's own names; no other
    reaches LiteLLM. `models` are the names that will be asked for, as far as they are known.
    """

    def __init__(
        self,
        executable: Path,
        upstreams: Sequence[Upstream],
        *,
        env: Mapping[str, str],
        models: Sequence[str] = (),
        config_file: Path | None = None,
        host: str = "127.0.0.1",
        startup_timeout_s: float = 60.0,
        log_file: Path | None = None,
    ) -> None:
        self._executable = executable
        self._upstreams = upstreams
        self._env = env
        self._models = models
        self._config_file = config_file
        self._host = host
        self._startup_timeout_s = startup_timeout_s
        self._log_file = log_file
        self._cleanup = contextlib.AsyncExitStack()
        self._running: asyncio.Task[ProcessResult] | None = None
        self._stopping = asyncio.Event()
        self._url: str | None = None
        self.master_key = ""
        """A new one at each start, unless the user's own configuration has one."""
        self.pid: int | None = None

    @property
    def url(self) -> str:
        if self._url is None:
            raise RuntimeError("LiteLLM is not running: use it in an `async with`")
        return self._url

    @property
    def alive(self) -> bool:
        """False as well if it ended by itself."""
        return self._running is not None and not self._running.done()

    async def __aenter__(self) -> Self:
        async with self._cleanup:  # whatever happens before it is ready, nothing is left behind
            home = self._cleanup.enter_context(
                TemporaryDirectory(prefix="youbencha-litellm-", ignore_cleanup_errors=True)
            )
            plan = (
                plan_of_ours(self._upstreams, self._models, self._env, Path(home))
                if self._config_file is None
                else plan_of_user(self._config_file.absolute(), self._env, Path(home))
            )
            self.master_key = plan.master_key
            await self._start(plan)
            self._cleanup = self._cleanup.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._url = None
        await self._cleanup.aclose()

    async def _start(self, plan: StartPlan) -> None:
        """LiteLLM must be told a port. Between our finding a free one and its taking it, another may have it."""
        try:
            async with asyncio.timeout(self._startup_timeout_s), new_client() as client:
                for _ in range(_PORTS_TO_TRY):
                    ended = await self._try(_free_port(self._host), plan, client)
                    if ended is None:
                        return
                    if not _PORT_TAKEN.search(ended.output):
                        raise _not_ready(f"LiteLLM ended before it was ready ({_ending(ended)})", ended)
                    if self._log_file is not None:
                        self._log_file.unlink()
                raise _not_ready(f"LiteLLM found {_PORTS_TO_TRY} ports taken, one after the other", ended)
        except TimeoutError:
            result = await self._stop()
            raise _not_ready(f"LiteLLM was not ready within {self._startup_timeout_s:g} s", result) from None

    async def _try(self, port: int, plan: StartPlan, client: ClientSession) -> ProcessResult | None:
        """None as soon as it is ready; otherwise, how it ended."""
        url = f"http://{f'[{self._host}]' if ':' in self._host else self._host}:{port}"
        running = self._spawn(plan, port)
        getting_ready = asyncio.create_task(_until_ready(client, url, plan.master_key))
        try:
            await asyncio.wait({running, getting_ready}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            getting_ready.cancel()
            await asyncio.wait({getting_ready})
        if running.done():
            return running.result()
        getting_ready.result()
        self._url = url
        return None

    def _spawn(self, plan: StartPlan, port: int) -> asyncio.Task[ProcessResult]:
        address = ("--host", self._host, "--port", str(port))
        argv = (str(self._executable), "--config", str(plan.config_file), *address, "--telemetry", "False")
        self._stopping = asyncio.Event()
        self._running = asyncio.create_task(
            run(
                Command(argv, cwd=plan.cwd, env=plan.env),
                redactor=Redactor.for_env(plan.env, {"KEY": plan.master_key}),
                log_file=self._log_file,
                on_start=self._started,
                stop=self._stopping,
            )
        )
        self._cleanup.push_async_callback(self._stop)
        return self._running

    def _started(self, started: Started) -> None:
        self.pid = started.pid

    async def _stop(self) -> ProcessResult | None:
        """Returns when nothing of it is left."""
        if self._running is None:
            return None
        self._stopping.set()
        await asyncio.wait({self._running})
        return self._running.result() if not self._running.cancelled() and not self._running.exception() else None


async def _until_ready(client: ClientSession, url: str, key: str) -> None:
    while True:
        if await health_of(client, url, key) is Health.READY:
            return
        await asyncio.sleep(_LOOK_EVERY_S)


def _free_port(host: str) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _ending(result: ProcessResult) -> str:
    code = result.exit.code
    return f"exit code {code}" if code is not None else f"by {result.exit.signal or 'an unknown signal'}"


def _not_ready(what: str, result: ProcessResult | None) -> YouBenchaError:
    lines = [line for line in (result.output if result else "").splitlines() if line.strip()]
    said = "\n".join(f"  {line}" for line in lines[-_LAST_LINES:])
    return YouBenchaError(
        "LITELLM_NOT_READY",
        f"{what}. It said last:\n{said}" if said else f"{what}, and said nothing.",
        hint="See what it needs, or give it more time with `gateway.litellm.startup_timeout_s`.",
    )
