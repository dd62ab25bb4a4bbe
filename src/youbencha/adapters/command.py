"""CommandAdapter: the contract of `adapters/base.py` for any program.

It imports little, to start fast: no toolbox, no `--version`, no events."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

import orjson
from pydantic import Field, model_validator

from youbencha.adapters.base import AgentExecutionContext
from youbencha.adapters.cli_agent import (
    AgentCli,
    CliAdapter,
    Invocation,
    SessionRecord,
    StreamReader,
    fits_argument,
)
from youbencha.adapters.cli_agent.config import AgentConfig, Argument
from youbencha.adapters.cli_agent.environment import is_model_credential
from youbencha.errors import ConfigError, YouBenchaError
from youbencha.events import SessionResult
from youbencha.files import read_nofollow
from youbencha.gateway.access import GatewayAccess, Provider
from youbencha.json_lines import Record, as_amount, as_count, as_str, as_strs
from youbencha.log.model import ToolCall
from youbencha.process import Command, ProcessResult, Redactor, find_executable
from youbencha.spec.problems import ProblemAt
from youbencha.store.layout import SIDECAR
from youbencha.text import shorten
from youbencha.usage import SessionUsage, Tokens

_NOT_FOUND = "NOT_FOUND"

_SYSTEM_DIRECTORIES = tuple(map(Path, ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/lib")))
"""For a container, a program in one of these directories is the image's."""

_PLACEHOLDER = re.compile(r"\{(prompt|prompt_file|model|agent_name|workspace)\}|\{config_dir\}(\S*)")
_PROMPT_PLACEHOLDER = re.compile(r"\{prompt(_file)?\}")
PROMPT_VARIABLE = "YOUBENCHA_PROMPT"

_GAVE_UP = 2
"""The exit code of an agent that gave up, by the contract of Thunderdome's adapters."""

_TAIL = 2_000
Words = Annotated[tuple[Argument, ...], Field(strict=False)]


class CommandAgentConfig(AgentConfig):
    """Options of the command adapter. A prompt is optional: a program may not need one."""

    prompt_needed = False

    command: Argument | Annotated[tuple[Argument, ...], Field(strict=False, min_length=1)]
    """The program and its first arguments: a list, or one line that is split as a shell would split it."""
    args: Words = ()
    """Additional arguments. `{prompt}`, `{prompt_file}`, `{model}`, `{agent_name}`, `{workspace}` and `{config_dir}`
    are replaced, here and in `command`."""
    shell: bool = False
    """`command` is a line for a shell. The prompt is then "$1", and never part of the line."""
    prompt_by: Literal["argument", "stdin", "file", "environment", "none"] = "argument"
    """How the prompt reaches the program. `argument`: in place of `{prompt}`, else as the last one."""
    success_exit_codes: Annotated[tuple[int, ...], Field(strict=False, min_length=1)] = (0,)

    @property
    def words(self) -> tuple[str, ...]:
        """The program and its arguments, with placeholders."""
        first = self.command if isinstance(self.command, tuple) else tuple(shlex.split(self.command))
        return (*first, *self.args, *self.extra_args)

    @model_validator(mode="after")
    def _can_be_run(self) -> Self:
        if self.shell:
            self._check_shell()
        elif isinstance(self.command, str):
            self._check_line(self.command)
        return self

    def _check_shell(self) -> None:
        if not isinstance(self.command, str):
            raise ProblemAt("command", "must be one line of text if `shell` is true")
        if "{prompt}" in self.command:
            hint = 'write "$1" for the prompt'
            raise ProblemAt("command", "must not contain {prompt}: a shell would run the prompt", hint=hint)

    def _check_line(self, line: str) -> None:
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise ProblemAt("command", f"cannot be split into words: {error}", hint="write it as a list") from None
        if not words:
            raise ProblemAt("command", "names no program")


class CommandAdapter(CliAdapter[CommandAgentConfig]):
    """Runs a program; its exit code decides, its output is its answer."""

    name = "command"
    title = "The command"
    prefix = "COMMAND"
    summary = "Any program: an agent of your own, or a script."
    logs = "command-logs"
    supports_gateway = True
    config_model = CommandAgentConfig
    emits_json = False
    needs_model = False

    async def check_availability(self) -> bool:
        """Always True: only a configuration names the program."""
        return True

    def command(self, invocation: Invocation[CommandAgentConfig]) -> Command:
        config, prompt_file = invocation.config, invocation.scratch / "prompt.md"
        if invocation.prompt:
            prompt_file.write_bytes(invocation.prompt.encode())
        note_existing_sidecar(invocation)
        return Command(
            argv=_shell_line(invocation) if config.shell else _argv(invocation, prompt_file),
            cwd=invocation.workspace,
            env={**_variables(invocation, prompt_file), **invocation.env},
            stdin=invocation.prompt.encode() if config.prompt_by == "stdin" and invocation.prompt else None,
        )

    def reader(self) -> StreamReader | None:
        return None

    def success_exit_codes(self, config: CommandAgentConfig) -> frozenset[int]:
        return frozenset(config.success_exit_codes)

    def gateway_provider(self, model: str | None, env: Mapping[str, str]) -> Provider | None:
        """Only the program knows."""
        return None

    def gateway_env(self, access: GatewayAccess, model: str | None, env: Mapping[str, str]) -> Mapping[str, str]:
        return common_gateway_env(access)

    def credentials_in(self, env: Mapping[str, str]) -> Sequence[str]:
        return [name for name, value in env.items() if value and is_model_credential(name)]

    def complete(
        self, invocation: Invocation[CommandAgentConfig], session: SessionRecord, done: ProcessResult
    ) -> SessionRecord:
        return with_ending(invocation.config, with_metrics(invocation, session, self.redactor(invocation)), done)

    async def locate(
        self, config: CommandAgentConfig, env: Mapping[str, str], context: AgentExecutionContext | None
    ) -> AgentCli:
        version = config.version or ""
        if context is not None and context.sandbox.kind != "local":
            return _in_container(config, context, version)
        path = _shell(env) if config.shell else _program(config.executable or config.words[0], env, context)
        return AgentCli(path, version)


def common_gateway_env(access: GatewayAccess) -> dict[str, str]:
    """Return the variables by which most programs find the gateway."""
    return {
        "PROXY_URL": access.url,  # for Thunderdome's adapters
        "ANTHROPIC_BASE_URL": access.url,
        "ANTHROPIC_API_BASE": access.url,
        "ANTHROPIC_API_KEY": access.key,
        # Anthropic's clients add the version themselves, OpenAI's do not.
        "OPENAI_BASE_URL": f"{access.url}/v1",
        "OPENAI_API_BASE": f"{access.url}/v1",
        "OPENAI_API_KEY": access.key,
        "GOOGLE_GEMINI_BASE_URL": access.url,
        "GEMINI_API_KEY": access.key,
    }


def with_ending(config: CommandAgentConfig, session: SessionRecord, done: ProcessResult) -> SessionRecord:
    if done.exit.code != _GAVE_UP or _GAVE_UP in config.success_exit_codes:
        return session
    lines = [line.strip() for line in done.last_output[-_TAIL:].splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    gave_up = SessionResult(subtype="gave_up", is_error=True, text=last, turns=None, duration_ms=None)
    return session.with_facts(result=gave_up)


def config_dir_path(invocation: Invocation[Any], rest: str) -> str:
    """Replace `{config_dir}` and what follows it by the path that the program sees.

    In a container, the directory itself is not shared: it may contain what the trial is judged by.
    """
    base = invocation.config_dir or invocation.workspace
    if invocation.context.sandbox.kind == "local" or invocation.config_dir is None:
        return f"{invocation.inside(base)}{rest}"
    named = Path(f"{base}{rest}")
    if named == base or not named.resolve().is_relative_to(base.resolve()) or not named.exists():
        hint = "name a file below it, as in {config_dir}/agents/fix.py"
        raise CommandAdapter.one_problem("args", "{config_dir} itself is not visible in a container", hint)
    invocation.context.sandbox.share(named)
    return invocation.inside(named)


def _in_container(config: CommandAgentConfig, context: AgentExecutionContext, version: str) -> AgentCli:
    """Share a file of the host, without its directory; any other name is a program of the image."""
    name = "/bin/sh" if config.shell else config.executable or config.words[0]
    written = Path(name).expanduser()
    in_image = written.name == name or any(written.is_relative_to(directory) for directory in _SYSTEM_DIRECTORIES)
    if in_image or (written.is_absolute() and not written.is_file()):
        return AgentCli(written, version, (name,))
    path = written if written.is_absolute() else _relative(written, context)
    sandbox = context.sandbox
    if not path.is_relative_to(context.workspace_dir.absolute()):
        sandbox.share(path)
    return AgentCli(path, version, (sandbox.inside(path),), needs=(path,))


def _shell(env: Mapping[str, str]) -> Path:
    if os.name != "nt":
        return Path("/bin/sh")
    return find_executable("cmd.exe", env) or Path("cmd.exe")


def _program(name: str, env: Mapping[str, str], context: AgentExecutionContext | None) -> Path:
    """Find a name on PATH, and a path relative to the file that names it, or else to the workspace."""
    written = Path(name).expanduser()
    if written.name == name:
        program = find_executable(name, env)
        if program is None:
            raise _missing(f"There is no program {name!r} on PATH.")
        return program
    if written.is_absolute() or context is None:
        # A relative path may be in the repository, which is not checked out yet.
        if written.is_absolute() and not written.is_file():
            raise _missing(f"There is no file {written}.")
        return written
    return _relative(written, context)


def _relative(written: Path, context: AgentExecutionContext) -> Path:
    directories = [path.absolute() for path in (context.config_dir, context.workspace_dir) if path is not None]
    for directory in directories:
        if (directory / written).is_file():
            return directory / written
    raise _missing(f"There is no file {written} in {' or '.join(map(str, directories))}.")


def _missing(message: str) -> YouBenchaError:
    return CommandAdapter.error(_NOT_FOUND, message, "Correct agent.config.command, or install the program.")


def _argv(invocation: Invocation[CommandAgentConfig], prompt_file: Path) -> tuple[str, ...]:
    values = {
        "prompt": invocation.prompt,
        "prompt_file": invocation.inside(prompt_file) if invocation.prompt else "",
        "model": invocation.config.model or "",
        "agent_name": invocation.config.agent_name or "",
        "workspace": invocation.inside(invocation.workspace),
    }
    written = invocation.config.words[1:]
    # In one pass, so that braces in the prompt are not replaced.
    words = [
        _PLACEHOLDER.sub(lambda match: values[match[1]] if match[1] else config_dir_path(invocation, match[2]), word)
        for word in written
    ]
    if (
        invocation.prompt
        and invocation.config.prompt_by == "argument"
        and not any(map(_PROMPT_PLACEHOLDER.search, written))
    ):
        words.append(invocation.prompt)
    return (*invocation.cli.argv, *_check_length(words))


def _shell_line(invocation: Invocation[CommandAgentConfig]) -> tuple[str, ...]:
    assert isinstance(invocation.config.command, str)  # checked by the configuration
    rest = [*invocation.config.args, *invocation.config.extra_args]
    if invocation.prompt and invocation.config.prompt_by == "argument":
        rest.insert(0, invocation.prompt)
    if os.name == "nt":
        return (*invocation.cli.argv, "/d", "/s", "/c", invocation.config.command)
    return (*invocation.cli.argv, "-c", invocation.config.command, "sh", *_check_length(rest))


def _check_length(words: list[str]) -> list[str]:
    if not all(map(fits_argument, words)):
        raise _too_long("an argument cannot hold this prompt")
    return words


def _variables(invocation: Invocation[CommandAgentConfig], prompt_file: Path) -> dict[str, str]:
    """Return the program's variables. TASK_DIR and TASK_DESCRIPTION are also those of Thunderdome's adapters."""
    variables = {
        "TASK_DIR": invocation.inside(invocation.workspace),
        METRICS_VARIABLE: invocation.inside(metrics_file(invocation)),
    }
    if invocation.prompt:
        variables["TASK_DESCRIPTION"] = invocation.inside(prompt_file)
    if invocation.config.model:
        variables["YOUBENCHA_MODEL"] = invocation.config.model
    if invocation.config.agent_name:
        variables["YOUBENCHA_AGENT_NAME"] = invocation.config.agent_name
    if invocation.prompt and invocation.config.prompt_by == "environment":
        if not fits_argument(f"{PROMPT_VARIABLE}={invocation.prompt}"):
            raise _too_long("an environment variable cannot hold this prompt")
        variables[PROMPT_VARIABLE] = invocation.prompt
    return variables


def _too_long(message: str) -> ConfigError:
    return CommandAdapter.one_problem("prompt_by", message, "use stdin or file")


METRICS_VARIABLE = "YOUBENCHA_METRICS_FILE"
_MAX_METRICS_BYTES = 1024 * 1024


def metrics_file(invocation: Invocation[Any]) -> Path:
    return invocation.scratch / "metrics.json"


def note_existing_sidecar(invocation: Invocation[Any]) -> None:
    """Remember whether the repository contains a file of that name, which is then neither read nor removed."""
    if os.path.lexists(invocation.workspace / SIDECAR):
        _sidecar_in_repository(invocation).touch()


def with_metrics(invocation: Invocation[Any], session: SessionRecord, redactor: Redactor) -> SessionRecord:
    metrics = _read_object(metrics_file(invocation), METRICS_VARIABLE)
    if not _sidecar_in_repository(invocation).exists():
        metrics = metrics.or_else(_read_object(invocation.workspace / SIDECAR, SIDECAR))
        with contextlib.suppress(OSError):  # if it is a directory, it is part of what the agent did
            (invocation.workspace / SIDECAR).unlink(missing_ok=True)
    known = _Fields(metrics.record, redactor)
    facts = {
        "usage": known.usage(),
        "turns": known.read("turns", as_count),
        "tools_used": known.read("tools_used", _tools),
        "model": known.read("model", as_str),
        "session_id": known.read("session_id", as_str),
        "unread_metrics": (*metrics.problems, *known.problems),
    }
    known_facts = {name: value for name, value in facts.items() if value}
    return session.with_facts(**known_facts)._replace(tool_calls=_calls(facts["tools_used"]))


class _MetricsFile(NamedTuple):
    """A JSON object that a program wrote, and the problems with it."""

    record: Record
    problems: tuple[str, ...] = ()

    def or_else(self, other: _MetricsFile) -> _MetricsFile:
        """Return the first that is not empty, with the problems of both."""
        return _MetricsFile(self.record or other.record, (*self.problems, *other.problems))


def _read_object(path: Path, name: str) -> _MetricsFile:
    """Read the file, which may not exist. `name` is its name in messages."""
    try:
        record = orjson.loads(read_nofollow(path.parent, path.name, _MAX_METRICS_BYTES))
    except FileNotFoundError:
        return _MetricsFile({})
    except OSError as error:
        return _MetricsFile({}, (f"{name}: {error.strerror}",))
    except ValueError as error:
        return _MetricsFile({}, (f"{name} is not JSON: {error}",))
    return _MetricsFile(record) if isinstance(record, dict) else _MetricsFile({}, (f"{name} is not a JSON object",))


class _Fields:
    """Reads the fields of a record, and collects those that are invalid."""

    def __init__(self, record: Record, redactor: Redactor) -> None:
        self._record = record
        self._redactor = redactor
        self.problems: list[str] = []

    def read(self, name: str, reader: Callable[[object], Any]) -> Any:
        value = self._record.get(name)
        parsed = None if value is None else reader(value)
        if value is not None and parsed is None:
            self.problems.append(f"{name} is {shorten(self._redactor.text(repr(value)), 40)}")
        return parsed

    def usage(self) -> SessionUsage | None:
        tokens = Tokens(
            self.read("input_tokens", as_count),
            self.read("output_tokens", as_count),
            self.read("cache_read_tokens", as_count),
            self.read("cache_creation_tokens", as_count),
        )
        cost, total = self.read("cost_usd", as_amount), self.read("total_cost_usd", as_amount)
        cost = total if cost is None else cost
        return None if tokens == Tokens() and cost is None else SessionUsage(tokens, cost)


def _sidecar_in_repository(invocation: Invocation[Any]) -> Path:
    return invocation.scratch / "brings-sidecar"


def _tools(value: object) -> dict[str, int] | None:
    """Read `{"Bash": 3}`, or the names one by one: `["Bash", "Read", "Bash"]`."""
    if isinstance(value, dict):
        return value if all(as_count(times) is not None for times in value.values()) else None
    is_names = isinstance(value, list) and len(as_strs(value)) == len(value)
    return dict(Counter(as_strs(value))) if is_names else None


_MAX_TOOL_CALLS = 10_000
"""Limits memory, whatever a program reports."""


def _calls(tools_used: Mapping[str, int] | None) -> tuple[ToolCall, ...] | None:
    """Make as many calls of each tool as were counted: nothing else is known about them."""
    if tools_used is None:
        return None
    names = chain.from_iterable(repeat(name, times) for name, times in tools_used.items())
    return tuple(ToolCall(name=name, arguments="") for name in islice(names, _MAX_TOOL_CALLS))
