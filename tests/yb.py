"""`yb` as a user runs it: in this process, or if needed in a separate one."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import BinaryIO
from unittest import mock

from youbencha.cli.app import run_app

SCRIPT = Path(sysconfig.get_path("scripts")) / ("yb.exe" if sys.platform == "win32" else "yb")
PATIENCE_S = 180
Done = subprocess.CompletedProcess[str]

_PLAIN = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "200"}
_one_at_a_time = threading.Lock()
"""There is one environment, one current directory and one standard output."""


def yb(*arguments: str, cwd: Path | None = None, **env: str) -> Done:
    """Run a command in this process. In an async test, call it with `asyncio.to_thread`."""
    return run_here(arguments, cwd=cwd, env={**os.environ, **_PLAIN, **env})


def yb_process(*arguments: str, cwd: Path | None = None, **env: str) -> Done:
    """Run the installed script, for what only a process shows: its start, its end, its memory."""
    return subprocess.run(
        [SCRIPT, *arguments],
        cwd=cwd,
        env={**os.environ, **_PLAIN, **env},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def run_here(arguments: Sequence[str], *, cwd: Path | None, env: Mapping[str, str]) -> Done:
    """As a process with this environment would: afterwards, all that belongs to a process is as it was."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        code = _as_process(arguments, cwd, env, out, err)
        for file in (out, err):
            file.seek(0)
        return Done([str(SCRIPT), *arguments], code, *(file.read().decode() for file in (out, err)))


def on_terminal(arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], columns: int) -> str:
    """All that a command writes to a terminal of this width, standard error too."""
    import fcntl
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    written: list[bytes] = []

    def read() -> None:
        with contextlib.suppress(OSError):  # the terminal is closed
            while chunk := os.read(ours, 65536):
                written.append(chunk)

    reader = threading.Thread(target=read)
    reader.start()
    with open(theirs, "wb") as screen:
        _as_process(arguments, cwd, env, screen, screen)
    reader.join(PATIENCE_S)
    os.close(ours)
    return b"".join(written).decode().replace("\r\n", "\n")


def _as_process(
    arguments: Sequence[str], cwd: Path | None, env: Mapping[str, str], out: BinaryIO, err: BinaryIO
) -> int:
    with (
        _one_at_a_time,
        mock.patch.dict(os.environ, env, clear=True),
        mock.patch.object(tempfile, "tempdir", None),  # it depends on the environment
        mock.patch.object(sys, "argv", [str(SCRIPT), *arguments]),
        contextlib.chdir(cwd or Path.cwd()),
    ):
        try:
            with _standard_streams(out, err), _program_is_a_file():
                return run_app(arguments)
        except SystemExit as ended:
            return int(ended.code or 0)
        finally:
            gc.unfreeze()


@contextlib.contextmanager
def _standard_streams(out: BinaryIO, err: BinaryIO) -> Iterator[None]:
    """The descriptors too: programs that a command starts may inherit them."""
    kept = sys.stdin, sys.stdout, sys.stderr
    descriptors = [os.dup(number) for number in range(3)]
    with open(os.devnull, "rb") as nothing:
        for number, file in enumerate((nothing, out, err)):
            os.dup2(file.fileno(), number)
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115 (closed below)
        for number, mode in enumerate("rww")
    )
    try:
        yield
    finally:
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            stream.close()
        sys.stdin, sys.stdout, sys.stderr = kept
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)


@contextlib.contextmanager
def _program_is_a_file() -> Iterator[None]:
    """With `python -m pytest`, the help would call `yb` by that name. (`mock.patch.dict` would forget imports.)"""
    kept = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = kept
