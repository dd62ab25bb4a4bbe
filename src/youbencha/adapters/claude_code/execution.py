"""One run of the CLI, from its command line to its result."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path

from youbencha.adapters.base import AgentExecutionContext, AgentExecutionResult
from youbencha.adapters.claude_code.availability import credentials_given
from youbencha.adapters.claude_code.command import Invocation, build_command
from youbencha.adapters.claude_code.config_dir import config_dir, on_the_host
from youbencha.adapters.claude_code.conversation import Conversation, when
from youbencha.adapters.claude_code.debug_log import watch_debug_log
from youbencha.adapters.claude_code.errors import CLAUDE
from youbencha.adapters.claude_code.facts import SessionFacts
from youbencha.adapters.claude_code.result import build_result
from youbencha.adapters.claude_code.session_file import with_session_file
from youbencha.adapters.claude_code.watch import Watch
from youbencha.adapters.cli_agent.artifacts import new_log_file
from youbencha.process import Command, Limits, Redactor


class Execution:
    def __init__(self, invocation: Invocation, context: AgentExecutionContext, harness: Mapping[str, str]) -> None:
        self._invocation = invocation
        self._context = context
        self._command = build_command(invocation)
        self._redactor = Redactor.for_env(harness, context.env, self._command.env)
        self._log_file = new_log_file(context.artifacts_dir, CLAUDE.logs)

    async def run(self) -> AgentExecutionResult:
        in_print_mode = self._invocation.transport == "print"
        return await (self._print() if in_print_mode else self._converse())

    async def _print(self) -> AgentExecutionResult:
        """It gets its prompt, and is left alone."""
        invocation, context, command = self._invocation, self._context, self._command
        watch = self._watch(command, context.stop)
        async with self._debug_log_watched(watch, command), watch.following(context.stop):
            done = await context.sandbox.run(
                command,
                limits=Limits(timeout_s=context.timeout_s),
                redactor=self._redactor,
                log_file=self._log_file,
                on_line=watch.line if invocation.config.output_format == "stream-json" else None,
                on_start=watch.started,
                stop=watch.stop,
            )
        watch.ended(done)
        return build_result(
            done,
            self._facts(watch, command),
            invocation,
            context,
            log_file=self._log_file,
            redactor=self._redactor,
            key_rejected=watch.key_rejected,
            answered_first=watch.answered_first,
        )

    async def _converse(self) -> AgentExecutionResult:
        """It is asked, and asks, until its result is there."""
        context = self._context
        talk = Conversation(self._invocation, context, self._redactor)
        async with talk.line as line:
            invocation = replace(self._invocation, line_flags=line.flags, stdin=line.stdin)
            command = build_command(invocation)
            watch = self._watch(command, talk.interrupting)

            def on_line(text: bytes) -> None:
                watch.line(text)
                line.line(text)

            with talk.deadline():
                async with (
                    self._debug_log_watched(watch, command),
                    talk.stopping(),
                    when(watch.stop, line.stop.set),
                ):
                    done = await context.sandbox.run(
                        command,
                        limits=Limits(timeout_s=talk.timeout_s),
                        redactor=self._redactor,
                        log_file=self._log_file,
                        on_line=on_line,
                        on_start=watch.started,
                        stop=line.stop,
                        also=line.sources,
                    )
        given_up = talk.unresponsive(done)
        done = talk.settled(done)
        watch.ended(done)
        return build_result(
            done,
            self._facts(watch, command).model_copy(update={"denied_by_policy": dict(talk.denied)}),
            invocation,
            context,
            log_file=self._log_file,
            redactor=self._redactor,
            key_rejected=watch.key_rejected,
            answered_first=watch.answered_first,
            interrupted=talk.interrupting.is_set(),
            unresponsive=None if watch.key_rejected else given_up,
        )

    def _facts(self, watch: Watch, command: Command) -> SessionFacts:
        config = config_dir(on_the_host(self._context.sandbox, command.env))
        return with_session_file(watch.session.facts(), watch.session_id, config)

    def _watch(self, command: Command, stopping: asyncio.Event | None) -> Watch:
        return Watch(
            self._context.on_event,
            redactor=self._redactor,
            session_id=self._invocation.session_id,
            key_may_recover=not credentials_given(command.env),
            stopping=stopping,
        )

    @contextlib.asynccontextmanager
    async def _debug_log_watched(self, watch: Watch, command: Command) -> AsyncIterator[None]:
        """Where the output says nothing of failed requests."""
        if "--debug" not in command.argv:
            yield
            return
        sandbox = self._context.sandbox
        env, cwd = on_the_host(sandbox, command.env), Path(sandbox.inside(command.cwd))
        watching = asyncio.create_task(
            watch_debug_log(lambda: watch.session_id, watch.on_rejected_key, env=env, cwd=cwd)
        )
        try:
            yield
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError):  # a log that cannot be read costs only time
                await watching
