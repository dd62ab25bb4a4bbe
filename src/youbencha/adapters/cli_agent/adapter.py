"""CliAdapter: the contract of `adapters/base.py` for a CLI that gets a prompt, works, and ends.

An adapter says what its configuration is, which command line that makes, which of the environment is its own, and how
to read its events. The rest is here.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from youbencha.adapters.base import AgentExecutionContext, AgentExecutionResult, UsesGateway
from youbencha.adapters.cli_agent import codes
from youbencha.adapters.cli_agent.config import AgentConfig, parse_config
from youbencha.adapters.cli_agent.environment import base_environment, secrets_of
from youbencha.adapters.cli_agent.invocation import Invocation, check_context, new_log_file, scratch_directory
from youbencha.adapters.cli_agent.kind import AgentKind, error_record
from youbencha.adapters.cli_agent.locate import AgentCli, CliFinder
from youbencha.adapters.cli_agent.prompt import check_prompt, read_prompt
from youbencha.adapters.cli_agent.stream import OutputReader
from youbencha.adapters.cli_agent.verdict import Ending, judge
from youbencha.adapters.cli_agent.warnings import process_warnings
from youbencha.errors import ConfigError, Problem
from youbencha.log import ErrorRecord, YouBenchaLog, iso_time
from youbencha.log.session import SessionRecord
from youbencha.process import Command, Limits, ProcessResult, Redactor
from youbencha.sandbox.base import Sandbox
from youbencha.sandbox.local import HOST

if TYPE_CHECKING:
    from youbencha.adapters.cli_agent.causes import Cause
    from youbencha.log.session import StreamReader


C = TypeVar("C", bound=AgentConfig)


class CliAdapter(ABC, Generic[C]):
    """Subclass it, and fill in what differs."""

    kind: ClassVar[AgentKind]
    version: ClassVar[str] = "1.0.0"
    config_model: ClassVar[type[AgentConfig]]
    inherited_env: ClassVar[frozenset[str]] = frozenset()
    """Of the harness's environment, what is this agent's own. In capitals."""
    default_env: ClassVar[Mapping[str, str]] = {}
    """Set for the agent unless the test case says otherwise: no updates, no telemetry."""
    credentials: ClassVar[frozenset[str]] = frozenset()
    """What says where its model is, or proves who asks; behind a gateway it gets none of these. In capitals."""
    supports_custom_agents: ClassVar[bool] = True
    """Whether `agent_name` means something to this CLI."""
    emits_json: ClassVar[bool] = True
    """It writes JSON events, the last of which says how it went."""
    needs_model: ClassVar[bool] = True
    """It can do nothing without one."""
    causes: ClassVar[tuple[Cause, ...]] = ()
    """Why it may fail that no other agent does."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        """`env` stands for the harness's own environment; by default it is the process's."""
        self._env = env

    # -- what differs ------------------------------------------------------------------------------------------

    @abstractmethod
    def command(self, invocation: Invocation[C]) -> Command:
        """The command line and its world. May write into `invocation.scratch`."""

    @abstractmethod
    def reader(self) -> StreamReader | None:
        """A new reader of its events; None where it writes plain text."""

    def require_authentication(self, env: Mapping[str, str], config: C | None) -> None:
        """Raise `kind.auth_failed(...)` where there are no credentials. Spends nothing."""

    def complete(self, invocation: Invocation[C], session: SessionRecord, done: ProcessResult) -> SessionRecord:
        """What can be known when the process is gone and its files are there: tokens, for some."""
        return session

    def success_exit_codes(self, config: C) -> frozenset[int]:
        return frozenset({0})

    def provider(self, invocation: Invocation[C]) -> str | None:
        """Who serves the model, where that depends on the run."""
        return None

    async def locate(self, config: C, env: Mapping[str, str], context: AgentExecutionContext | None) -> AgentCli[str]:
        """The program to run, shared with the sandbox. There is no context yet where only readiness is asked for.

        `env` is one of the host, to look for it.
        """
        return await self._finder().locate(
            env,
            executable=config.executable,
            version=config.version,
            sandbox=context.sandbox if context else HOST,
            workspace=context.workspace_dir.absolute() if context else None,
        )

    def redactor(self, invocation: Invocation[C]) -> Redactor:
        """Knows the secrets of the harness and of this run."""
        return Redactor.for_env(self._harness_env(), invocation.context.env, invocation.env)

    def model_for_gateway(self, config: C) -> str | None:
        """The model as `gateway_env` gets it."""
        return config.model

    # -- the contract ------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self.kind.name

    async def check_availability(self) -> bool:
        """True if the CLI can be run, False if there is none; raises if it has no credentials."""
        env = self._environment({})
        cli = await self._finder().find(env)
        if cli is None:
            return False
        self.require_authentication(env, None)
        return True

    async def check_ready(self, config: Mapping[str, Any], env: Mapping[str, str]) -> None:
        """Raise if this test case's CLI is not there, or has no credentials."""
        given, parsed = self._environment(env), self._parsed(config)
        await self.locate(parsed, given, None)
        self.require_authentication(given, parsed)

    def check_config(self, config: Mapping[str, Any], config_dir: Path | None) -> Sequence[Problem]:
        """What is wrong with `agent.config`, all of it."""
        try:
            check_prompt(self.kind, self._parsed(config), config_dir)
        except ConfigError as error:
            return error.problems
        return ()

    def credentials_in(self, env: Mapping[str, str]) -> Sequence[str]:
        """Of `adapters.base.UsesGateway`, for those that have the rest of it."""
        return [name for name, value in env.items() if value and name.upper() in self.credentials]

    async def execute(self, context: AgentExecutionContext) -> AgentExecutionResult:
        """Run the CLI to its end or its deadline."""
        check_context(self.kind, context)
        config = self._parsed(context.config)
        if context.model is not None:
            config = config.model_copy(update={"model": context.model})
        workspace = context.workspace_dir.absolute()
        env = self._environment_of(context, config)
        prompt = read_prompt(self.kind, config, workspace=workspace, config_dir=context.config_dir)
        with scratch_directory(context.scratch_dir) as scratch:
            # All that is shared has to be, before anything runs: a CLI of an image is asked for its version.
            context.sandbox.share(scratch, writable=True)
            cli = await self.locate(config, self._host_environment(context, env), context)
            invocation = Invocation(context, config, cli, prompt, scratch, env)
            return await self._run(invocation)

    def normalize_log(self, result: AgentExecutionResult, context: AgentExecutionContext) -> YouBenchaLog:
        """The result as a YouBenchaLog."""
        from youbencha.adapters.cli_agent.normalize import normalize

        redactor = Redactor.for_env(self._harness_env(), context.env, secrets_of(context.gateway))
        return normalize(
            self.kind, result, context, reader=self.reader, adapter_version=self.version, redactor=redactor
        )

    # -- how it is done ----------------------------------------------------------------------------------------

    async def _run(self, invocation: Invocation[C]) -> AgentExecutionResult:
        context = invocation.context
        command = self.command(invocation)
        redactor = self.redactor(invocation)
        reader = self.reader()
        output = OutputReader(self.kind, reader, on_event=context.on_event, redactor=redactor, stopping=context.stop)
        log_file = new_log_file(context.artifacts_dir, self.kind.logs)
        done = await context.sandbox.run(
            command,
            limits=Limits(timeout_s=context.timeout_s),
            redactor=redactor,
            log_file=log_file,
            on_line=output.line if reader else None,
            on_start=output.started,
            stop=context.stop,
        )
        output.finish()
        output.ended(done)
        return build_result(
            Finished(
                kind=self.kind,
                invocation=invocation,
                done=done,
                session=self.complete(invocation, output.session(), done),
                timeout_ms=context.timeout,
                log_file=log_file,
                redactor=redactor,
                finished_before_stop=output.finished_before_stop,
                provider=self.provider(invocation),
                stream_expected=self.emits_json,
                success_exit_codes=self.success_exit_codes(invocation.config),
                own_causes=self.causes,
                supports_custom_agents=self.supports_custom_agents,
            )
        )

    def _parsed(self, raw: Mapping[str, Any]) -> C:
        return parse_config(self.kind, self.config_model, raw)  # type: ignore[return-value]  # C is what it is

    def _finder(self) -> CliFinder[str]:
        return CliFinder(self.kind, str)

    def _environment(self, given: Mapping[str, str], sandbox: Sandbox = HOST) -> dict[str, str]:
        """What the agent runs with. What the test case gives wins over everything."""
        return {**base_environment(sandbox, self._harness_env(), self.inherited_env), **self.default_env, **given}

    def _host_environment(self, context: AgentExecutionContext, env: dict[str, str]) -> dict[str, str]:
        """For what is asked of programs here: a container's environment is for programs in there."""
        return env if context.sandbox.kind == "local" else self._environment({})

    def _environment_of(self, context: AgentExecutionContext, config: C) -> dict[str, str]:
        env, access = self._environment(context.env, context.sandbox), context.gateway
        if access is None:
            return env
        if not isinstance(self, UsesGateway):
            raise self.kind.no_gateway()
        from youbencha.adapters.cli_agent.environment import gateway_environment

        pointing = self.gateway_env(access, self.model_for_gateway(config), context.env)
        return gateway_environment(env, access, pointing, given=context.env, own=self.credentials)

    def _harness_env(self) -> Mapping[str, str]:
        return os.environ if self._env is None else self._env


# What is handed back when the process is gone.

TAIL_CHARACTERS = 8_000

TIMEOUT_EXIT_CODE = -1


class Finished(NamedTuple):
    """A run that is over, and what its adapter knows of it."""

    kind: AgentKind
    invocation: Invocation[Any]
    done: ProcessResult
    session: SessionRecord
    timeout_ms: int
    log_file: Path
    redactor: Redactor
    finished_before_stop: bool
    """Its closing word came before it was stopped, if it was."""
    provider: str | None
    stream_expected: bool
    success_exit_codes: frozenset[int]
    own_causes: tuple[Cause, ...]
    supports_custom_agents: bool


def build_result(run: Finished) -> AgentExecutionResult:
    done, cli, session = run.done, run.invocation.cli, run.session
    if done.stopped and not run.finished_before_stop:
        session = as_partial(session)
    at = iso_time(done.ended_at)
    duration_ms = round(done.duration_s * 1000)
    end = Ending(
        exit_code=done.exit.code,
        signal=done.exit.signal,
        timed_out=done.timed_out,
        stopped=done.stopped,
        finished_before_stop=run.finished_before_stop,
        timeout_ms=run.timeout_ms,
        duration_ms=duration_ms,
        truncated=done.truncated,
        breach=done.exit.breach,
        stream_expected=run.stream_expected,
        success_exit_codes=run.success_exit_codes,
        output_tail=done.output[-TAIL_CHARACTERS:],
        facts=session.facts,
    )
    verdict = judge(run.kind, end, at=at, own_causes=run.own_causes)
    return AgentExecutionResult(
        exit_code=TIMEOUT_EXIT_CODE if done.timed_out else done.exit.shell_code,
        status=verdict.status,
        output=done.output,
        started_at=iso_time(done.started_at),
        completed_at=at,
        duration_ms=duration_ms,
        errors=verdict.errors,
        warnings=(
            *verdict.warnings,
            *process_warnings(run.kind, done, cli.path, at, errors=verdict.errors),
            *_ignored(run, at),
        ),
        agent_version=cli.version or None,
        log_file=run.log_file,
        session=session,
        details={
            "prompt": run.redactor.text(run.invocation.prompt),
            "provider": run.provider,
            **process_details(done, cli.path, cli.sha256),
        },
    )


def as_partial(session: SessionRecord) -> SessionRecord:
    """Of a run that was cut off: the call that it was in is not in the sum."""
    usage = session.facts.usage
    return session.with_facts(usage=usage._replace(partial=True)) if usage else session


def process_details(done: ProcessResult, executable: Path, sha256: str | None) -> dict[str, Any]:
    """What ran, and what it took."""
    return {
        "truncated": done.truncated,
        "executable": str(executable),
        "executable_sha256": sha256,
        "cpu_s": done.exit.cpu_s,
        "peak_rss_bytes": done.exit.peak_rss_bytes,
        "process_s": done.exit.lifetime_s,
    }


def _ignored(run: Finished, at: str) -> tuple[ErrorRecord, ...]:
    """A custom agent that was asked for and not used: what was measured is another."""
    name = run.invocation.config.agent_name
    if run.supports_custom_agents or name is None:
        return ()
    message = f"{run.kind.title} has no custom agents: agent_name {name!r} had no effect."
    return (error_record(run.kind.code(codes.AGENT_IGNORED), message, at, "Put its instructions into the prompt."),)
