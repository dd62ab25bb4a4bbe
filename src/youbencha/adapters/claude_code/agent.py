"""ClaudeCodeAdapter: what is specific to the Claude Code CLI."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from youbencha.adapters.base import AgentExecutionContext, AgentExecutionResult, parse_version
from youbencha.adapters.claude_code.command import (
    CREDENTIALS,
    ClaudeInvocation,
    build_command,
    bypasses_permissions,
    check_prompt,
    chosen_session_id,
    cli_version,
    first_message,
    gateway_variables,
    session_transport,
    settings_directory,
)
from youbencha.adapters.claude_code.control import ControlProtocol, Timeouts
from youbencha.adapters.claude_code.options import ClaudeCode, ClaudeCodeConfig, credentials_given
from youbencha.adapters.claude_code.output import SessionEnd, call_when_set, make_reader, watch_debug_log
from youbencha.adapters.claude_code.own_files import (
    agent_definition,
    config_dir,
    host_environment,
    mcp_problems,
    with_session_file,
    with_shared_files,
)
from youbencha.adapters.claude_code.stream import ClaudeStreamReader, read_claims
from youbencha.adapters.claude_code.transports import Driver, StdioTransport, WebSocketTransport
from youbencha.adapters.claude_code.versions import Feature, result_totals, supports
from youbencha.adapters.cli_agent import AgentCli, CliAdapter
from youbencha.adapters.cli_agent.adapter import removed_afterwards, scratch_directory
from youbencha.adapters.cli_agent.verdict import RunEnding
from youbencha.errors import ConfigError, Problem
from youbencha.events import Event, ToolDecided, WarningRaised
from youbencha.gateway.access import GatewayAccess, Provider
from youbencha.json_lines import Record, as_mapping, loads
from youbencha.log.session import SessionRecord
from youbencha.process import Command, Input, Limits, ProcessResult, Redactor, run

_INHERITED = frozenset({
    "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR",
    "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY", "ANTHROPIC_FOUNDRY_API_KEY",
    "ANTHROPIC_FOUNDRY_AUTH_TOKEN", "ANTHROPIC_FOUNDRY_BASE_URL", "ANTHROPIC_FOUNDRY_RESOURCE",
    "CLOUD_ML_REGION", "ANTHROPIC_VERTEX_PROJECT_ID",
    "AWS_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
    "AWS_BEARER_TOKEN_BEDROCK", "GOOGLE_APPLICATION_CREDENTIALS", "CLAUDE_CODE_GIT_BASH_PATH", "IS_SANDBOX",
})  # fmt: skip

_STATUS_TIMEOUT_S = 30.0

_LOOP_EXIT_GRACE_S = 5.0
"""How long it may stay after its result in a loop."""

INTERRUPT_S = 1.0
"""How long to wait for a result after `interrupt`; it usually comes within 0.1 s."""

_BACKSTOP_S = 0.5

_STARTS_WITHIN_S = 60.0
"""A CLI of 350 MB took 15 s to start from a cold disk."""

_CONTROL_PORT = 9876


class ClaudeCodeAdapter(ClaudeCode, CliAdapter[ClaudeCodeConfig]):
    """Runs Claude Code, in print mode or by its control protocol, and reads its stream-json (or plain text) output."""

    config_model = ClaudeCodeConfig
    inherited_env = _INHERITED
    default_env: ClassVar[Mapping[str, str]] = {
        # Fewer connections that are unrelated to the task, and no update during a trial.
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    # Lets it run with all tools allowed as root. Set only if it is true.
    boundary_env: ClassVar[Mapping[str, str]] = {"IS_SANDBOX": "1"}
    credentials = CREDENTIALS

    async def require_authentication(
        self, cli: AgentCli, env: Mapping[str, str], config: ClaudeCodeConfig | None
    ) -> None:
        """Raise if the CLI has no credentials. Whether they are *valid* is not checked: that would cost a request."""
        if credentials_given(env):
            return
        if supports(cli_version(cli), Feature.AUTH_STATUS):
            command = Command(argv=(*cli.argv, "auth", "status"), cwd=cli.path.parent, env=env)
            status = await run(command, limits=Limits(timeout_s=_STATUS_TIMEOUT_S))
            if status.exit.code != 0:
                raise self.auth_failed("`claude auth status` says that there is no login, and there is no API key.")
        elif not self.stored_login(env):
            # Before 2.1.40 `claude auth status` is not a command: "auth" would be sent to the model as a prompt.
            raise self.auth_failed("there is no API key and no stored login.")

    def stored_login(self, env: Mapping[str, str], platform: str = sys.platform) -> bool:
        """Return whether there may be a login: on macOS it is in the keychain, which is not searched."""
        if platform == "darwin":
            return True
        base = config_dir(env)
        if base is None:
            return False
        settings = _read(base / "settings.json")
        state = _read((base if env.get("CLAUDE_CONFIG_DIR") else base.parent) / ".claude.json")
        return (
            (base / ".credentials.json").is_file()
            or bool(settings.get("apiKeyHelper") or state.get("primaryApiKey"))
            or credentials_given(as_mapping(settings.get("env")))
        )

    def gateway_provider(self, model: str | None, env: Mapping[str, str]) -> Provider:
        """Always Anthropic's API, also for a test case that uses Bedrock or Vertex, which the gateway replaces."""
        return "anthropic"

    def gateway_env(self, access: GatewayAccess, model: str | None, env: Mapping[str, str]) -> Mapping[str, str]:
        return gateway_variables(access)

    def check_prompt(self, prompt: str, config: ClaudeCodeConfig) -> None:
        check_prompt(prompt, config)

    def check_config(self, config: Mapping[str, Any], config_dir: Path | None) -> Sequence[Problem]:
        return [*super().check_config(config, config_dir), *mcp_problems(config.get("mcp_config"), config_dir)]

    def check_custom_agent(
        self, name: str, *, workspace: Path, config_dir: Path | None, env: Mapping[str, str]
    ) -> Sequence[Problem]:
        try:
            agent_definition(name, workspace=workspace, env=env, harness=self.harness_env, project=config_dir)
        except ConfigError as error:
            return error.problems
        return ()

    def configure(self, context: AgentExecutionContext) -> ClaudeCodeConfig:
        return with_shared_files(super().configure(context), context)

    @contextmanager
    def scratch(self, context: AgentExecutionContext) -> Iterator[Path]:
        """Create two directories, one for the prompt and one for settings; the CLI only reads them."""
        with scratch_directory(context.scratch_dir) as path:
            settings = settings_directory(path)
            settings.mkdir(mode=0o700)
            with removed_afterwards(settings):
                context.sandbox.share(path)
                context.sandbox.share(settings)
                yield path

    def command(
        self, invocation: ClaudeInvocation, control_flags: tuple[str, ...] = (), stdin: Input | None = None
    ) -> Command:
        return build_command(
            invocation,
            agent_definition=self._agent_definition(invocation),
            is_root=hasattr(os, "geteuid") and os.geteuid() == 0,
            control_flags=control_flags,
            stdin=stdin,
        )

    async def drive(self, invocation: ClaudeInvocation, log_file: Path) -> RunEnding:
        """Run the CLI to its end, its deadline, or the first sign that it cannot succeed."""
        if session_transport(invocation) != "print":
            return await self._drive_by_protocol(invocation, log_file)
        context, redactor, command = invocation.context, self.redactor(invocation), self.command(invocation)
        output = make_reader(invocation, command, redactor, context.stop)
        timeout_s = invocation.time_left_s
        session_end = output.session_end = SessionEnd(output.stop.set, timeout_s, invocation.config.exit_grace_s)
        async with watch_debug_log(output, invocation, command, log_file), call_when_set(context.stop, output.stop.set):
            process = await context.sandbox.run(
                command,
                limits=Limits(timeout_s=timeout_s),
                redactor=redactor,
                log_file=log_file,
                on_line=output.line if self.stream_expected(invocation.config) else output.answer_line,
                on_start=output.started,
                on_output=context.on_output,
                stop=output.stop,
            )
        output.finish()
        process = session_end.as_clean_exit(process)
        output.ended(process)
        return self.ending(
            invocation,
            process,
            output.session(),
            key_rejected=process.stopped and output.key_rejected,
            finished_before_stop=output.finished_before_stop,
            stayed=session_end.stayed,
        )

    async def _drive_by_protocol(self, invocation: ClaudeInvocation, log_file: Path) -> RunEnding:
        """Run the session until its result, its deadline or a stop."""
        context, redactor = invocation.context, self.redactor(invocation)
        control = ControlSession(invocation, redactor)
        async with control.transport as transport:
            command = self.command(invocation, transport.flags, transport.stdin)
            output = make_reader(invocation, command, redactor, control.interrupting)

            def on_line(line: bytes) -> None:
                output.line(line)
                if line.startswith(b"{") or not output.debug_log_printed:
                    transport.line(line)

            with control.deadline():
                async with (
                    watch_debug_log(output, invocation, command, log_file),
                    control.stopping(),
                    call_when_set(output.stop, transport.stop.set),
                ):
                    process = await context.sandbox.run(
                        command,
                        limits=Limits(timeout_s=control.timeout_s),
                        redactor=redactor,
                        log_file=log_file,
                        on_line=on_line,
                        on_start=output.started,
                        on_output=context.on_output,
                        stop=transport.stop,
                        extra_sources=transport.sources,
                    )
        given_up = control.unresponsive(process)
        process = control.as_clean_exit(process)
        output.finish()
        output.ended(process)
        return self.ending(
            invocation,
            process,
            output.session(),
            key_rejected=process.stopped and output.key_rejected,
            finished_before_stop=output.finished_before_stop,
            interrupted=control.interrupting.is_set() and not output.finished_before_stop,
            unresponsive=None if output.key_rejected else given_up,
        )

    @classmethod
    def loop_config(cls, output_format: str) -> dict[str, Any]:
        partial = {"include_partial_messages": "auto"} if output_format == "stream-json" else {}
        return {"pty": "always", "output_format": output_format, "exit_grace_s": _LOOP_EXIT_GRACE_S, **partial}

    def reader(self) -> ClaudeStreamReader:
        return ClaudeStreamReader()

    def finished_output_reader(self, result: AgentExecutionResult) -> ClaudeStreamReader:
        return ClaudeStreamReader(result_totals(parse_version(result.agent_version or "")))

    def read_claims(self, text: str) -> SessionRecord:
        return read_claims(text)

    def stream_expected(self, config: ClaudeCodeConfig) -> bool:
        return config.output_format == "stream-json"

    def allowed_tools(self, config: ClaudeCodeConfig) -> Sequence[str]:
        return config.allowed_tools or ()

    def complete(self, invocation: ClaudeInvocation, session: SessionRecord, done: ProcessResult) -> SessionRecord:
        """Add what only the CLI's own session file has."""
        config = config_dir(host_environment(invocation.context.sandbox, invocation.env))
        session = with_session_file(session, chosen_session_id(invocation), config)
        if (failure := session.facts.failure) is not None:  # unlike the output, the file is not masked
            session = session.with_facts(failure=replace(failure, text=self.redactor(invocation).text(failure.text)))
        return session

    def details(self, invocation: ClaudeInvocation) -> dict[str, Any]:
        return {"transport": session_transport(invocation)}

    def _agent_definition(self, invocation: ClaudeInvocation) -> str | None:
        name = invocation.config.agent_name
        if name is None:
            return None
        return agent_definition(
            name,
            workspace=invocation.workspace,
            env=host_environment(invocation.context.sandbox, invocation.env),
            harness=self.harness_env,
            project=invocation.context.config_dir,
        )


def _read(path: Path) -> Record:
    try:
        return as_mapping(loads(path.read_bytes()))
    except (OSError, ValueError):
        return {}


class ControlSession:
    """One session by the protocol. Create it inside a running event loop."""

    def __init__(self, invocation: ClaudeInvocation, redactor: Redactor) -> None:
        context = self._context = invocation.context
        self._limit_s = invocation.time_left_s
        self._redactor = redactor
        config = invocation.config
        protocol = ControlProtocol(
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
        self._driver = Driver(protocol, on_event=self._note)
        self.transport = self._transport(invocation)
        self._deadline_passed = False

    @property
    def interrupting(self) -> asyncio.Event:
        return self._driver.interrupting

    def unresponsive(self, done: ProcessResult) -> str | None:
        """Return why the session was abandoned; None if it was stopped on request, or had its result."""
        ended = self._driver.ended
        given_up = done.stopped and ended is not None and self._driver.protocol.result is None
        return ended.reason if ended and given_up and not self.interrupting.is_set() else None

    def as_clean_exit(self, done: ProcessResult) -> ProcessResult:
        """Return the process result as print mode would have it: some versions have to be ended after their result."""
        if self.interrupting.is_set():
            return done._replace(timed_out=self._deadline_passed, stopped=not self._deadline_passed)
        ended = self._driver.ended
        if not (done.stopped or done.timed_out) or ended is None or self._driver.protocol.result is None:
            return done
        left = done.exit._replace(code=0 if ended.ok else 1, signal=None)
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
        is_running = self._driver.ended is None
        self._driver.interrupt("the deadline has passed")
        self._deadline_passed = is_running and self.interrupting.is_set()

    def _transport(self, invocation: ClaudeInvocation) -> StdioTransport | WebSocketTransport:
        version = cli_version(invocation.cli)
        if session_transport(invocation) == "stdio":
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
