"""ClaudeCodeAdapter: the contract of `adapters/base.py` for the Claude Code CLI."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from youbencha.adapters.base import AgentExecutionContext, AgentExecutionResult
from youbencha.adapters.claude_code.command import (
    Invocation,
    Prompt,
    Scratch,
    choose_transport,
    open_scratch,
    read_prompt,
)
from youbencha.adapters.claude_code.config import CLAUDE, ClaudeCodeConfig, parse_config
from youbencha.adapters.claude_code.execution import Execution
from youbencha.adapters.claude_code.locate import Cli, find_cli, locate_cli, may_be_logged_in, require_authentication
from youbencha.adapters.claude_code.own_files import agent_definition, on_the_host
from youbencha.adapters.claude_code.texts import plain_session
from youbencha.adapters.claude_code.versions import Feature, supports
from youbencha.adapters.cli_agent.environment import base_environment, secrets_of
from youbencha.adapters.cli_agent.invocation import check_context
from youbencha.adapters.cli_agent.normalize import normalize
from youbencha.adapters.cli_agent.prompt import prompt_is_here
from youbencha.control.stream_json import ClaudeStreamReader
from youbencha.errors import ConfigError, Problem
from youbencha.gateway.api import GatewayAccess
from youbencha.log import YouBenchaLog
from youbencha.process import Redactor
from youbencha.sandbox.base import Sandbox
from youbencha.sandbox.local import HOST

if TYPE_CHECKING:
    from youbencha.gateway.api import Provider


_CHOOSES_SESSION = frozenset({"--session-id", "--resume", "-r", "--continue", "-c"})


class ClaudeCodeAdapter:
    """Runs Claude Code, in print mode or by its control protocol, and reads its stream-json (or plain text) output."""

    name = CLAUDE.name
    version = "1.0.0"

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        """`env` stands for the harness's own environment; by default it is the process's."""
        self._env = env

    async def check_availability(self) -> bool:
        """True if the CLI can be run, False if there is none; raises if it has no credentials."""
        env = agent_environment(self._harness_env(), {})
        cli = await find_cli(env)
        if cli is None:
            return False
        await require_authentication(cli, env)
        return True

    async def check_ready(self, config: Mapping[str, Any], env: Mapping[str, str]) -> None:
        """Raise if this test case's CLI is not there, or has no credentials."""
        given = agent_environment(self._harness_env(), env)
        await require_authentication(await locate_cli(parse_config(config), given), given)

    def check_config(self, config: Mapping[str, Any], config_dir: Path | None) -> Sequence[Problem]:
        """What is wrong with `agent.config`, all of it."""
        try:
            parsed = parse_config(config)
            if prompt_is_here(CLAUDE, parsed, config_dir):
                read_prompt(parsed, workspace=config_dir or Path(), config_dir=config_dir)
        except ConfigError as error:
            return error.problems
        return ()

    async def execute(self, context: AgentExecutionContext) -> AgentExecutionResult:
        """Run Claude Code to its end, its deadline, or the first sign that it cannot succeed."""
        check_context(CLAUDE, context)
        config = parse_config(context.config)
        if context.model is not None:  # any name, unlike the one in `config`: a gateway may know it
            config = config.model_copy(update={"model": context.model})
        prompt = read_prompt(config, workspace=context.workspace_dir.absolute(), config_dir=context.config_dir)
        with open_scratch(context.sandbox, context.scratch_dir) as scratch:
            invocation = await self._prepare(scratch.with_files_of(config), prompt, context, scratch)
            return await Execution(invocation, context, self._harness_env()).run()

    async def _prepare(
        self, config: ClaudeCodeConfig, prompt: Prompt, context: AgentExecutionContext, scratch: Scratch
    ) -> Invocation:
        harness, sandbox = self._harness_env(), context.sandbox
        workspace = context.workspace_dir.absolute()
        env = agent_environment(harness, context.env, context.gateway, sandbox)
        host = env if sandbox.kind == "local" else agent_environment(harness, {})
        cli = await locate_cli(config, host, sandbox, workspace)
        transport = choose_transport(config, cli.version, is_boundary=sandbox.is_boundary)
        if transport != "print" and prompt.delivery != "file":
            prompt = replace(prompt, delivery="message")
        definition = None
        if config.agent_name is not None:
            definition = agent_definition(
                config.agent_name,
                workspace=workspace,
                env=on_the_host(sandbox, env),
                harness=harness,
                project=context.config_dir,
            )
        return Invocation(
            config=config,
            cli=cli,
            prompt=prompt,
            prompt_file=scratch.put_prompt(prompt.text if prompt.delivery == "file" else None),
            settings_file=scratch.put_settings(_settings(context, config, cli, env)),
            agent_definition=definition,
            workspace=workspace,
            env=env,
            is_root=hasattr(os, "geteuid") and os.geteuid() == 0,
            session_id=_session_id(config, cli),
            transport=transport,
        )

    def normalize_log(self, result: AgentExecutionResult, context: AgentExecutionContext) -> YouBenchaLog:
        """The result as a YouBenchaLog."""
        redactor = Redactor.for_env(self._harness_env(), context.env, secrets_of(context.gateway))
        return normalize(
            CLAUDE,
            result,
            context,
            reader=ClaudeStreamReader,
            adapter_version=self.version,
            redactor=redactor,
            read_plain=plain_session,
        )

    def gateway_provider(self, model: str | None, env: Mapping[str, str]) -> Provider:
        """Always Anthropic's API: what Bedrock and Vertex speak is of no use to a gateway that stands for them."""
        return "anthropic"

    def gateway_env(self, access: GatewayAccess, model: str | None, env: Mapping[str, str]) -> Mapping[str, str]:
        """What points the CLI at a gateway."""
        return gateway_env(access)

    def credentials_in(self, env: Mapping[str, str]) -> Sequence[str]:
        """Names that say where the model is, or who asks."""
        return [name for name, value in env.items() if value and name.upper() in CREDENTIALS]

    def stored_login(self, env: Mapping[str, str]) -> bool:
        """Of `adapters.base.StoresLogin`."""
        return may_be_logged_in(env)

    def _harness_env(self) -> Mapping[str, str]:
        return os.environ if self._env is None else self._env


def _settings(context: AgentExecutionContext, config: ClaudeCodeConfig, cli: Cli, env: Mapping[str, str]) -> str | None:
    """What has to win over every other settings file, where the CLI can be told so."""
    has_policy = config.tool_policy is not None
    if not (context.gateway or has_policy) or not supports(cli.version, Feature.SETTINGS_FLAG):
        return None
    settings = given_settings(config.extra_args, context.workspace_dir)
    if context.gateway is not None:
        settings = gateway_settings(context.gateway, env, settings)
    if has_policy:  # 1.0.128 and 2.0.62 would not ask us if the repository's settings switched all hooks off
        settings |= {"disableAllHooks": False}
    return json.dumps(settings)


def _session_id(config: ClaudeCodeConfig, cli: Cli) -> str | None:
    """Plain text says nothing of the session, so that we give it its name."""
    chosen = _CHOOSES_SESSION.intersection(argument.partition("=")[0] for argument in config.extra_args)
    is_silent = config.output_format == "text" and not chosen
    return str(uuid.uuid4()) if is_silent and supports(cli.version, Feature.SESSION_ID) else None


# Which of the harness's own environment variables Claude Code gets to see, beside those that all agents get.

_CLAUDE = {
    "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR",
    "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLOUD_ML_REGION", "ANTHROPIC_VERTEX_PROJECT_ID",
    "AWS_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
    "AWS_BEARER_TOKEN_BEDROCK", "GOOGLE_APPLICATION_CREDENTIALS", "CLAUDE_CODE_GIT_BASH_PATH", "IS_SANDBOX",
}  # fmt: skip

_QUIET = {
    # Fewer connections that have nothing to do with the task, and no update in the middle of a trial.
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
}


_CONTAINED = {"IS_SANDBOX": "1"}
"""What lets Claude Code run with all tools allowed as root. Only ever said where it is true."""


def agent_environment(
    harness: Mapping[str, str],
    given: Mapping[str, str],
    gateway: GatewayAccess | None = None,
    sandbox: Sandbox = HOST,
) -> dict[str, str]:
    """What Claude Code runs with. What the test case gives wins over everything but a gateway."""
    contained = _CONTAINED if sandbox.is_boundary else {}
    env = {**base_environment(sandbox, harness, _CLAUDE), **_QUIET, **contained, **given}
    if gateway is None:
        return env
    from youbencha.adapters.cli_agent.environment import gateway_environment

    return gateway_environment(env, gateway, gateway_env(gateway), given=given, own=CREDENTIALS)


# Claude Code and the gateway: what tells it where its model is, and what it gets behind a gateway instead.
#
# Its settings files win over its environment: with a base URL in `env` of the user's settings, or of the repository's,
# it goes there, and a key helper's key is sent beside ours (measured: 1.0.128, 2.0.62, 2.1.325). Only what
# `--settings`
# says wins over those files, so that the gateway is said there too.

CREDENTIALS = frozenset({
    "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_UNIX_SOCKET", "ANTHROPIC_PROFILE", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY", "CLAUDE_CODE_USE_MANTLE", "CLAUDE_CODE_USE_GATEWAY",
    "CLAUDE_CODE_USE_ANTHROPIC_AWS", "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD",
})  # fmt: skip
"""Whoever sets one of these has decided how Claude Code reaches its model."""

_FLAG = "--settings"


def gateway_env(access: GatewayAccess) -> dict[str, str]:
    return {"ANTHROPIC_BASE_URL": access.url, "ANTHROPIC_API_KEY": access.key}


def gateway_settings(access: GatewayAccess, env: Mapping[str, str], given: Mapping[str, Any]) -> dict[str, Any]:
    """For `--settings`, with what the person gives there."""
    nothing = dict.fromkeys(sorted(CREDENTIALS), "")
    around = {name: env[name] for name in ("NO_PROXY", "no_proxy") if name in env}
    own = given["env"] if isinstance(given.get("env"), dict) else {}
    return {**given, "apiKeyHelper": "", "env": {**own, **nothing, **around, **gateway_env(access)}}


def given_settings(extra_args: Sequence[str], workspace: Path) -> dict[str, Any]:
    """What the person says by `--settings`: of two, the CLI reads the last, and that is ours.

    A file or JSON, as the CLI takes it; what cannot be read has no effect there either.
    """
    flags = [*extra_args, ""]
    values = [
        value if equals else flags[at + 1]
        for at, (name, equals, value) in enumerate(flag.partition("=") for flag in extra_args)
        if name == _FLAG
    ]
    if not values:
        return {}
    try:
        text = values[-1]
        read = json.loads(text if text.lstrip().startswith("{") else (workspace / text).read_bytes())
    except (OSError, ValueError):
        return {}
    return read if isinstance(read, dict) else {}
