"""`yb install-agents`: write the judge's definition, as a custom agent of Claude Code and of Copilot."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from youbencha.cli.init import show_files


def install_agents(
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    directory: Annotated[Path, typer.Option("--dir", metavar="DIR", help="Where to write.")] = Path(),
) -> int:
    """Write agentic-judge.md into .github/agents and .claude/agents.

    To install agent CLIs, use `yb agents install`. Exit code 1 if a file cannot be written.
    """
    from youbencha.scaffold import install_agent_files

    return show_files(install_agent_files(directory, force=force))
