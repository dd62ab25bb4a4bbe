"""Runs that are never started, for tests of command lines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from youbencha.adapters import AgentExecutionContext
from youbencha.adapters.cli_agent import AgentCli, AgentConfig, Invocation

C = TypeVar("C", bound=AgentConfig)


def invocation(
    config: C,
    cli: AgentCli,
    workspace: Path,
    scratch: Path,
    env: Mapping[str, str],
    config_dir: Path | None = None,
) -> Invocation[C]:
    """One run of a CLI, as far as a command line needs it."""
    context = AgentExecutionContext(
        workspace_dir=workspace, repo_dir=workspace, artifacts_dir=scratch, config={}, config_dir=config_dir
    )
    return Invocation(context, config, cli, config.prompt or "", scratch, env)
