"""`agentic-judge.md`, where Claude Code and Copilot each look for custom agents."""

from __future__ import annotations

from pathlib import Path

from youbencha.scaffold.files import FileResult, write_file

AGENT_FILES = (Path(".github/agents/agentic-judge.md"), Path(".claude/agents/agentic-judge.md"))
"""Both read the same header: a name and a description."""


def install_agent_files(root: Path, *, force: bool = False) -> list[FileResult]:
    """Write both; one that cannot be written does not keep the other from it."""
    from youbencha.evaluators.judge import judge_definition

    text = judge_definition()
    return [write_file(root, path, text, force=force) for path in AGENT_FILES]
