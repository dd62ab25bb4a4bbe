"""Build the CLI's command line from the configuration.

This includes how the prompt reaches the CLI, which settings must override every settings file, and how the CLI is
driven: each affects the command line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from packaging.version import Version

from youbencha.adapters.base import InstalledFiles, parse_version
from youbencha.adapters.claude_code.options import ClaudeCode, ClaudeCodeConfig
from youbencha.adapters.claude_code.versions import Feature, first_version, last_version, permission_modes, supports
from youbencha.adapters.cli_agent import AgentCli, Invocation, codes, fits_argument
from youbencha.adapters.cli_agent.adapter import flags_with_values, in_terminal
from youbencha.adapters.cli_agent.locate import unknown_version
from youbencha.errors import Problem
from youbencha.files import PathNotAllowed, read_file, read_within
from youbencha.gateway.access import GatewayAccess
from youbencha.process import Command, Input
from youbencha.process.environment import PROXY

ClaudeInvocation = Invocation[ClaudeCodeConfig]
_MAX_SETTINGS_BYTES = 1024 * 1024
_CHOOSES_SESSION = frozenset({"--session-id", "--resume", "-r", "--continue", "-c"})


def build_command(
    invocation: ClaudeInvocation,
    *,
    agent_definition: str | None = None,
    is_root: bool = False,
    control_flags: Sequence[str] = (),
    stdin: Input | None = None,
) -> Command:
    """Build the command line, and write the files that it names: the prompt and the settings.

    `control_flags` and `stdin` come from the control protocol's transport.
    """
    config, version = invocation.config, cli_version(invocation.cli)
    _check_version(invocation, version, is_root=is_root)
    delivery = prompt_delivery(invocation)
    plugins = invocation.context.files.plugins if invocation.context.files else ()
    flags = [
        *_output_flags(config, version),
        *([] if session_transport(invocation) == "print" else ["--input-format", "stream-json", *control_flags]),
        *_permission_flags(invocation, is_root=is_root),
        *_debug_flags(invocation, version),
        *_optional_flags(config, agent_definition),
        *(part for path in plugins for part in ("--plugin-dir", invocation.inside(path))),
        *config.extra_args,
    ]
    if (settings := _settings(invocation, version)) is not None:
        path = settings_directory(invocation.scratch) / "settings.json"
        path.write_bytes(json.dumps(settings).encode())
        flags += ["--settings", invocation.inside(path)]
    if delivery == "file":
        _prompt_file(invocation).write_bytes(invocation.prompt.encode())
        flags += ["--add-dir", invocation.inside(invocation.scratch)]
    command = Command(
        # The prompt comes last, after `--`: then a leading dash does not make it an option, and no flag that takes
        # several values can consume it.
        argv=(*invocation.cli.argv, *flags, "-p", *_prompt_arguments(invocation)),
        cwd=invocation.workspace,
        env=_environment(config, _reaching_gateway(invocation, version)),
        stdin=invocation.prompt.encode() if delivery == "stdin" else stdin,
    )
    return in_terminal(config, command)


def cli_version(cli: AgentCli) -> Version:
    """Parse the CLI's version, so that it can be compared."""
    version = parse_version(cli.version)
    if version is None:
        raise unknown_version(ClaudeCode, cli.path, repr(cli.version))
    return version


def chosen_session_id(invocation: ClaudeInvocation) -> str | None:
    """Return the session's id in text mode: chosen here, because the output lacks it, and files are named by it."""
    if invocation.config.output_format != "text":
        return None
    known = supports(cli_version(invocation.cli), Feature.SESSION_ID)
    return invocation.session_id(_CHOOSES_SESSION) if known else None


MAX_ARGUMENT_CHARS = 7_000

_SLASH_COMMAND = re.compile(r"/[\w:.-]+(?=\s|\Z)")
"""`/help`, but not `/usr/bin/env is …`. Measured in 1.0.128 to 2.1.325, for arguments and standard input alike."""

Delivery = Literal["argument", "stdin", "file", "message"]
"""`message`: the first message of a conversation, which can be a slash command, too."""


def check_prompt(prompt: str, config: ClaudeCodeConfig) -> None:
    """Raise if the prompt cannot be delivered as configured, or would be read as a command of the CLI."""
    delivery = print_delivery(prompt, config)
    if delivery != "file" and not config.slash_commands and (command := _SLASH_COMMAND.match(prompt)):
        raise ClaudeCode.one_problem(
            "prompt",
            f"starts with {command[0]!r}, which Claude Code would run as a command; the model would never see it",
            "put a space before it; or set slash_commands: true if you want to run the command",
        )


def prompt_delivery(invocation: ClaudeInvocation) -> Delivery:
    """Return how the prompt reaches the CLI."""
    delivery = print_delivery(invocation.prompt, invocation.config)
    return delivery if delivery == "file" or session_transport(invocation) == "print" else "message"


def first_message(invocation: ClaudeInvocation) -> str:
    """Return the prompt, or a reference to the file that holds it."""
    if prompt_delivery(invocation) == "file":
        path = invocation.inside(_prompt_file(invocation))
        return f"Read the file {path} completely; it holds your task. Then do what it says."
    return invocation.prompt


def print_delivery(prompt: str, config: ClaudeCodeConfig) -> Delivery:
    """Return how the prompt reaches the CLI in print mode."""
    wanted, fits = config.prompt_delivery, fits_argument(prompt)
    if wanted == "argument" and not fits:
        raise ClaudeCode.one_problem("prompt_delivery", "an argument cannot hold this prompt", "use stdin or auto")
    if wanted != "auto":
        return wanted
    if fits and len(prompt) <= MAX_ARGUMENT_CHARS:
        return "argument"
    return "file" if config.pty == "always" else "stdin"  # on Windows, a program in a terminal has no standard input


def _prompt_file(invocation: ClaudeInvocation) -> Path:
    return invocation.scratch / "prompt.md"


def _prompt_arguments(invocation: ClaudeInvocation) -> list[str]:
    is_argument = prompt_delivery(invocation) in ("argument", "file") and session_transport(invocation) == "print"
    return ["--", first_message(invocation)] if is_argument else []


Transport = Literal["websocket", "stdio", "print"]


def session_transport(invocation: ClaudeInvocation) -> Transport:
    return choose_transport(
        invocation.config, cli_version(invocation.cli), is_boundary=invocation.context.sandbox.is_boundary
    )


def choose_transport(config: ClaudeCodeConfig, version: Version, *, is_boundary: bool) -> Transport:
    """Choose the transport. Raises if this version does not support what is configured."""
    if config.transport == "print":
        return "print"
    has_protocol, has_websocket = supports(version, Feature.CONTROL_PROTOCOL), supports(version, Feature.SDK_URL)
    if config.transport == "auto":
        if not is_boundary or not has_protocol or config.print_only:
            return "print"
        return "websocket" if has_websocket else "stdio"
    if not has_protocol:
        message = f"Claude Code {version} has no {Feature.CONTROL_PROTOCOL.value}"
        raise ClaudeCode.one_problem("transport", message, f"use {first_version(Feature.CONTROL_PROTOCOL)} or later")
    if config.transport == "websocket" and not has_websocket:
        window = f"{first_version(Feature.SDK_URL)} to {last_version(Feature.SDK_URL)}"
        message = f"Claude Code {version} cannot use this WebSocket"
        raise ClaudeCode.one_problem("transport", message, f"use {window}, or stdio")
    return config.transport


def _output_flags(config: ClaudeCodeConfig, version: Version) -> list[str]:
    if config.output_format == "text":
        return ["--output-format", "text"]
    flags = ["--output-format", "stream-json", "--verbose"]  # without --verbose every version refuses stream-json
    partial = config.include_partial_messages
    if partial == "auto":
        partial = supports(version, Feature.PARTIAL_MESSAGES)
    return [*flags, "--include-partial-messages"] if partial else flags


def _debug_flags(invocation: ClaudeInvocation, version: Version) -> list[str]:
    """Turn on the debug log if the output does not show failed requests (see `output.py`)."""
    is_text = invocation.config.output_format == "text"
    is_needed = supports(version, Feature.DEBUG_FILE) if is_text else not supports(version, Feature.RETRY_EVENTS)
    session_id = chosen_session_id(invocation)
    return [*(["--debug"] if is_needed else []), *(["--session-id", session_id] if session_id else [])]


def prints_debug_log(command: Command, version: Version) -> bool:
    """Return whether the debug log is between the lines of the output."""
    return "--debug" in command.argv and not supports(version, Feature.DEBUG_FILE)


def _permission_flags(invocation: ClaudeInvocation, *, is_root: bool) -> list[str]:
    mode = invocation.config.mode
    # The CLI accepts no other value.
    if is_root and bypasses_permissions(invocation.config) and invocation.env.get("IS_SANDBOX") != "1":
        raise ClaudeCode.error(
            codes.ROOT_REFUSED,
            "Claude Code does not run with all tools allowed as root.",
            "Run as a normal user, or in a container (sandbox: docker); or, if this machine is disposable, set "
            "IS_SANDBOX: '1' in the agent's `env`; or choose another permission_mode.",
        )
    if mode is None:
        return ["--dangerously-skip-permissions"]
    return ["--permission-mode", mode]


def bypasses_permissions(config: ClaudeCodeConfig) -> bool:
    """Return whether every tool is allowed without a question."""
    return config.mode in (None, "bypassPermissions")


def _optional_flags(config: ClaudeCodeConfig, agent_definition: str | None) -> list[str]:
    values: dict[str, str | None] = {
        "--model": config.model,
        "--agents": agent_definition,
        "--agent": config.agent_name,
        "--system-prompt": config.system_prompt,
        "--append-system-prompt": config.append_system_prompt,
        # One value joined by commas: these flags take several values, and would consume what follows.
        "--allowedTools": _join(config.allowed_tools),
        "--disallowedTools": _join(config.disallowed_tools),
        "--max-turns": None if config.max_turns is None else str(config.max_turns),
        "--effort": config.effort,
        "--mcp-config": config.mcp_config,
        "--setting-sources": None if config.setting_sources is None else ",".join(config.setting_sources),
    }
    flags = flags_with_values(values)
    return [*flags, "--strict-mcp-config"] if config.mcp_config is not None else flags


def _join(rules: tuple[str, ...] | None) -> str | None:
    return ",".join(rules) if rules else None


def _reaching_gateway(invocation: ClaudeInvocation, version: Version) -> Mapping[str, str]:
    """Return the environment without proxies, if this version would send the gateway's requests through one."""
    if invocation.context.gateway is None or supports(version, Feature.NO_PROXY):
        return invocation.env
    return {name: value for name, value in invocation.env.items() if name.upper() not in PROXY}


def _environment(config: ClaudeCodeConfig, env: Mapping[str, str]) -> dict[str, str]:
    """Add the two options that only the environment can set."""
    settings: dict[str, str] = {}
    if config.max_tokens is not None:
        settings["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(config.max_tokens)
    if config.temperature is not None:
        # MAX_THINKING_TOKENS=0 is ignored for models with adaptive thinking; this is not (2.1.325).
        body = {"temperature": config.temperature, "thinking": {"type": "disabled"}}
        settings["CLAUDE_CODE_EXTRA_BODY"] = json.dumps(body)
    return {**settings, **env}


def _check_version(invocation: ClaudeInvocation, version: Version, *, is_root: bool) -> None:
    """Reject options that this CLI version does not support: it would fail, or ignore them."""
    config, files = invocation.config, invocation.context.files or InstalledFiles()
    used = (
        ("agent_name", config.agent_name is not None, Feature.AGENT_FLAG),
        ("include_partial_messages", config.include_partial_messages is True, Feature.PARTIAL_MESSAGES),
        ("effort", config.effort is not None, Feature.EFFORT),
        ("mcp_config", config.mcp_config is not None, Feature.STRICT_MCP_CONFIG),
        ("setting_sources", config.setting_sources is not None, Feature.SETTING_SOURCES),
        ("prompt_delivery", config.prompt_delivery == "file", Feature.ADD_DIR),
        ("allowed_tools", config.allowed_tools is not None and config.mode is not None, Feature.PERMISSION_MODE),
        ("permission_mode", config.permission_mode is not None, Feature.PERMISSION_MODE),
        ("skills", bool(files.skills), Feature.SKILLS),
        ("plugins", bool(files.plugins), Feature.PLUGIN_DIR),
        ("permission_mode", is_root and bypasses_permissions(config), Feature.BYPASS_AS_ROOT),
    )
    problems = [
        Problem(
            key,
            f"Claude Code {version} has no {feature.value}",
            f"use {first_version(feature)} or later: `yb agents install claude-code`",
        )
        for key, is_used, feature in used
        if is_used and not supports(version, feature)
    ]
    modes = permission_modes(version)
    mode = config.mode
    if mode not in (None, *modes):
        problems.append(
            Problem("permission_mode", f"Claude Code {version} has no mode {mode!r}", f"it has {', '.join(modes)}")
        )
    if problems:
        raise ClaudeCode.invalid_config(problems)


# Settings files override the environment: Claude Code uses a base URL in `env` of the user's or the repository's
# settings, and sends a key helper's key in addition to the given one (measured: 1.0.128, 2.0.62, 2.1.325). Only
# `--settings` overrides those files, so the gateway is set there too.

CREDENTIALS = frozenset({
    "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_UNIX_SOCKET", "ANTHROPIC_PROFILE", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY", "CLAUDE_CODE_USE_MANTLE", "CLAUDE_CODE_USE_GATEWAY",
    "CLAUDE_CODE_USE_ANTHROPIC_AWS", "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD",
})  # fmt: skip
"""A test case that sets one of these decides how Claude Code reaches its model."""


def settings_directory(scratch: Path) -> Path:
    """Return the directory for settings. Not `scratch`, which the CLI may read: the settings may hold a key."""
    return scratch.with_name(f"{scratch.name}-settings")


def _settings(invocation: ClaudeInvocation, version: Version) -> dict[str, Any] | None:
    """Return the settings that must override every settings file, if the CLI supports `--settings`."""
    access = invocation.context.gateway
    if access is None or not supports(version, Feature.SETTINGS_FLAG):
        return None
    given = given_settings(invocation.config.extra_args, invocation.workspace)
    return gateway_settings(access, invocation.env, given)


def gateway_variables(access: GatewayAccess) -> dict[str, str]:
    return {"ANTHROPIC_BASE_URL": access.url, "ANTHROPIC_API_KEY": access.key}


def gateway_settings(access: GatewayAccess, env: Mapping[str, str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of `--settings`: the user's own (`given`), with the gateway as the only credentials."""
    no_credentials = dict.fromkeys(sorted(CREDENTIALS), "")
    no_proxy = {name: env[name] for name in ("NO_PROXY", "no_proxy") if name in env}
    own = given["env"] if isinstance(given.get("env"), dict) else {}
    return {**given, "apiKeyHelper": "", "env": {**own, **no_credentials, **no_proxy, **gateway_variables(access)}}


def given_settings(extra_args: Sequence[str], workspace: Path) -> dict[str, Any]:
    """Read the user's `--settings`, to merge them: of two, the CLI reads only the last, which is the adapter's.

    The value is a file or JSON; one that cannot be read has no effect, as in the CLI.
    """
    flags = [*extra_args, ""]
    values = [
        value if equals else flags[at + 1]
        for at, (name, equals, value) in enumerate(flag.partition("=") for flag in extra_args)
        if name == "--settings"
    ]
    if not values:
        return {}
    try:
        text = values[-1]
        read = json.loads(text if text.lstrip().startswith("{") else _settings_file(workspace, text))
    except (OSError, ValueError, PathNotAllowed):
        return {}
    return read if isinstance(read, dict) else {}


def _settings_file(workspace: Path, name: str) -> bytes:
    """Return the user's file, or one of the repository, which must not be a link to a file of the user."""
    if Path(name).is_absolute():
        return read_file(Path(name), _MAX_SETTINGS_BYTES)
    return read_within(workspace, name, _MAX_SETTINGS_BYTES)
