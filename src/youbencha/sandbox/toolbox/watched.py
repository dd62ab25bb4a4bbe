"""Run a package manager, saying every second how far it is."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from youbencha.sandbox.toolbox.installed import bytes_under

Progress = Callable[[str], None]

_TICK_S = 1.0
_MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Finished:
    exit_code: int
    output: str
    """Standard output, then standard error."""
    stdout: str


def run_watched(
    command: Sequence[str], *, label: str, work: Path, into: Path, env: Mapping[str, str], progress: Progress
) -> Finished:
    """Run to the end. `work` takes its output and temporary files; `into` is watched while it grows."""
    temp = work / "tmp"
    temp.mkdir(parents=True, exist_ok=True)
    # Temporary files lie where the installation will: on a disk with room for it, and where we see them grow.
    variables = {**os.environ, **env, **dict.fromkeys(("TMPDIR", "TMP", "TEMP"), str(temp))}
    out, err = work / "stdout.log", work / "stderr.log"
    progress(label)
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, cwd=work, env=variables
        )
        try:
            exit_code = _wait(process, label, (temp, into), progress)
        finally:
            # Ctrl-C, or a progress callback that raises: nothing may go on writing into what we are about to remove.
            if process.poll() is None:
                process.kill()
                process.wait()
    text = out.read_text(encoding="utf-8", errors="replace")
    return Finished(exit_code, text + err.read_text(encoding="utf-8", errors="replace"), text)


def _wait(process: subprocess.Popen[bytes], label: str, watched: Sequence[Path], progress: Progress) -> int:
    start = time.monotonic()
    while True:
        try:
            return process.wait(timeout=_TICK_S)
        except subprocess.TimeoutExpired:
            size = sum(bytes_under(path) for path in watched)
            sofar = f" {size / _MB:.0f} MB on disk," if size >= _MB else ""
            progress(f"{label} ...{sofar} {time.monotonic() - start:.0f} s")
