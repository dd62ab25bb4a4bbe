"""Find the CLI to run, and learn its version as something that can be compared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from youbencha.adapters.claude_code.config import ClaudeCodeConfig
from youbencha.adapters.claude_code.errors import CLAUDE
from youbencha.adapters.claude_code.versions import CliVersion
from youbencha.adapters.cli_agent import locate
from youbencha.sandbox.base import Sandbox
from youbencha.sandbox.here import HERE

Cli = locate.Cli[CliVersion]
_finder = locate.Finder(CLAUDE, CliVersion.parse)


async def locate_cli(
    config: ClaudeCodeConfig, env: Mapping[str, str], sandbox: Sandbox = HERE, workspace: Path | None = None
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
