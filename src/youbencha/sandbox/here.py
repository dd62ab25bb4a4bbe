"""No sandbox at all: programs run as they would by hand, with the harness's own home."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    from youbencha.process import Command, Limits, LineSink, ProcessResult, Redactor, Source, Started
    from youbencha.sandbox.base import Door


class Here:
    kind = "local"
    is_boundary = False
    brings_agent = False

    def environment(self, harness: Mapping[str, str]) -> dict[str, str]:
        return dict(harness)

    def share(self, path: Path, *, writable: bool = False) -> None:
        """Everything is."""

    def inside(self, path: Path) -> str:
        return str(path)

    def outside(self, path: str) -> Path | None:
        return Path(path)

    def door(self, port: int) -> Door | None:
        return None

    async def run(
        self,
        command: Command,
        *,
        limits: Limits | None = None,
        redactor: Redactor | None = None,
        log_file: Path | None = None,
        on_line: LineSink | None = None,
        on_start: Callable[[Started], None] | None = None,
        stop: asyncio.Event | None = None,
        also: Sequence[Source] = (),
    ) -> ProcessResult:
        from youbencha.process import run

        return await run(
            command,
            limits=limits,
            redactor=redactor,
            log_file=log_file,
            on_line=on_line,
            on_start=on_start,
            stop=stop,
            also=also,
        )

    async def freeze(self) -> None:
        """`run` leaves nothing behind."""


HERE = Here()
