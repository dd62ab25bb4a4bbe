"""How long after its deadline a run returns when the agent's processes try to outlive it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Figure, ms
from youbencha.process import Command, Limits, run

_TIMEOUT_S = 0.3
_ESCAPES = (
    "trap '' TERM; sleep 1000",
    "setsid sleep 1000 & wait",
    "(setsid sleep 1000 >/dev/null 2>&1 &) ; sleep 1000",
    "trap '' TERM; sh -c 'kill -STOP $$' & wait; sleep 1000",
)


def measure() -> Iterator[Figure]:
    late = max(asyncio.run(_seconds_late(escape)) for escape in _ESCAPES)
    yield Figure(
        "return after the deadline, worst of four escapes", ms(late), f"timeout {ms(_TIMEOUT_S)}", "≤ 1 s", late <= 1
    )


async def _seconds_late(script: str) -> float:
    start: list[float] = []
    command = Command(argv=("/bin/sh", "-c", script), cwd=Path.cwd(), env={"PATH": os.environ["PATH"]})
    await run(command, limits=Limits(timeout_s=_TIMEOUT_S), on_start=lambda _: start.append(time.monotonic()))
    return time.monotonic() - start[0] - _TIMEOUT_S
