"""Run LiteLLM as a subprocess: find it, start it, check its health, and stop it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

import aiohttp

from youbencha.errors import YouBenchaError
from youbencha.gateway.access import server_url
from youbencha.gateway.litellm.config import StartPlan, plan_of_ours, plan_of_user
from youbencha.gateway.upstreams import Upstream
from youbencha.process import Command, ProcessResult, Redactor, Started, find_executable, run

_POLL_S = 0.1
_PORTS_TO_TRY = 5
_PORT_TAKEN = re.compile(r"address already in use|Errno 10048|WinError 10048", re.IGNORECASE)
_LAST_LINES = 15


class LiteLLM:
    """Runs LiteLLM during its `async with` block.

    Of `env`, LiteLLM gets only the system's variables and those that the user's configuration refers to. `models` are
    the models that will be requested, as far as known.
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
        """New at each start, unless the user's configuration has one."""
        self.pid: int | None = None

    @property
    def url(self) -> str:
        if self._url is None:
            raise RuntimeError("LiteLLM is not running: use it in an `async with`")
        return self._url

    @property
    def alive(self) -> bool:
        """Whether the process runs; False if it has ended for any reason."""
        return self._running is not None and not self._running.done()

    async def wait(self) -> YouBenchaError:
        """Wait until the process ends, and return an error with its exit status."""
        assert self._running is not None
        result = await asyncio.shield(self._running)
        return YouBenchaError(
            "LITELLM_DIED",
            f"LiteLLM exited while it was in use ({_ending(result)})",
            hint=f"Its output is in {self._log_file}." if self._log_file else None,
        )

    async def __aenter__(self) -> Self:
        async with self._cleanup:  # if it does not become ready, nothing is left behind
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
        """Start it on a free port. If another process takes that port first, another one is tried."""
        try:
            async with asyncio.timeout(self._startup_timeout_s), new_client() as client:
                for _ in range(_PORTS_TO_TRY):
                    ended = await self._try(_free_port(self._host), plan, client)
                    if ended is None:
                        return
                    if not _PORT_TAKEN.search(ended.printed):
                        raise _not_ready(f"LiteLLM ended before it was ready ({_ending(ended)})", ended)
                    if self._log_file is not None:
                        self._log_file.unlink()
                raise _not_ready(f"LiteLLM could not get a port: {_PORTS_TO_TRY} in a row were in use", ended)
        except TimeoutError:
            result = await self._stop()
            raise _not_ready(f"LiteLLM was not ready within {self._startup_timeout_s:g} s", result) from None

    async def _try(self, port: int, plan: StartPlan, client: aiohttp.ClientSession) -> ProcessResult | None:
        """Return None as soon as it is ready; otherwise how it ended."""
        url = server_url(self._host, port)
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
        """Stop it, and return when all its processes have ended."""
        if self._running is None:
            return None
        self._stopping.set()
        await asyncio.wait({self._running})
        return self._running.result() if not self._running.cancelled() and not self._running.exception() else None


async def _until_ready(client: aiohttp.ClientSession, url: str, key: str) -> None:
    while True:
        if await check_health(client, url, key) is Health.READY:
            return
        await asyncio.sleep(_POLL_S)


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
    last = "\n".join(f"  {line}" for line in lines[-_LAST_LINES:])
    silent = result is not None and not result.total_bytes
    return YouBenchaError(
        "LITELLM_NOT_READY",
        f"{what}. Its last output:\n{last}" if last else f"{what}.{' It printed nothing.' if silent else ''}",
        hint="Check its output, or give it more time with `gateway.litellm.startup_timeout_s`.",
    )


_TIMEOUT_S = 10.0


class Health(Enum):
    SILENT = "silent"
    """No answer, or not from a LiteLLM."""
    REFUSING = "refusing"
    """It runs, but does not accept this key."""
    READY = "ready"


def new_client() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S), cookie_jar=aiohttp.DummyCookieJar())


async def check_health(client: aiohttp.ClientSession, url: str, key: str) -> Health:
    if await _status(client, f"{url}/health/liveliness") != 200:
        return Health.SILENT
    # The first request needs no key. This one does, so it also shows that this is our LiteLLM, and not another server
    # on this port.
    status = await _status(client, f"{url}/v1/models", {"Authorization": f"Bearer {key}"})
    return Health.READY if status == 200 else Health.REFUSING


async def _status(client: aiohttp.ClientSession, url: str, headers: dict[str, str] | None = None) -> int | None:
    try:
        async with client.get(url, headers=headers, allow_redirects=False) as answer:
            await answer.read()
            return answer.status
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return None


async def check_litellm(url: str, key: str) -> None:
    """Raise YouBenchaError if a LiteLLM that is already running does not answer, or does not accept the key."""
    async with new_client() as client:
        health = await check_health(client, url.rstrip("/").removesuffix("/v1"), key)
    if health is Health.SILENT:
        raise YouBenchaError(
            "LITELLM_NOT_READY",
            f"No LiteLLM answers at {url}",
            hint=f"Start it, and check that `curl {url.rstrip('/')}/health/liveliness` works. "
            "Without `gateway.litellm.url`, youBencha starts one.",
        )
    if health is Health.REFUSING:
        raise YouBenchaError(
            "LITELLM_KEY_REFUSED",
            f"The LiteLLM at {url} does not accept the key",
            hint="Set `gateway.litellm.key_env` to the variable with its master key or a virtual key.",
        )


_NAME = "litellm"


def find_litellm(explicit: str | None, env: Mapping[str, str], toolbox_path: Path | None) -> Path:
    """Find the program: `explicit`, or the one beside our Python, on PATH, or in the toolbox."""
    if explicit is not None:
        return _named(explicit, env)
    # `pip install 'youbencha[litellm]'` puts it beside our own Python, which need not be on PATH.
    beside_us = {**env, "PATH": str(Path(sys.executable).parent)}
    program = find_executable(_NAME, beside_us) or find_executable(_NAME, env) or toolbox_path
    if program is None:
        raise YouBenchaError(
            "LITELLM_NOT_FOUND",
            "`gateway: litellm` needs LiteLLM, which is not installed",
            hint="`yb agents install litellm` installs it separately; `pip install 'youbencha[litellm]'` installs it "
            "beside youBencha. `gateway: builtin` does not need it.",
        )
    return program


def _named(explicit: str, env: Mapping[str, str]) -> Path:
    path = Path(explicit).expanduser()
    program = find_executable(explicit, env) if path.name == explicit else path.absolute()
    if program is None or not program.is_file() or not os.access(program, os.X_OK):
        raise YouBenchaError(
            "LITELLM_NOT_FOUND",
            f"gateway.litellm.executable: {explicit} is not an executable program",
            hint="Give the path of `litellm`, or remove the setting to search for it.",
        )
    return program
