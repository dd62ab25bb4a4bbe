"""Drive Claude Code by its control protocol: answer its questions about tools, and end it gracefully."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from youbencha.adapters.claude_code.command import (
    ClaudeInvocation,
    bypasses_permissions,
    cli_version,
    first_message,
    transport_of,
)
from youbencha.adapters.claude_code.failed_calls import call_when_set, debug_log_watched, watch_of
from youbencha.adapters.claude_code.versions import Feature, supports
from youbencha.control.driver import Driver, StdioTransport
from youbencha.control.machine import Machine, Timeouts
from youbencha.control.websocket import WebSocketTransport
from youbencha.events import Event, ToolDecided, WarningRaised
from youbencha.process import Limits, ProcessResult, Redactor

if TYPE_CHECKING:
    from youbencha.adapters.claude_code.adapter import ClaudeCodeAdapter
    from youbencha.adapters.cli_agent.verdict import RunEnding

INTERRUPT_S = 1.0
"""How long to wait for a result after `interrupt`; it usually comes within 0.1 s."""

_BACKSTOP_S = 0.5

_STARTS_WITHIN_S = 60.0
"""A CLI of 350 MB took 15 s to start from a cold disk."""

_CONTROL_PORT = 9876


async def drive(adapter: ClaudeCodeAdapter, invocation: ClaudeInvocation, log_file: Path) -> RunEnding:
    """Run the session until its result, its deadline or a stop."""
    context, redactor = invocation.context, adapter.redactor(invocation)
    control = ControlSession(invocation, redactor)
    async with control.transport as transport:
        command = adapter.command(invocation, transport.flags, transport.stdin)
        watch = watch_of(invocation, command, redactor, control.interrupting)

        def on_line(line: bytes) -> None:
            watch.line(line)
            if line.startswith(b"{") or not watch.debug_log_printed:
                transport.line(line)

        with control.deadline():
            async with (
                debug_log_watched(watch, invocation, command, log_file),
                control.stopping(),
                call_when_set(watch.stop, transport.stop.set),
            ):
                process = await context.sandbox.run(
                    command,
                    limits=Limits(timeout_s=control.timeout_s),
                    redactor=redactor,
                    log_file=log_file,
                    on_line=on_line,
                    on_start=watch.started,
                    on_output=context.on_output,
                    stop=transport.stop,
                    also=transport.sources,
                )
    given_up = control.unresponsive(process)
    process = control.settled(process)
    watch.finish()
    watch.ended(process)
    return adapter.ending(
        invocation,
        process,
        watch.session(),
        key_rejected=process.stopped and watch.key_rejected,
        finished_before_stop=watch.finished_before_stop,
        interrupted=control.interrupting.is_set() and not watch.finished_before_stop,
        unresponsive=None if watch.key_rejected else given_up,
    )


class ControlSession:
    """One session by the protocol. Create it inside a running event loop."""

    def __init__(self, invocation: ClaudeInvocation, redactor: Redactor) -> None:
        context = self._context = invocation.context
        self._limit_s = invocation.time_left_s
        self._redactor = redactor
        config = invocation.config
        machine = Machine(
            first_message(invocation),
            approves=bypasses_permissions(config),
            timeouts=Timeouts(
                connect_s=_STARTS_WITHIN_S,
                handshake_s=_STARTS_WITHIN_S,
                silence_s=config.silence_timeout_s,
                background_s=config.exit_grace_s,
                interrupt_s=INTERRUPT_S,
            ),
            now=asyncio.get_running_loop().time(),
            awaits_model=context.gateway.is_busy if context.gateway else lambda: False,
        )
        self._driver = Driver(machine, on_event=self._note)
        self.transport = self._transport(invocation)
        self._deadline_passed = False

    @property
    def interrupting(self) -> asyncio.Event:
        return self._driver.interrupting

    def unresponsive(self, done: ProcessResult) -> str | None:
        """Why the session was abandoned; None if it was stopped on request, or had its result."""
        over = self._driver.over
        given_up = done.stopped and over is not None and self._driver.machine.result is None
        return over.reason if over and given_up and not self.interrupting.is_set() else None

    def settled(self, done: ProcessResult) -> ProcessResult:
        """The process result as print mode would have it: some versions have to be ended after their result."""
        if self.interrupting.is_set():
            return done._replace(timed_out=self._deadline_passed, stopped=not self._deadline_passed)
        over = self._driver.over
        if not (done.stopped or done.timed_out) or over is None or self._driver.machine.result is None:
            return done
        left = done.exit._replace(code=0 if over.ok else 1, signal=None, signal_number=None)
        return done._replace(stopped=False, timed_out=False, exit=left)

    @property
    def timeout_s(self) -> float | None:
        """The deadline of the process, if the interrupt does not end it."""
        limit = self._limit_s
        return None if limit is None else limit + INTERRUPT_S + _BACKSTOP_S

    @contextlib.contextmanager
    def deadline(self) -> Iterator[None]:
        """Interrupt the agent at its deadline."""
        limit = self._limit_s
        if limit is None:
            yield
            return
        timer = asyncio.get_running_loop().call_later(limit, self._on_deadline)
        try:
            yield
        finally:
            timer.cancel()

    @contextlib.asynccontextmanager
    async def stopping(self) -> AsyncIterator[None]:
        """Interrupt the agent when `context.stop` is set."""
        async with call_when_set(self._context.stop, lambda: self._driver.interrupt("the run was stopped")):
            yield

    def _on_deadline(self) -> None:
        is_running = self._driver.over is None
        self._driver.interrupt("the deadline has passed")
        self._deadline_passed = is_running and self.interrupting.is_set()

    def _transport(self, invocation: ClaudeInvocation) -> StdioTransport | WebSocketTransport:
        version = cli_version(invocation.cli)
        if transport_of(invocation) == "stdio":
            return StdioTransport(self._driver, knows_end_session=supports(version, Feature.END_SESSION))
        forwarded = self._context.sandbox.forward_port(_CONTROL_PORT)
        leaves = supports(version, Feature.LEAVES_WEBSOCKET)
        return WebSocketTransport(self._driver, forwarded=forwarded, leaves_by_itself=leaves)

    def _note(self, event: Event) -> None:
        if self._context.on_event is None:
            return
        if isinstance(event, WarningRaised):  # it may quote a message
            event = replace(event, message=self._redactor.text(event.message))
        if isinstance(event, ToolDecided):
            event = replace(event, reason=self._redactor.text(event.reason))
        self._context.on_event(event)
