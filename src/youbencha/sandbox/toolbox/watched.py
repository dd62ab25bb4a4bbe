"""Run a package manager, saying every second how far it is."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from youbencha.errors import YouBenchaError
from youbencha.process import Command, Limits, ProcessResult, run
from youbencha.sandbox.toolbox.installed import bytes_under
from youbencha.sandbox.toolbox.place import Place

Progress = Callable[[str], None]

DOWNLOAD_S = 30 * 60.0
LOOK_UP_S = 5 * 60.0

_TICK_S = 1.0
_MB = 1_000_000
_TAIL = 4_000
_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Finished:
    succeeded: bool
    output: str
    """Standard output and standard error, line by line as they came."""
    stdout: str


async def run_watched(
    argv: Sequence[str],
    *,
    label: str,
    place: Place,
    progress: Progress,
    cwd: Path | None = None,
    env: Mapping[str, str] = _NOTHING,
    timeout_s: float = DOWNLOAD_S,
) -> Finished:
    """Run to the end, in the user's own environment (proxies, certificates, PIP_*, npm_config_*) and `env`."""
    temp = place.work / "tmp"
    temp.mkdir(exist_ok=True)
    # Temporary files lie where the installation will: on a disk with room for it, and where we see them grow.
    variables = {**os.environ, **env, **dict.fromkeys(("TMPDIR", "TMP", "TEMP"), str(temp))}
    command = Command(argv=tuple(argv), cwd=cwd or place.work, env=variables)
    lines: list[bytes] = []
    progress(label)
    running = asyncio.create_task(run(command, limits=Limits(timeout_s=timeout_s), on_line=lines.append))
    result = await _watch(running, label, (temp, place.tree), progress)
    if result.timed_out:
        raise _too_slow(label, timeout_s, result)
    return Finished(result.exit.code == 0, result.output, b"\n".join(lines).decode(errors="replace"))


async def _watch(
    running: asyncio.Task[ProcessResult], label: str, watched: Sequence[Path], progress: Progress
) -> ProcessResult:
    start = time.monotonic()
    try:
        while not (await asyncio.wait({running}, timeout=_TICK_S))[0]:
            size = await asyncio.to_thread(lambda: sum(map(bytes_under, watched)))
            sofar = f" {size / _MB:.0f} MB on disk," if size >= _MB else ""
            progress(f"{label} ...{sofar} {time.monotonic() - start:.0f} s")
    finally:
        # Ctrl-C, or a progress callback that raises: nothing may go on writing into what is about to be removed.
        running.cancel()
        await asyncio.wait({running})
    return running.result()


def _too_slow(label: str, timeout_s: float, result: ProcessResult) -> YouBenchaError:
    return YouBenchaError(
        "TOOLBOX_TIMEOUT",
        f"{label}: not done after {timeout_s / 60:.0f} minutes",
        hint="Check the network, the proxy, and your pip or npm configuration.",
        context={"output": result.output[-_TAIL:]},
    )
