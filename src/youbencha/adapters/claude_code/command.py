"""From configuration to command line: pure, and the one place that knows the CLI's flags."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from youbencha.adapters.claude_code.codes import ROOT_REFUSED
from youbencha.adapters.claude_code.config import CLAUDE, ClaudeCodeConfig, invalid_config, one_problem
from youbencha.adapters.claude_code.locate import Cli
from youbencha.adapters.claude_code.versions import (
    CliVersion,
    Feature,
    first_version,
    last_version,
    permission_modes,
    supports,
)
from youbencha.adapters.cli_agent.config import fits_argument
from youbencha.adapters.cli_agent.prompt import read_prompt as read_text
from youbencha.errors import Problem, YouBenchaError
from youbencha.process import Command, Input
from youbencha.sandbox.base import Sandbox

LONGEST_ARGUMENT_CHARACTERS = 7_000

_SLASH_COMMAND = re.compile(r"/[\w:.-]+(?=\s|\Z)")
"""`/help`, but not `/usr/bin/env is …`. Measured in 1.0.128 to 2.1.325, for arguments and standard input alike."""

Delivery = Literal["argument", "stdin", "file", "message"]
"""`message`: as the first word of a conversation. There, too, a slash command is one."""


@dataclass(frozen=True)
class Prompt:
    text: str
    delivery: Delivery


def read_prompt(config: ClaudeCodeConfig, *, workspace: Path, config_dir: Path | None) -> Prompt:
    text = read_text(CLAUDE, config, workspace=workspace, config_dir=config_dir)
    delivery = _choose_delivery(text, config.prompt_delivery)
    if delivery != "file" and not config.slash_commands and (command := _SLASH_COMMAND.match(text)):
        raise one_problem(
            "prompt",
            f"starts with {command[0]!r}, which Claude Code takes for a command of its own, and the model never sees",
            "put a space before it; or set slash_commands: true if the command is what you want",
        )
    return Prompt(text, delivery)


def _choose_delivery(text: str, wanted: str) -> Delivery:
    fits = fits_argument(text)
    if wanted == "argument":
        if not fits:
            raise one_problem("prompt_delivery", "an argument cannot hold this prompt", "use stdin or auto")
        return "argument"
    if wanted == "stdin":
        return "stdin"
    if wanted == "file":
        return "file"
    return "argument" if fits and len(text) <= LONGEST_ARGUMENT_CHARACTERS else "stdin"


# How we talk to the CLI: print mode, or its control protocol by one of two ways.

Transport = Literal["websocket", "stdio", "print"]

_ASKS_BEFORE = frozenset({"default", "ask", "manual"})
"""Modes in which the CLI would ask somebody: with a tool policy, there is somebody."""


def choose_transport(config: ClaudeCodeConfig, version: CliVersion, *, is_boundary: bool) -> Transport:
    """Raises where this version cannot do what was asked for."""
    if config.transport == "print":
        return "print"
    if config.transport == "auto" and config.tool_policy is None:
        usable = supports(version, Feature.ASKS_ABOUT_TOOLS) and not config.print_only
        return _by_version(version) if is_boundary and usable else "print"
    key = "tool_policy" if config.transport == "auto" else "transport"
    if not supports(version, Feature.ASKS_ABOUT_TOOLS):
        first = first_version(Feature.ASKS_ABOUT_TOOLS)
        message = f"Claude Code {version} has no {Feature.ASKS_ABOUT_TOOLS.value}"
        raise one_problem(key, message, f"use {first} or later")
    if config.transport == "websocket" and not supports(version, Feature.SDK_URL):
        window = f"{first_version(Feature.SDK_URL)} to {last_version(Feature.SDK_URL)}"
        raise one_problem(key, f"Claude Code {version} takes no WebSocket of ours", f"use {window}, or stdio")
    return _by_version(version) if config.transport == "auto" else config.transport


def policy_decides(config: ClaudeCodeConfig) -> bool:
    """Whether what the policy allows is allowed; otherwise the CLI's own mode has the last word."""
    mode = config.permission_mode
    return mode in (None, "bypassPermissions") or (config.tool_policy is not None and mode in _ASKS_BEFORE)


def _by_version(version: CliVersion) -> Transport:
    return "websocket" if supports(version, Feature.SDK_URL) else "stdio"


@dataclass(frozen=True, kw_only=True)
class Invocation:
    """All that goes into one command line."""

    config: ClaudeCodeConfig
    cli: Cli
    prompt: Prompt
    prompt_file: Path | None
    """Where the agent finds the prompt, if it is to be read from a file."""
    settings_file: Path | None = None
    """What must win over every other settings file, if anything must."""
    agent_definition: str | None
    workspace: Path
    env: Mapping[str, str]
    is_root: bool
    session_id: str | None = None
    """Chosen by us where the output does not tell it: its debug log is then known by name."""
    transport: Transport = "print"
    line_flags: tuple[str, ...] = ()
    """Where the other end of the conversation is, if that has to be said."""
    stdin: Input | None = None
    """The other end itself, if it is standard input."""


def build_command(invocation: Invocation) -> Command:
    _check_version(invocation)
    config, prompt = invocation.config, invocation.prompt
    flags = [
        *_output_flags(config),
        *_control_flags(invocation),
        *_permission_flags(invocation),
        *_debug_flags(invocation),
        *_optional_flags(invocation),
        *config.extra_args,
    ]
    if invocation.settings_file is not None:
        flags += ["--settings", str(invocation.settings_file)]
    if invocation.prompt_file is not None:
        flags += ["--add-dir", str(invocation.prompt_file.parent)]
    return Command(
        # The prompt comes last and behind `--`: one that starts with a dash is then no option, and no flag
        # that takes several values can swallow it.
        argv=(*invocation.cli.argv, *flags, "-p", *_prompt_arguments(invocation)),
        cwd=invocation.workspace,
        env=_environment(config, invocation.env),
        stdin=prompt.text.encode() if prompt.delivery == "stdin" else invocation.stdin,
        terminal=config.pty == "always",
    )


def first_words(invocation: Invocation) -> str:
    """What the agent is told: its task, or where to find it."""
    if invocation.prompt_file is not None:
        return f"Read the file {invocation.prompt_file} completely; it holds your task. Then do what it says."
    return invocation.prompt.text


def _prompt_arguments(invocation: Invocation) -> list[str]:
    is_argument = invocation.prompt_file is not None or invocation.prompt.delivery == "argument"
    return ["--", first_words(invocation)] if is_argument and invocation.transport == "print" else []


def _output_flags(config: ClaudeCodeConfig) -> list[str]:
    if config.output_format == "text":
        return ["--output-format", "text"]
    flags = ["--output-format", "stream-json", "--verbose"]  # without --verbose every version refuses stream-json
    return [*flags, "--include-partial-messages"] if config.include_partial_messages else flags


def _control_flags(invocation: Invocation) -> list[str]:
    if invocation.transport == "print":
        return []
    return ["--input-format", "stream-json", *invocation.line_flags]


def _debug_flags(invocation: Invocation) -> list[str]:
    """Where the output does not tell of failed requests, the CLI's debug log does (see `debug_log.py`)."""
    if invocation.session_id is not None:
        return ["--debug", "--session-id", invocation.session_id]
    return [] if supports(invocation.cli.version, Feature.RETRY_EVENTS) else ["--debug"]


def _permission_flags(invocation: Invocation) -> list[str]:
    mode = invocation.config.permission_mode
    if _bypasses(invocation.config):
        _refuse_root(invocation)
    if mode is None:
        return ["--dangerously-skip-permissions"]
    return ["--permission-mode", "default" if mode == "ask" else mode]


def _bypasses(config: ClaudeCodeConfig) -> bool:
    return config.permission_mode in (None, "bypassPermissions")


def _refuse_root(invocation: Invocation) -> None:
    if invocation.is_root and invocation.env.get("IS_SANDBOX") != "1":  # the CLI takes no other value for a yes
        raise YouBenchaError(
            ROOT_REFUSED,
            "Claude Code does not run with all tools allowed as root.",
            hint="Run as a normal user, or in a container (sandbox: docker); or, if this machine is disposable, set "
            "IS_SANDBOX: '1' in agent.env; or choose another permission_mode.",
        )


def _optional_flags(invocation: Invocation) -> list[str]:
    config = invocation.config
    values: dict[str, str | None] = {
        "--model": config.model,
        "--agents": invocation.agent_definition,
        "--agent": config.agent_name,
        "--system-prompt": config.system_prompt,
        "--append-system-prompt": config.append_system_prompt,
        # One value joined by commas: these flags take several and would swallow what follows.
        "--allowedTools": _joined(config.allowed_tools),
        "--disallowedTools": _joined(config.disallowed_tools),
        "--max-turns": _text(config.max_turns),
        "--effort": config.effort,
        "--mcp-config": config.mcp_config,
        "--setting-sources": _joined(config.setting_sources),
    }
    flags = [part for flag, value in values.items() if value is not None for part in (flag, value)]
    return [*flags, "--strict-mcp-config"] if config.mcp_config is not None else flags


def _joined(rules: tuple[str, ...] | None) -> str | None:
    return ",".join(rules) if rules else None


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)


def _environment(config: ClaudeCodeConfig, env: Mapping[str, str]) -> dict[str, str]:
    """The two options that only the environment can set."""
    settings: dict[str, str] = {}
    if config.max_tokens is not None:
        settings["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(config.max_tokens)
    if config.temperature is not None:
        # MAX_THINKING_TOKENS=0 would be ignored for models that think adaptively; this is not (2.1.325).
        body = {"temperature": config.temperature, "thinking": {"type": "disabled"}}
        settings["CLAUDE_CODE_EXTRA_BODY"] = json.dumps(body)
    return {**settings, **env}


def _check_version(invocation: Invocation) -> None:
    """Refuse what this CLI version cannot do: an unknown flag would end it, or worse, be ignored."""
    config, version = invocation.config, invocation.cli.version
    used = {
        "agent_name": (config.agent_name is not None, Feature.AGENT_FLAG),
        "include_partial_messages": (config.include_partial_messages, Feature.PARTIAL_MESSAGES),
        "effort": (config.effort is not None, Feature.EFFORT),
        "permission_mode": (invocation.is_root and _bypasses(config), Feature.BYPASS_AS_ROOT),
    }
    problems = [
        Problem(
            key,
            f"Claude Code {version} has no {feature.value}",
            f"use {first_version(feature)} or later: `yb agents install claude-code`",
        )
        for key, (is_used, feature) in used.items()
        if is_used and not supports(version, feature)
    ]
    modes = permission_modes(version)
    mode = config.permission_mode
    if mode not in (None, "ask", *modes):
        problems.append(
            Problem("permission_mode", f"Claude Code {version} has no mode {mode!r}", f"it has {', '.join(modes)}")
        )
    if problems:
        raise invalid_config(problems)


# Files for the agent to read, outside the workspace so that no diff shows them. For us alone: one may hold a key.


@contextmanager
def open_scratch(sandbox: Sandbox, parent: Path | None = None) -> Iterator[Scratch]:
    """In `parent`, so that whoever made that finds it even after a kill; else where temporary files go.

    Shared with the sandbox from the start: what is shared has to be, before anything runs.
    """
    with (
        tempfile.TemporaryDirectory(prefix="youbencha-", dir=parent, ignore_cleanup_errors=True) as prompts,
        tempfile.TemporaryDirectory(prefix="youbencha-settings-", dir=parent, ignore_cleanup_errors=True) as settings,
    ):
        yield Scratch(sandbox, Path(prompts).absolute(), Path(settings).absolute())


class Scratch:
    """Each file in a directory of its own, since the CLI is let into the prompt's."""

    def __init__(self, sandbox: Sandbox, prompts: Path, settings: Path) -> None:
        self._sandbox = sandbox
        self._prompts = prompts
        self._settings = settings
        sandbox.share(prompts)
        sandbox.share(settings)

    def put_prompt(self, text: str | None) -> Path | None:
        """Where the agent finds it."""
        return self._put(self._prompts / "prompt.md", text)

    def put_settings(self, text: str | None) -> Path | None:
        return self._put(self._settings / "settings.json", text)

    def _put(self, path: Path, text: str | None) -> Path | None:
        if text is None:
            return None
        path.write_bytes(text.encode())
        return Path(self._sandbox.inside(path))

    def with_files_of(self, config: ClaudeCodeConfig) -> ClaudeCodeConfig:
        """A file that the configuration names has to be seen by the agent, too."""
        named = config.mcp_config
        if self._sandbox.kind == "local" or named is None or named.lstrip().startswith("{"):
            return config
        path = Path(named)
        if not path.is_absolute() or not path.is_file():  # in the workspace, or for the CLI to complain about
            return config
        self._sandbox.share(path)
        return config.model_copy(update={"mcp_config": self._sandbox.inside(path)})
