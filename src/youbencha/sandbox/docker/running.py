"""One command in one container, as a program that `process.run` can watch over."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

from youbencha.process import Exit, Source
from youbencha.sandbox.docker.channel import ExitReport, InitChannel
from youbencha.sandbox.docker.disk import FileId
from youbencha.sandbox.docker.failures import in_words

if TYPE_CHECKING:
    from youbencha.sandbox.docker.container import Container
    from youbencha.spec.sandbox import SandboxSpec


class ContainerRunning:
    def __init__(
        self,
        container: Container,
        lifeline: InitChannel,
        spec: SandboxSpec,
        sources: tuple[Source, ...],
        output_files: frozenset[FileId],
    ) -> None:
        self.pid = lifeline.pid
        self.sources = sources
        self.output_files = output_files
        """Held open inside, but ours."""
        self._container = container
        self._lifeline = lifeline
        self._spec = spec
        self._started = time.monotonic()
        self._asked = False
        self._disk_full = False
        self._closed = False
        self.strain: str | None = None
        """A limit that something in there ran into, though the program itself got over it."""

    async def wait(self) -> Exit:
        """The first program tells when all the others are gone."""
        try:
            ended = await self._lifeline.ended()
        except EOFError:
            return await self._lost()
        self._container.remove_soon()
        return self._exit(ended)

    def end(self) -> None:
        self._asked = True
        self._lifeline.end()

    def end_for_disk(self) -> None:
        self._disk_full = True
        self._lifeline.end()

    async def kill(self) -> None:
        self._asked = True
        self._lifeline.hang_up()
        self._container.remove_soon()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._lifeline.close()
        self._container.remove_soon()
        for source in self.sources:
            source.close()

    def _exit(self, ended: ExitReport) -> Exit:
        code = os.waitstatus_to_exitcode(ended.status)
        limit = self._limit_of(ended)
        on_its_own = ended.by_itself or not self._asked
        breached = self._disk_full or (limit is not None and code != 0 and on_its_own)
        self.strain = None if breached else limit
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
    def _memory(self) -> str:
        return f"memory ({in_words(self._spec.memory)})"

    @property
    def _breached_disk(self) -> str | None:
        return f"disk ({in_words(self._spec.disk)})" if self._disk_full else None

    def _limit_of(self, ended: ExitReport) -> str | None:
        if ended.oom_kills > 0:
            return self._memory
        return f"processes ({self._spec.pids})" if ended.pids_refused > 0 else None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have no names here
        return f"SIG{number}"
