"""One run of the CLI, from its command line to its result."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path

from youbencha.adapters.base import AgentExecutionContext, AgentExecutionResult
from youbencha.adapters.claude_code.command import Invocation, build_command
from youbencha.adapters.claude_code.config import CLAUDE
from youbencha.adapters.claude_code.control_mode import Conversation, when
from youbencha.adapters.claude_code.locate import credentials_given
from youbencha.adapters.claude_code.own_files import config_dir, on_the_host, watch_debug_log, with_session_file
from youbencha.adapters.claude_code.verdict import Ending, judge
from youbencha.adapters.cli_agent.adapter import TAIL_CHARACTERS, TIMEOUT_EXIT_CODE, as_partial, process_details
from youbencha.adapters.cli_agent.invocation import new_log_file
from youbencha.adapters.cli_agent.stream import OutputReader
from youbencha.adapters.cli_agent.warnings import process_warnings
from youbencha.control.stream_json import ClaudeStreamReader
from youbencha.events import Event, EventSink, RequestRetried
from youbencha.log import iso_time
from youbencha.log.session import SessionRecord
from youbencha.process import Command, Limits, ProcessResult, Redactor

_UNAUTHORIZED = 401


class Watch(OutputReader):
    """Fed with each line of the CLI's output. `stop` is set when the key was rejected for good, or as told."""

    def __init__(
        self,
        on_event: EventSink | None,
        *,
        redactor: Redactor | None = None,
        session_id: str | None = None,
        key_may_recover: bool = False,
        stopping: asyncio.Event | None = None,
    ) -> None:
        """`key_may_recover`: the CLI can renew its login by itself, so that one rejection is not the end."""
        super().__init__(CLAUDE, ClaudeStreamReader(), on_event=on_event, redactor=redactor, stopping=stopping)
        self._given_id = session_id
        self._rejections_allowed = 1 if key_may_recover else 0
        self.key_rejected = False
        self.stop = asyncio.Event()

    @contextlib.asynccontextmanager
    async def following(self, stopping: asyncio.Event | None) -> AsyncIterator[None]:
        """Stop, too, when somebody else wants the agent to end."""
        if stopping is None:
            yield
            return
        following = asyncio.create_task(self._follow(stopping))
        try:
            yield
        finally:
            following.cancel()

    async def _follow(self, stopping: asyncio.Event) -> None:
        await stopping.wait()
        self.stop.set()

    @property
    def session_id(self) -> str | None:
        return self._given_id or self.recorder.session_id

    def on_event(self, event: Event) -> None:
        if isinstance(event, RequestRetried) and event.status == _UNAUTHORIZED:
            self.on_rejected_key()

    def on_rejected_key(self) -> None:
        """The API rejected the key. The CLI would try it ten times more, for three minutes."""
        if self._rejections_allowed:
            self._rejections_allowed -= 1
            return
        self.key_rejected = True
        self.stop.set()


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
        watch.finish()
        watch.ended(done)
        return build_result(
            done,
            self._session(watch, command),
            invocation,
            context,
            log_file=self._log_file,
            redactor=self._redactor,
            key_rejected=watch.key_rejected,
            finished_before_stop=watch.finished_before_stop,
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
        watch.finish()
        watch.ended(done)
        return build_result(
            done,
            self._session(watch, command).with_facts(denied_by_policy=dict(talk.denied)),
            invocation,
            context,
            log_file=self._log_file,
            redactor=self._redactor,
            key_rejected=watch.key_rejected,
            finished_before_stop=watch.finished_before_stop,
            interrupted=talk.interrupting.is_set(),
            unresponsive=None if watch.key_rejected else given_up,
        )

    def _session(self, watch: Watch, command: Command) -> SessionRecord:
        session = watch.session()
        config = config_dir(on_the_host(self._context.sandbox, command.env))
        return replace(session, facts=with_session_file(session.facts, watch.session_id, config))

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


# What is handed back when the process is gone.


def build_result(
    done: ProcessResult,
    session: SessionRecord,
    invocation: Invocation,
    context: AgentExecutionContext,
    *,
    log_file: Path,
    redactor: Redactor,
    key_rejected: bool = False,
    finished_before_stop: bool = False,
    interrupted: bool = False,
    unresponsive: str | None = None,
) -> AgentExecutionResult:
    cli = invocation.cli
    if (done.stopped or interrupted) and not finished_before_stop:
        session = as_partial(session)
    duration_ms = round(done.duration_s * 1000)
    at = iso_time(done.ended_at)
    ending = Ending(
        exit_code=done.exit.code,
        signal=done.exit.signal,
        timed_out=done.timed_out,
        timeout_ms=context.timeout,
        duration_ms=duration_ms,
        key_rejected=done.stopped and key_rejected,
        stopped=done.stopped,
        finished_before_stop=finished_before_stop,
        interrupted=interrupted and not finished_before_stop,
        unresponsive=unresponsive,
        truncated=done.truncated,
        breach=done.exit.breach,
        stream_expected=invocation.config.output_format == "stream-json",
        output_tail=done.output[-TAIL_CHARACTERS:],
        facts=session.facts,
    )
    verdict = judge(ending, at=at)
    return AgentExecutionResult(
        exit_code=TIMEOUT_EXIT_CODE if done.timed_out else done.exit.shell_code,
        status=verdict.status,
        output=done.output,
        started_at=iso_time(done.started_at),
        completed_at=at,
        duration_ms=duration_ms,
        errors=verdict.errors,
        warnings=(*verdict.warnings, *process_warnings(CLAUDE, done, cli.path, at, errors=verdict.errors)),
        agent_version=str(cli.version),
        log_file=log_file,
        session=session,
        details={
            "prompt": redactor.text(invocation.prompt.text),
            "transport": invocation.transport,
            **process_details(done, cli.path, cli.sha256),
        },
    )
