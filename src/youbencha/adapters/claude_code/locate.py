"""Find the CLI to run, and learn its version as something that can be compared."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from youbencha.adapters.claude_code.config import CLAUDE, ClaudeCodeConfig, auth_failed
from youbencha.adapters.claude_code.own_files import config_dir
from youbencha.adapters.claude_code.versions import CliVersion, Feature, supports
from youbencha.adapters.cli_agent import locate
from youbencha.process import Command, Limits, run
from youbencha.sandbox.base import Sandbox
from youbencha.sandbox.local import HOST

Cli = locate.AgentCli[CliVersion]

_finder = locate.CliFinder(CLAUDE, CliVersion.parse)


async def locate_cli(
    config: ClaudeCodeConfig, env: Mapping[str, str], sandbox: Sandbox = HOST, workspace: Path | None = None
) -> Cli:
    """The CLI that this configuration asks for, shared with the sandbox; an error that says how to get it if there is
    none. `env` is one of the host."""
    return await _finder.locate(
        env, executable=config.executable, version=config.version, sandbox=sandbox, workspace=workspace
    )


async def find_cli(env: Mapping[str, str], version: str | None = None) -> Cli | None:
    """On PATH, else in the toolbox; with a version, whichever of them has it."""
    return await _finder.find(env, version)


async def cli_version(path: Path, env: Mapping[str, str]) -> CliVersion:
    return await _finder.version_of(path, env)


# Is the CLI there, and may it talk to a model? Answered without spending anything.

_STATUS_TIMEOUT_S = 30.0

_CREDENTIALS = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
)


def credentials_given(env: Mapping[str, str]) -> bool:
    """Whether the environment itself says who we are, so that no stored login is used."""
    return any(env.get(name) for name in _CREDENTIALS)


async def require_authentication(cli: Cli, env: Mapping[str, str]) -> None:
    """Raise if the CLI has no credentials. Whether they are *valid* only a request can tell, and that costs."""
    if credentials_given(env):
        return
    if supports(cli.version, Feature.AUTH_STATUS):
        if not await _status_says_logged_in(cli, env):
            raise auth_failed("`claude auth status` says that nobody is logged in, and there is no API key.")
    elif not may_be_logged_in(env):
        # Before 2.1.40 `claude auth status` is no command: "auth" would be sent to the model as a prompt.
        raise auth_failed("there is no API key and no stored login.")


async def _status_says_logged_in(cli: Cli, env: Mapping[str, str]) -> bool:
    command = Command(argv=(*cli.argv, "auth", "status"), cwd=cli.path.parent, env=env)
    result = await run(command, limits=Limits(timeout_s=_STATUS_TIMEOUT_S))
    return result.exit.code == 0


def may_be_logged_in(env: Mapping[str, str], platform: str = sys.platform) -> bool:
    """As far as files tell: macOS keeps a login in its keychain, where we do not look."""
    if platform == "darwin":
        return True
    base = config_dir(env)
    return base is not None and ((base / ".credentials.json").is_file() or _has_key_helper(base / "settings.json"))


def _has_key_helper(settings: Path) -> bool:
    try:
        return b'"apiKeyHelper"' in settings.read_bytes()
    except OSError:
        return False
