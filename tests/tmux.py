"""A real terminal for tests: a pane of tmux, with its own server."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

PATIENCE_S = 20.0
REQUIRED = "YOUBENCHA_REQUIRE_TMUX"


def need_tmux() -> None:
    """Skip the test where there is no tmux."""
    if shutil.which("tmux") is None:
        if os.environ.get(REQUIRED):
            pytest.fail("tmux is not installed: apt-get install tmux")
        pytest.skip("tmux is not installed")


class Pane:
    """A shell in a terminal. What it shows is waited for, with a deadline."""

    def __init__(self, socket: Path) -> None:
        self._tmux = ("tmux", "-f", "/dev/null", "-S", str(socket))

    def tmux(self, *arguments: str) -> str:
        done = subprocess.run([*self._tmux, *arguments], capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def text(self) -> str:
        """What is on the terminal now."""
        return self.tmux("capture-pane", "-p")

    def history(self) -> str:
        """What is on the terminal now, and what has scrolled away."""
        return self.tmux("capture-pane", "-p", "-S", "-")

    def run(self, *command: str | Path) -> None:
        """Type a command into the shell."""
        self.type(shlex.join(map(str, command)))
        self.press("Enter")

    def type(self, text: str) -> None:
        self.tmux("send-keys", "-l", text)

    def press(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def resize(self, columns: int, rows: int) -> None:
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def wait_for(self, pattern: str, *, patience_s: float = PATIENCE_S) -> str:
        """Wait until a line matches, and return all lines."""
        return self.wait(lambda text: re.search(pattern, text, re.MULTILINE) is not None, pattern, patience_s)

    def wait_until_gone(self, pattern: str) -> str:
        return self.wait(lambda text: re.search(pattern, text, re.MULTILINE) is None, f"no {pattern}")

    def wait(self, holds: Callable[[str], bool], what: str, patience_s: float = PATIENCE_S) -> str:
        deadline = time.monotonic() + patience_s
        while not holds(text := self.text()):
            assert time.monotonic() < deadline, f"waited for {what}, but the terminal shows:\n{text}"
            time.sleep(0.02)
        return text


@contextmanager
def terminal(
    directory: Path, *, env: Mapping[str, str] | None = None, columns: int = 100, rows: int = 30
) -> Iterator[Pane]:
    """Open a terminal with a shell in `directory`."""
    need_tmux()
    pane = Pane(directory / "tmux.socket")
    variables = {"TERM": "xterm-256color", "PS1": "$ ", "LC_ALL": "C.UTF-8", **(env or {})}
    given = [f"{name}={value}" for name, value in variables.items()]
    unset = [word for name in ("NO_COLOR", "COLUMNS", "LINES") for word in ("-u", name)]
    shell = ("env", *unset, *given, "bash", "--norc", "--noprofile")
    size = ("-x", str(columns), "-y", str(rows))
    # `exec`: not every user's shell replaces itself by the last command, and tests look for the children of bash.
    pane.tmux("new-session", "-d", *size, "-c", str(directory), f"exec {shlex.join(shell)}")
    try:
        pane.wait_for(r"^\$")
        yield pane
    finally:
        pane.tmux("kill-server")
