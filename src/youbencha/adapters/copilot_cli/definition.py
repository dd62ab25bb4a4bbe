"""A custom agent's definition that is not the repository's own: `.github/agents/NAME.agent.md` beside the test case, or
`~/.copilot/agents` of the person.

The CLI looks into each directory that it is given (`--add-dir`), so the definition is put where it is, in a copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from youbencha.adapters.cli_agent import Task
from youbencha.adapters.cli_agent.definition_file import read_definition
from youbencha.adapters.copilot_cli.config import CopilotCliConfig
from youbencha.adapters.copilot_cli.credentials import copilot_home

_AGENTS = Path(".github", "agents")


def definition_directory(task: Task[CopilotCliConfig], harness: Mapping[str, str]) -> Path | None:
    """A directory with the definition of the task's agent in it; None where the CLI finds its own, or there is none."""
    name = task.config.agent_name
    if name is None or _definition(task.workspace / _AGENTS, name, below=task.workspace) is not None:
        return None
    found = next((text for place in _places(task, harness) if (text := _definition(place, name)) is not None), None)
    if found is None:
        return None
    directory = task.scratch / "definition"
    (directory / _AGENTS).mkdir(parents=True)
    (directory / _AGENTS / f"{name}.agent.md").write_bytes(found)
    return directory


def _places(task: Task[CopilotCliConfig], harness: Mapping[str, str]) -> Iterator[Path]:
    """The test case's, then the person's, whose home may not be the agent's."""
    from youbencha.workspace.project import project_directories

    if task.config_dir is not None:
        yield from (place / _AGENTS for place in project_directories(task.config_dir))
    if (home := copilot_home(harness)) is not None:
        yield home / "agents"


def _definition(place: Path, name: str, below: Path | None = None) -> bytes | None:
    texts = (read_definition(place / f"{name}{ending}", below=below) for ending in (".agent.md", ".md"))
    return next((text for text in texts if text is not None), None)
