"""The screen and the work in one event loop, in a real terminal (a PTY): however it ends, the terminal is restored."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

if sys.platform == "win32":
    pytest.skip("needs a PTY", allow_module_level=True)

import fcntl
import pty
import select
import struct
import termios

PATIENCE_S = 30
ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"
CURSOR, NO_MOUSE = b"\x1b[?25h", b"\x1b[?1000l"

PROGRAM = """
import asyncio, pathlib, sys
from youbencha.cli.interrupts import run_async
from youbencha.events import AssistantText, LoopStarted, IterationStarted
from youbencha.loop.control import LoopControl
from youbencha.tui.screen import Screen, run_with_screen
assert "textual" not in sys.modules and "rich" not in sys.modules

class Control(LoopControl):
    async def diff(self):
        return ""

async def go():
    while not pathlib.Path(sys.argv[1]).exists():
        await asyncio.sleep(0.02)

async def main():
    control = Control()
    screen = Screen("title", control if LOOP else None, stay=STAY, fallback=lambda event: print(event.text))
    if LOOP:
        screen.sink(LoopStarted(loop_id="x", directory="/", backend="claude", model=None, max_iterations=3,
                                max_runtime_s=None, max_cost_usd=None))
        screen.sink(IterationStarted(iteration=1, backend="claude", model=None))
    screen.sink(AssistantText(text="first text"))
    async def work():
        try:
{body}
        finally:
            ended.append("cleaned up")
    try:
        return await run_with_screen(screen, work())
    finally:
        print(*ended)

ended = []
try:
    print("result", run_async(main()))
except (Exception, KeyboardInterrupt) as error:
    print("raised", type(error).__name__)
"""


class Terminal:
    def __init__(self, process: subprocess.Popen[bytes], fd: int, go: Path) -> None:
        self.process, self.fd, self.go, self.output = process, fd, go, b""

    def read_until(self, wanted: bytes) -> None:
        """Read until the program has written this."""
        until = time.monotonic() + PATIENCE_S
        while wanted not in self.output:
            assert time.monotonic() < until, self.output[-2000:]
            self._read()

    def rest(self) -> bytes:
        """Let the work end, and read to the end of the program. Returns what it printed after the screen."""
        self.go.touch()
        until = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            assert time.monotonic() < until, self.output[-2000:]
            self._read()
        while self._read():  # a terminal holds more than what is read at once
            pass
        return self.output[self.output.rindex(LEAVE) :]

    def _read(self) -> bool:
        """Read what is there, if anything is."""
        is_ready = bool(select.select([self.fd], [], [], 0.02)[0])
        if is_ready:
            self.output += os.read(self.fd, 1_000_000)
        return is_ready

    def write(self, keys: bytes) -> None:
        os.write(self.fd, keys)


@contextmanager
def running(
    tmp_path: Path, body: str, *, loop: bool = True, stay: bool = False, term: str = "xterm-256color"
) -> Iterator[Terminal]:
    """A program whose work is `body`, in a PTY. Afterwards, the terminal has its first settings."""
    lines = "\n".join(f"            {line}" for line in body.splitlines())
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.replace("LOOP", str(loop)).replace("STAY", str(stay)).replace("{body}", lines))
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    before = termios.tcgetattr(theirs)
    env = {**os.environ, "TERM": term}
    command = [sys.executable, str(program), str(tmp_path / "go")]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True)
    terminal = Terminal(process, ours, tmp_path / "go")
    try:
        yield terminal
        assert termios.tcgetattr(theirs) == before
        last = terminal.output.rindex(LEAVE)
        assert terminal.output.count(ENTER) == terminal.output.count(LEAVE)
        assert terminal.output.rindex(b"\x1b[?25l") < terminal.output.rindex(CURSOR)
        assert terminal.output.rindex(b"\x1b[?1000h") < terminal.output.rindex(NO_MOUSE)
        assert ENTER not in terminal.output[last:]
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(theirs)
        os.close(ours)


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


def hang_up(terminal: Terminal) -> None:
    """Close the terminal, as a window that is closed does: its last writer gets an error, and the program a signal."""
    os.dup2(os.open(os.devnull, os.O_RDWR), terminal.fd)
    terminal.process.send_signal(signal.SIGHUP)


FOREVER = "await control.stop_now.wait()\nreturn 'stopped'"


@pytest.mark.parametrize(("term", "colours"), [("xterm-256color", True), ("vt100", False)])
def test_the_screen_closes_when_the_work_has_ended(tmp_path: Path, term: str, colours: bool) -> None:
    """Colours are written only if the terminal has them."""
    with running(tmp_path, "await go()\nreturn 7", term=term) as terminal:
        terminal.read_until(b"first text")
        assert b"cleaned up\r\nresult 7" in terminal.rest()
        assert (b"\x1b[38;" in terminal.output or b";48;" in terminal.output) == colours


def test_work_that_fails(tmp_path: Path) -> None:
    with running(tmp_path, "await go()\nraise ValueError('no')") as terminal:
        terminal.read_until(b"first text")
        assert b"cleaned up\r\nraised ValueError" in terminal.rest()


def test_work_that_ends_at_once(tmp_path: Path) -> None:
    with running(tmp_path, "return 7") as terminal:
        assert b"result 7" in terminal.rest()


def test_sigterm(tmp_path: Path) -> None:
    with running(tmp_path, FOREVER) as terminal:
        terminal.read_until(b"first text")
        terminal.process.send_signal(signal.SIGTERM)
        assert b"cleaned up\r\nraised KeyboardInterrupt" in terminal.rest()


def test_a_screen_that_crashes_leaves_the_work_alone(tmp_path: Path) -> None:
    body = (
        "await go()\n"
        "screen.model.sessions[0].title = None\n"
        "while not screen.failed:\n"
        "    await asyncio.sleep(0.02)\n"
        "screen.sink(AssistantText(text='as a plain line'))\n"
        "return 7"
    )
    with running(tmp_path, body) as terminal:
        terminal.read_until(b"first text")
        after = terminal.rest()
    assert b"The screen failed (" in after
    assert b"Traceback" not in after
    assert b"as a plain line" in after
    assert b"result 7" in after


def test_quit_stops_the_loop_and_leaves(tmp_path: Path) -> None:
    with running(tmp_path, FOREVER, stay=True) as terminal:
        terminal.read_until(b"first text")
        terminal.write(b"q")
        terminal.read_until(b"has not ended")
        terminal.write(b"y")
        assert b"cleaned up\r\nresult stopped" in terminal.rest()


def test_ctrl_c_without_a_loop_is_an_interrupt(tmp_path: Path) -> None:
    with running(tmp_path, "await asyncio.sleep(60)", loop=False) as terminal:
        terminal.read_until(b"first text")
        terminal.write(b"\x03")
        terminal.read_until(b"Stop the run now?")
        terminal.write(b"\x03")
        assert b"cleaned up\r\nraised KeyboardInterrupt" in terminal.rest()


def test_it_stays_until_a_key_if_asked_to(tmp_path: Path) -> None:
    with running(tmp_path, "return 7", stay=True) as terminal:
        terminal.read_until(b"ENDED")
        terminal.write(b"q")
        assert b"result 7" in terminal.rest()


BUSY = """for number in range(200):
    screen.sink(AssistantText(text=f"{number} " * 500))
    await asyncio.sleep(0.02)
pathlib.Path(sys.argv[1] + "-done").touch()
await go()
return 7"""


def test_a_terminal_that_takes_nothing_does_not_hold_up_the_work(tmp_path: Path) -> None:
    """As over a connection that hangs. Once it goes on, the whole screen is painted again."""
    with running(tmp_path, BUSY) as terminal:
        terminal.read_until(b"title")
        wait_until(lambda: (tmp_path / "go-done").exists())
        terminal.output = terminal.output[terminal.output.index(ENTER) :]
        terminal.read_until(b"199 199")
        assert b"result 7" in terminal.rest()


def test_a_terminal_that_is_gone_ends_the_work(tmp_path: Path) -> None:
    """What is written to it fails, which must not be waited for."""
    body = BUSY.replace("await go()", "await asyncio.sleep(600)")
    with suppress(termios.error, ValueError), running(tmp_path, body) as terminal:
        terminal.read_until(b"title")
        hang_up(terminal)
        wait_until(lambda: terminal.process.poll() is not None)
        assert terminal.process.returncode >= 0
