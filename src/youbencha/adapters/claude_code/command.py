"""From configuration to command line: pure, and the one place that knows the CLI's flags."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from youbencha.adapters.claude_code.codes import ROOT_REFUSED
from youbencha.adapters.claude_code.config import ClaudeCodeConfig
from youbencha.adapters.claude_code.errors import invalid_config
from youbencha.adapters.claude_code.locate import Cli
from youbencha.adapters.claude_code.prompt import Prompt
from youbencha.adapters.claude_code.transport import Transport
from youbencha.adapters.claude_code.versions import Feature, first_version, permission_modes, supports
from youbencha.errors import Problem, YouBenchaError
from youbencha.process import Command, Input


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
