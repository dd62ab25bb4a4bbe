"""No sandbox at all: programs run as they would by hand, with the harness's own home."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

if TYPE_CHECKING:
    from youbencha.log import SandboxReport
    from youbencha.process import Command, ProcessResult, RunOptions
    from youbencha.sandbox.base import Door


class Here:
    kind = "local"
    is_boundary = False
    brings_agent = False
    has_fresh_home = False

    def report(self) -> SandboxReport:
        from youbencha.log import SandboxReport

        return SandboxReport(type=self.kind, fresh_home=self.has_fresh_home)

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

    async def run(self, command: Command, **options: Unpack[RunOptions]) -> ProcessResult:
        from youbencha.process import run

        return await run(command, **options)

    async def freeze(self) -> None:
        """`run` leaves nothing behind."""


HERE = Here()
