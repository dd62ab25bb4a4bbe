"""One session from the command line, by either transport."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from youbencha.control.cli import DONE, FAILED, Options
from youbencha.control.driver import Driver
from youbencha.control.farewell import END_SESSION
from youbencha.control.machine import Machine
from youbencha.control.metrics import metrics
from youbencha.control.ndjson import encode
from youbencha.control.server import ControlServer
from youbencha.control.sidecar import write_sidecar
from youbencha.control.stdio import StdioLine
from youbencha.errors import YouBenchaError
from youbencha.events import Event, ToolDecided, Warned
from youbencha.process import Command, Redactor, find_executable, run

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class _Heard:
    """Hands what comes by the WebSocket to the driver, and tells of it."""

    def __init__(self, driver: Driver, debug: bool) -> None:
        self._driver = driver
        self._debug = debug

    def opened(self, send: Callable[[str], None]) -> None:
        self._driver.connected(send)

    def heard(self, line: str) -> None:
        if self._debug:
            _note(Redactor().text(line.strip()))
        self._driver.heard(line)

    def gone(self) -> None:
        self._driver.closed()


async def serve(options: Options) -> int:
    """For whoever connects first."""
    with _session(options) as driver:
        server = ControlServer(_Heard(driver, options.debug))
        try:
            port = await server.listen_on_port(options.port)
            print(f"listening on ws://127.0.0.1:{port}", flush=True)
            await driver.ended.wait()
            await server.hang_up(encode(END_SESSION))
        finally:
            await server.close()
    return _verdict(driver)


async def drive(options: Options) -> int:
    """A CLI of our own. What it prints goes on to standard output as it comes."""
    with _session(options) as driver:
        async with StdioLine(driver, knows_end_session=True) as line:

            def on_line(text: bytes) -> None:
                sys.stdout.buffer.write(text + b"\n")
                sys.stdout.buffer.flush()
                line.line(text)

            command = Command(_found(options.command), Path.cwd(), dict(os.environ), stdin=line.stdin)
            done = await run(command, on_line=on_line, stop=line.stop)
        for said in done.output.splitlines():
            if not said.startswith("{"):  # the rest was standard output
                print(said, file=sys.stderr)
    ended_by_itself = not done.stopped and done.exit.shell_code
    return _verdict(driver) and (ended_by_itself or FAILED)


def _found(command: tuple[str, ...]) -> tuple[str, ...]:
    """A path as it is; a name, where PATH leads."""
    if Path(command[0]).name != command[0]:
        return (str(Path(command[0]).absolute()), *command[1:])
    program = find_executable(command[0], os.environ)
    if program is None:
        raise YouBenchaError("CONTROL_NO_CLI", f"There is no program {command[0]!r} on PATH.", hint="Install it.")
    return (str(program), *command[1:])


@contextlib.contextmanager
def _session(options: Options) -> Iterator[Driver]:
    """A driver that a signal interrupts, and whose metrics are written however it ends."""
    loop = asyncio.get_running_loop()
    machine = Machine(options.task, policy=options.policy, patience=options.patience, now=loop.time())
    driver = Driver(machine, on_event=_teller(options.debug))
    with contextlib.suppress(NotImplementedError):  # Windows
        for number in _SIGNALS:
            loop.add_signal_handler(number, driver.interrupt, f"ended by {number.name}")
    try:
        yield driver
    finally:
        driver.closed()
        if options.metrics_file:
            _write(options.metrics_file, machine)


def _write(path: Path, machine: Machine) -> None:
    try:
        write_sidecar(path, metrics(machine.tally))
    except OSError as error:  # the session was what it was
        _note(f"cannot write {path}: {error.strerror or error}")


def _verdict(driver: Driver) -> int:
    over = driver.over
    if over is None or not over.ok:
        _note(over.reason if over else "it ended without a word")
        return FAILED
    return DONE


def _teller(debug: bool) -> Callable[[Event], None]:
    def tell(event: Event) -> None:
        if isinstance(event, Warned):
            _note(event.message)
        elif isinstance(event, ToolDecided) and (debug or not event.allowed):
            _note(f"{'allowed' if event.allowed else 'denied'} {event.name}: {event.reason}")

    return tell


def _note(words: str) -> None:
    print(f"youbencha.control: {words}", file=sys.stderr, flush=True)
