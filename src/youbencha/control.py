"""`python -m youbencha.control`: serve the control protocol to a CLI, or start a CLI with `--stdio` and drive it.

It uses argparse, because it is started with every agent of an arena.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from youbencha.adapters.claude_code.control import END_SESSION, ControlProtocol, Timeouts
from youbencha.adapters.claude_code.stream import ClaudeStreamReader
from youbencha.adapters.claude_code.transports import ControlServer, Driver, StdioTransport
from youbencha.errors import YouBenchaError
from youbencha.events import Event, ToolDecided, WarningRaised
from youbencha.files import replace_atomically
from youbencha.json_lines import Record, as_str, encode
from youbencha.log.session import SessionRecorder
from youbencha.process import Command, Redactor, find_executable, run
from youbencha.store.layout import sidecar_record

DONE, FAILED, BAD_USAGE = 0, 1, 2
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_PORT = 9876
_MAX_PORT = 65_535

_DESCRIPTION = """\
Gives an agent CLI its task, answers its questions about tools, and writes its usage. The exit code is 0 if the agent
completed its task, 1 if it failed or did not answer in time, 2 if the arguments are invalid."""


class Options(NamedTuple):
    task: str
    metrics_file: Path | None
    port: int
    timeouts: Timeouts
    debug: bool
    command: tuple[str, ...]
    """The CLI to start and drive over stdio; empty to drive the agent that connects."""


def main(arguments: Sequence[str]) -> int:
    own, command = _split(arguments)
    parser = _parser()
    try:
        options = _options(parser, parser.parse_args(own), command)
    except SystemExit as end:  # --help, or an error that argparse has printed
        return end.code if isinstance(end.code, int) else BAD_USAGE

    try:
        return asyncio.run(drive(options) if options.command else serve(options))
    except YouBenchaError as error:
        print(f"youbencha.control: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return FAILED


def _split(arguments: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Our arguments, and the agent's after `--`."""
    if "--" not in arguments:
        return list(arguments), ()
    at = list(arguments).index("--")
    return list(arguments[:at]), tuple(arguments[at + 1 :])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m youbencha.control",
        usage="%(prog)s --task-file FILE [options]\n       %(prog)s --stdio --task-file FILE [options] -- CLI [flags]",
        description=_DESCRIPTION,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--task-file", required=True, type=Path, metavar="FILE", help="the task, as text")
    add("--stdio", action="store_true", help="start the CLI after `--` and drive it over standard input and output")
    add("--port", type=int, default=_PORT, help="on 127.0.0.1, for a CLI with --sdk-url (%(default)s; 0: any free)")
    add("--metrics-file", type=Path, metavar="FILE", help="write the usage here, however the session ends")
    add(
        "--idle-timeout",
        type=float,
        default=5.0,
        metavar="MINUTES",
        help="of silence, while no tool runs (%(default)g)",
    )
    add("--connect-timeout", type=float, default=60.0, metavar="SECONDS", help="until an agent connects (%(default)g)")
    for removed in ("--allow", "--deny"):
        add(removed, action="append", help=argparse.SUPPRESS)
    add("--debug", action="store_true", help="print every message to standard error")
    return parser


def _options(parser: argparse.ArgumentParser, given: argparse.Namespace, command: tuple[str, ...]) -> Options:
    if given.stdio != bool(command):
        parser.error("--stdio needs the CLI to drive after `--`" if given.stdio else "a CLI after `--` needs --stdio")
    if not 0 <= given.port <= _MAX_PORT:
        parser.error(f"invalid port {given.port}")
    if given.idle_timeout <= 0 or given.connect_timeout <= 0:
        parser.error("a timeout must be more than 0")
    if given.allow or given.deny:
        parser.error("--allow and --deny were removed: pass --allowedTools and --disallowedTools to the CLI itself")
    return Options(
        task=_task(parser, given.task_file),
        metrics_file=given.metrics_file,
        port=given.port,
        timeouts=Timeouts(connect_s=given.connect_timeout, silence_s=given.idle_timeout * 60),
        debug=given.debug,
        command=command,
    )


def _task(parser: argparse.ArgumentParser, path: Path) -> str:
    try:
        task = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        parser.error(f"cannot read the task file {path}: {getattr(error, 'strerror', None) or error}")
    if not task.strip():
        parser.error(f"the task file {path} is empty")
    return task


class _Listener:
    """Passes messages from the WebSocket to the driver, and prints them with `--debug`."""

    def __init__(self, driver: Driver, debug: bool) -> None:
        self._driver = driver
        self._debug = debug

    def connected(self, send: Callable[[str], None]) -> None:
        self._driver.connected(send)

    def received(self, line: str) -> None:
        if self._debug:
            _print(Redactor().text(line.strip()))
        self._driver.received(line)

    def disconnected(self) -> None:
        self._driver.disconnected()


async def serve(options: Options) -> int:
    """Drive the first agent that connects."""
    with _session(options) as driver:
        server = ControlServer(_Listener(driver, options.debug))
        try:
            port = await server.listen_on_port(options.port)
            print(f"listening on ws://127.0.0.1:{port}", flush=True)
            await driver.finished.wait()
            await server.hang_up(encode(END_SESSION))
        finally:
            await server.close()
    return _verdict(driver)


async def drive(options: Options) -> int:
    """Start a CLI and drive it. Its output is copied to standard output."""
    with _session(options) as driver:
        async with StdioTransport(driver, knows_end_session=True) as transport:

            def on_line(text: bytes) -> None:
                sys.stdout.buffer.write(text + b"\n")
                sys.stdout.buffer.flush()
                transport.line(text)

            command = Command(_resolved(options.command), Path.cwd(), dict(os.environ), stdin=transport.stdin)
            done = await run(command, on_line=on_line, stop=transport.stop)
        for line in done.output.splitlines():
            if not line.startswith("{"):  # those were standard output
                print(line, file=sys.stderr)
    exit_code = not done.stopped and done.exit.shell_code
    return _verdict(driver) and (exit_code or FAILED)


def _resolved(command: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command with its program as a path; a name is looked up on PATH."""
    if Path(command[0]).name != command[0]:
        return (str(Path(command[0]).absolute()), *command[1:])
    program = find_executable(command[0], os.environ)
    if program is None:
        raise YouBenchaError("CONTROL_NO_CLI", f"The program {command[0]!r} is not on PATH.", hint="Install it.")
    return (str(program), *command[1:])


@contextlib.contextmanager
def _session(options: Options) -> Iterator[Driver]:
    """Open a driver that a signal interrupts, and write its metrics however it ends."""
    loop = asyncio.get_running_loop()
    protocol = ControlProtocol(options.task, timeouts=options.timeouts, now=loop.time())
    metrics = SessionMetrics()
    show = _printer(options.debug)

    def on_event(event: Event) -> None:
        metrics.on_event(event)
        show(event)

    driver = Driver(protocol, on_event=on_event, on_record=metrics.on_record)
    with contextlib.suppress(NotImplementedError):  # Windows
        for number in _SIGNALS:
            loop.add_signal_handler(number, driver.interrupt, f"ended by {number.name}")
    try:
        yield driver
    finally:
        driver.disconnected()
        if options.metrics_file:
            _write(options.metrics_file, metrics.sidecar(protocol))


def _write(path: Path, metrics: Mapping[str, Any]) -> None:
    try:
        write_sidecar(path, metrics)
    except OSError as error:  # must not change the result of the session
        _print(f"cannot write {path}: {error.strerror or error}")


def _verdict(driver: Driver) -> int:
    ended = driver.ended
    if ended is None or not ended.ok:
        _print(ended.reason if ended else "the session ended without a result")
        return FAILED
    return DONE


def _printer(debug: bool) -> Callable[[Event], None]:
    def show(event: Event) -> None:
        if isinstance(event, WarningRaised):
            _print(event.message)
        elif isinstance(event, ToolDecided) and (debug or not event.allowed):
            _print(f"{'allowed' if event.allowed else 'denied'} {event.name}: {event.reason}")

    return show


def _print(message: str) -> None:
    print(f"youbencha.control: {message}", file=sys.stderr, flush=True)


class SessionMetrics:
    """Counts a session for the metrics sidecar, in the same way as the log."""

    def __init__(self) -> None:
        self._recorder = SessionRecorder()
        self._handlers = ClaudeStreamReader().handlers()

    def on_record(self, record: Record) -> None:
        handler = self._handlers.get(as_str(record.get("type")) or "")
        for event in handler(record) if handler else ():
            self._recorder.record(event)

    def on_event(self, event: Event) -> None:
        self._recorder.record(event)

    def sidecar(self, protocol: ControlProtocol) -> dict[str, Any]:
        """Return the content of the metrics file."""
        facts = self._recorder.facts()
        return sidecar_record(
            facts.usage,
            turns=facts.turns,
            tools_used=sorted(facts.tools_used),
            duration_ms=protocol.duration_ms,
            session_id=facts.session_id,
            model=facts.model,
            ended=protocol.ended,
        )


def write_sidecar(path: Path, metrics: Mapping[str, Any]) -> None:
    """Write the sidecar atomically, and replace a link instead of following it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(metrics, indent=2) + "\n"
    replace_atomically(path, text.encode(), mode=0o644)  # another user may have to read it


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
