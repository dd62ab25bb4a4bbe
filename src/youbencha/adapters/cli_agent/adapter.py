"""CliAdapter: the contract of `adapters/base.py` for a CLI that gets a prompt, works, and ends.

A subclass defines its configuration, its command line, its own variables and how to read its events.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import time
import uuid
from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from youbencha.adapters import base, codes
from youbencha.adapters.base import AgentDescription, AgentExecutionContext, AgentExecutionResult, BaseAdapter
from youbencha.adapters.cli_agent.config import TOOLS_IGNORED, AgentConfig, parse_config, prompt_is_here, read_prompt
from youbencha.adapters.cli_agent.environment import base_environment, gateway_environment, gateway_secrets
from youbencha.adapters.cli_agent.locate import AgentCli, CliFinder, reinstall_hint
from youbencha.adapters.cli_agent.normalize import normalize
from youbencha.adapters.cli_agent.stream import OutputReader
from youbencha.adapters.cli_agent.verdict import RunEnding, error_record, judge, process_warnings, session_warnings
from youbencha.errors import ConfigError, Problem, YouBenchaError
from youbencha.events import UserText
from youbencha.gateway.access import GatewayAccess
from youbencha.json_lines import BYTE_ORDER_MARK
from youbencha.log.masking import without_secrets
from youbencha.log.model import ErrorRecord, YouBenchaLog
from youbencha.log.session import SessionRecord, StreamReader
from youbencha.process import Command, Limits, ProcessResult, Redactor
from youbencha.process.environment import withheld
from youbencha.sandbox.base import Sandbox
from youbencha.sandbox.local import HOST
from youbencha.text import iso_time
from youbencha.workspace.trees import remove_tree

C = TypeVar("C", bound=AgentConfig)


class Invocation(NamedTuple, Generic[C]):
    """One run of a CLI. Paths are the host's."""

    context: AgentExecutionContext
    config: C
    """With the model of the test case, if it names one."""
    cli: AgentCli
    prompt: str
    scratch: Path
    """An empty directory outside the workspace, for files of this run such as the prompt; removed afterwards."""
    env: Mapping[str, str]
    """The agent's environment. Behind a gateway, it does not have all of `context.env`."""
    ends_at: float | None = None
    """The deadline, by the monotonic clock; None: the whole timeout is left."""

    @property
    def time_left_s(self) -> float | None:
        return self.context.timeout_s if self.ends_at is None else max(0.0, self.ends_at - time.monotonic())

    @property
    def workspace(self) -> Path:
        return self.context.workspace_dir.absolute()

    @property
    def config_dir(self) -> Path | None:
        """The directory of the file that the configuration comes from."""
        return self.context.config_dir.absolute() if self.context.config_dir else None

    def inside(self, path: Path) -> str:
        """Return the agent's path of a file of the host, for its arguments, its environment and its settings."""
        return self.context.sandbox.inside(path)

    def outside(self, path: Path | None) -> Path | None:
        """Return the host's path for a path of the agent; None if the host does not have it."""
        return None if path is None else self.context.sandbox.outside(str(path))

    def session_id(self, choosing_flags: Collection[str]) -> str | None:
        """Return a unique id for the session; None if the user chooses one by a flag."""
        if any(argument.partition("=")[0] in choosing_flags for argument in self.config.extra_args):
            return None
        return str(uuid.uuid5(uuid.NAMESPACE_URL, self.scratch.as_uri()))


def check_context(agent: type[AgentDescription], context: AgentExecutionContext) -> None:
    """Raise one ConfigError with every problem that makes the context unusable."""
    if problems := [*_timeout(context.timeout), *_environment(context), *_workspace(context)]:
        raise agent.invalid_config(problems)


def _timeout(timeout: object) -> Iterator[Problem]:
    if isinstance(timeout, bool) or not isinstance(timeout, int):
        yield Problem("timeout", "must be a whole number of milliseconds", "0 means none")
    elif timeout < 0:
        yield Problem("timeout", "must be at least 0", "0 means none")


def _environment(context: AgentExecutionContext) -> Iterator[Problem]:
    for name, value in context.env.items():
        where = ("env", name)
        if not isinstance(name, str) or not name or set(name) & {"=", "\0"}:
            yield Problem(where, "is not a valid name of an environment variable")
        elif not isinstance(value, str):
            yield Problem(where, "must be text", "put it in quotes")
        elif "\0" in value:
            yield Problem(where, "contains a NUL character, which an environment cannot hold")


def _workspace(context: AgentExecutionContext) -> Iterator[Problem]:
    if not context.workspace_dir.is_dir():
        yield Problem("workspace_dir", f"there is no directory {context.workspace_dir}")


@contextlib.contextmanager
def scratch_directory(parent: Path | None = None) -> Iterator[Path]:
    """Create a directory for the files of one run that are not in the workspace.

    In `parent`, which is removed even after a kill; else in the system's temporary directory.
    """
    path = Path(tempfile.mkdtemp(prefix="youbencha-", dir=parent)).absolute()
    with removed_afterwards(path):
        yield path


@contextlib.contextmanager
def removed_afterwards(path: Path) -> Iterator[None]:
    """Remove the directory at the end, whatever the agent left there.

    Python's own TemporaryDirectory would follow links (3.11.7).
    """
    try:
        yield
    finally:
        with contextlib.suppress(YouBenchaError):
            remove_tree(path)


def flags_with_values(values: Mapping[str, str | None]) -> list[str]:
    """Return the flags that have a value, each followed by it."""
    return [part for flag, value in values.items() if value is not None for part in (flag, value)]


def in_terminal(config: AgentConfig, command: Command) -> Command:
    """Return the command in a terminal, if that is configured: a dumb one, so that there are few escape sequences."""
    return command._replace(terminal=True, env={"TERM": "dumb", **command.env}) if config.pty == "always" else command


def new_log_file(artifacts: Path, logs: str) -> Path:
    """Return a new `<logs>/terminal-output-<time>.log`. Windows allows no colons in names."""
    stamp = iso_time(time.time()).replace(":", "-").replace(".", "-")
    directory = artifacts / logs
    names = (f"terminal-output-{stamp}{'' if number == 1 else f'-{number}'}.log" for number in count(1))
    return next(path for path in map(directory.joinpath, names) if not path.exists())


_TIMEOUT_EXIT_CODE = -1


class CliAdapter(BaseAdapter, Generic[C]):
    """Drives a CLI. Base class of adapters."""

    checks_config = True
    config_model: ClassVar[type[AgentConfig]]
    inherited_env: ClassVar[frozenset[str]] = frozenset()
    """Variables that the agent gets from the harness's environment, in capitals."""
    default_env: ClassVar[Mapping[str, str]] = {}
    """Variables for the agent that the test case can override, such as to turn off updates and telemetry."""
    boundary_env: ClassVar[Mapping[str, str]] = {}
    """The same, if the sandbox is a boundary."""
    credentials: ClassVar[frozenset[str]] = frozenset()
    """Variables with credentials or the model's address, in capitals; behind a gateway the agent gets none of them."""
    supports_custom_agents: ClassVar[bool] = True
    """Whether this CLI supports `agent_name`."""
    emits_json: ClassVar[bool] = True
    """It prints JSON events, the last of which is its result."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        """`env` is the harness's environment, by default this process's."""
        self.harness_env = os.environ if env is None else env

    @abstractmethod
    def command(self, invocation: Invocation[C]) -> Command:
        """Build the command line, its directory and its environment. May write into `invocation.scratch`."""

    @abstractmethod
    def reader(self) -> StreamReader | None:
        """Return a new reader of its events; None if it prints plain text."""

    def finished_output_reader(self, result: AgentExecutionResult) -> StreamReader | None:
        """Return a reader of the output of a finished run, if versions differ."""
        return self.reader()

    async def require_authentication(self, cli: AgentCli, env: Mapping[str, str], config: C | None) -> None:
        """Raise `agent.auth_failed(...)` if there are no credentials. Makes no request to the model."""

    def check_prompt(self, prompt: str, config: C) -> None:
        """Raise `agent.one_problem(...)` if the CLI cannot take this prompt."""

    def complete(self, invocation: Invocation[C], session: SessionRecord, done: ProcessResult) -> SessionRecord:
        """Add what is known only after the process has ended, such as tokens in a file of the CLI."""
        return session

    def read_claims(self, text: str) -> SessionRecord:
        """Read what the agent's text says of the run, which counts only where nothing was measured."""
        return SessionRecord()

    def stream_expected(self, config: C) -> bool:
        """Return whether a run with this configuration prints events."""
        return self.emits_json

    def allowed_tools(self, config: C) -> Sequence[str]:
        """Return the rules of the only tools that the configuration allows; empty if it has no such list."""
        return ()

    def success_exit_codes(self, config: C) -> frozenset[int]:
        """Return the exit codes that do not mean failure."""
        return frozenset({0})

    def provider(self, invocation: Invocation[C]) -> str | None:
        """Return the model's provider, if that depends on the run."""
        return None

    async def locate(self, config: C, env: Mapping[str, str], context: AgentExecutionContext | None) -> AgentCli:
        """Find the program to run, and share it with the sandbox. There is no context if only readiness is checked.

        `env` is the host's environment, to search in.
        """
        return await CliFinder(type(self)).locate(
            env,
            executable=config.executable,
            version=config.version,
            sandbox=context.sandbox if context else HOST,
            workspace=context.workspace_dir.absolute() if context else None,
        )

    def redactor(self, invocation: Invocation[C]) -> Redactor:
        """Return a redactor that knows the secrets of the harness and of this run."""
        return Redactor.for_env(self.harness_env, invocation.context.env, invocation.env)

    def model_for_gateway(self, config: C) -> str | None:
        """Return the model that `gateway_env` gets."""
        return config.model

    def details(self, invocation: Invocation[C]) -> dict[str, Any]:
        """Return additional entries for the result's `details`."""
        return {"provider": self.provider(invocation)}

    async def check_availability(self) -> bool:
        """Return True if the CLI can be run, False if it is not installed; raise if it has no credentials."""
        env = self.environment({})
        try:
            async with asyncio.timeout(base.READY_TIMEOUT_S):
                cli = await CliFinder(type(self)).find(env)
                if cli is None:
                    return False
                await self.require_authentication(cli, env, None)
        except TimeoutError:
            message = f"{self.title} did not report its version and its login within {base.READY_TIMEOUT_S:g} s."
            hint = f"Start `{self.program} --version` by hand to see what it waits for."
            raise self.error(codes.VERSION_UNKNOWN, message, hint) from None
        return True

    async def check_ready(self, config: Mapping[str, Any], env: Mapping[str, str]) -> None:
        """Raise if this test case's CLI is not installed, or has no credentials."""
        given, parsed = self.environment(env), self._parsed(config)
        await self.require_authentication(await self.locate(parsed, given, None), given, parsed)

    async def check_version(self, config: Mapping[str, Any], env: Mapping[str, str]) -> None:
        """Raise if the CLI that this test case would run is too old. Whether there is one is not checked."""
        parsed = self._parsed(config)
        try:
            async with asyncio.timeout(base.READY_TIMEOUT_S):
                await self.locate(parsed, self.environment(env), None)
        except TimeoutError:
            return
        except YouBenchaError as error:
            if error.code == self.code(codes.VERSION_TOO_OLD):
                raise

    def check_config(self, config: Mapping[str, Any], config_dir: Path | None) -> Sequence[Problem]:
        """Return every problem in `agent.config`."""
        try:
            parsed = self._parsed(config)
            if prompt_is_here(type(self), parsed, config_dir):
                self._prompt(parsed, config_dir or Path(), config_dir)
        except ConfigError as error:
            return error.problems
        return ()

    def credentials_in(self, env: Mapping[str, str]) -> Sequence[str]:
        return [name for name, value in env.items() if value and name.upper() in self.credentials]

    async def execute(self, context: AgentExecutionContext) -> AgentExecutionResult:
        """Run the CLI to its end or its deadline."""
        check_context(type(self), context)
        ends_at = time.monotonic() + context.timeout_s if context.timeout_s else None
        config = self.configure(context)
        env = self.environment(
            context.env,
            sandbox=context.sandbox,
            gateway=context.gateway,
            model=self.model_for_gateway(config),
            keep_others=context.other_credentials,
        )
        prompt = self._prompt(config, context.workspace_dir.absolute(), context.config_dir)
        with self.scratch(context) as scratch:
            # A container's environment is for programs in there; the CLI is searched on the host.
            host_env = env if context.sandbox.kind == "local" else self.environment({})
            try:
                async with asyncio.timeout(context.timeout_s):
                    cli = await self.locate(config, host_env, context)
            except TimeoutError:
                message = f"{self.title} did not report its version within the timeout of {context.timeout_s:g} s."
                raise self.error(codes.VERSION_UNKNOWN, message, reinstall_hint(type(self))) from None
            invocation = Invocation(context, config, cli, prompt, scratch, env, ends_at)
            log_file = new_log_file(context.artifacts_dir, self.logs)
            if context.on_event is not None:
                context.on_event(UserText(text=self.redactor(invocation).text(prompt)))
            ending = await self.drive(invocation, log_file)
            session = await asyncio.to_thread(self.complete, invocation, ending.session, ending.process)
            ending = ending._replace(session=session)
            return self._result(invocation, ending.with_partial_usage(), log_file)

    def normalize_log(self, result: AgentExecutionResult, context: AgentExecutionContext) -> YouBenchaLog:
        """Return the result as a YouBenchaLog."""
        redactor = Redactor.for_env(self.harness_env, context.env, gateway_secrets(context.gateway))
        return normalize(
            type(self),
            replace(result, output=result.output.removeprefix(BYTE_ORDER_MARK)),
            context,
            reader=lambda: self.finished_output_reader(result),
            adapter_version=self.version,
            redactor=redactor,
            read_claims=self.read_claims,
        )

    def configure(self, context: AgentExecutionContext) -> C:
        """Return the configuration of one run, with the model of the test case."""
        config = self._parsed(context.config)
        # Not validated, unlike the model in `config`: a gateway may know any name.
        return config if context.model is None else config.model_copy(update={"model": context.model})

    def environment(
        self,
        given: Mapping[str, str],
        *,
        sandbox: Sandbox = HOST,
        gateway: GatewayAccess | None = None,
        model: str | None = None,
        keep_others: bool = False,
    ) -> dict[str, str]:
        """Return the agent's environment. The test case (`given`) overrides everything but a gateway."""
        env = {
            **base_environment(sandbox, self.harness_env, self.inherited_env),
            **self.default_env,
            **(self.boundary_env if sandbox.is_boundary else {}),
            **given,
        }
        if gateway is None:
            return env
        if not self.supports_gateway:
            raise self.no_gateway()
        variables = self.gateway_env(gateway, model, given)
        return gateway_environment(env, gateway, variables, given=given, own=self.credentials, keep_others=keep_others)

    @contextmanager
    def scratch(self, context: AgentExecutionContext) -> Iterator[Path]:
        """Create an empty directory outside the workspace, for one run.

        It is shared with the sandbox here, because sharing must be complete before an image's CLI is asked for its
        version.
        """
        with scratch_directory(context.scratch_dir) as path:
            context.sandbox.share(path, writable=True)
            yield path

    async def drive(self, invocation: Invocation[C], log_file: Path) -> RunEnding:
        """Run the process to its end, and read its output live."""
        context, redactor = invocation.context, self.redactor(invocation)
        reader = self.reader()
        output = OutputReader(type(self), reader, on_event=context.on_event, redactor=redactor, stopping=context.stop)
        process = await context.sandbox.run(
            in_terminal(invocation.config, self.command(invocation)),
            limits=Limits(timeout_s=invocation.time_left_s),
            redactor=redactor,
            log_file=log_file,
            on_line=output.line if reader else output.plain_line,
            on_start=output.started,
            on_output=context.on_output,
            stop=context.stop,
        )
        output.finish()
        output.ended(process)
        return self.ending(invocation, process, output.session(), finished_before_stop=output.finished_before_stop)

    def ending(
        self, invocation: Invocation[C], process: ProcessResult, session: SessionRecord, **how: Any
    ) -> RunEnding:
        """Describe how a run ended, with this agent's rules for success."""
        return RunEnding(
            process=process,
            session=session,
            timeout_ms=invocation.context.timeout,
            stream_expected=self.stream_expected(invocation.config),
            success_exit_codes=self.success_exit_codes(invocation.config),
            mask=self.redactor(invocation).text,
            **how,
        )

    def _result(self, invocation: Invocation[C], ending: RunEnding, log_file: Path) -> AgentExecutionResult:
        process, cli = ending.process, invocation.cli
        at = iso_time(process.ended_at)
        verdict = judge(type(self), ending, at=at)
        mask = self.redactor(invocation).text
        is_local, harness = invocation.context.sandbox.kind == "local", self.harness_env
        withheld_here = withheld(invocation.env, harness) if verdict.status == "failed" and is_local else []
        return AgentExecutionResult(
            exit_code=_TIMEOUT_EXIT_CODE if process.timed_out else process.exit.shell_code,
            status=verdict.status,
            output=process.output,
            output_end=process.end,
            started_at=iso_time(process.started_at),
            completed_at=at,
            duration_ms=ending.duration_ms,
            errors=tuple(without_secrets(error, mask) for error in verdict.errors),
            warnings=tuple(
                without_secrets(warning, mask)
                for warning in (
                    *session_warnings(
                        type(self),
                        ending.facts,
                        at,
                        allowed_tools=self.allowed_tools(invocation.config),
                    ),
                    *process_warnings(type(self), process, cli.path, at, stayed=ending.stayed, errors=verdict.errors),
                    *self._ignored_options(invocation.config, at),
                )
            ),
            agent_version=cli.version or None,
            log_file=log_file,
            session=ending.session,
            details={
                "prompt": mask(invocation.prompt),
                **self.details(invocation),
                "truncated": process.truncated,
                "executable": str(cli.path),
                "executable_sha256": cli.sha256,
                "cpu_s": process.exit.cpu_s,
                "peak_rss_bytes": process.exit.peak_rss_bytes,
                "process_s": process.exit.lifetime_s,
                "withheld_variables": withheld_here,
            },
        )

    def _ignored_options(self, config: C, at: str) -> Iterator[ErrorRecord]:
        """Warn that something was configured and not used."""
        if config.agent_name is not None and not self.supports_custom_agents:
            message = f"{self.title} has no custom agents: agent_name {config.agent_name!r} had no effect."
            hint = "Put its instructions into the prompt."
            yield error_record(self.code(codes.AGENT_IGNORED), message, at, hint)
        if config.tools:
            message, hint = TOOLS_IGNORED
            yield error_record(self.code(codes.OPTION_IGNORED), f"`tools` {message}.", at, hint)

    def _prompt(self, config: C, workspace: Path, config_dir: Path | None) -> str:
        prompt = read_prompt(type(self), config, workspace=workspace, config_dir=config_dir)
        self.check_prompt(prompt, config)
        return prompt

    def _parsed(self, raw: Mapping[str, Any]) -> C:
        return parse_config(type(self), self.config_model, raw)  # type: ignore[return-value]
