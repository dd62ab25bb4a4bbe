"""A custom agent's definition that is not the repository's own: `.github/agents/NAME.agent.md` beside the test case, or
`~/.copilot/agents` of the person.

The CLI looks into each directory that it is given (`--add-dir`), so the definition is put where it is, in a copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from youbencha.adapters.cli_agent import Task
from youbencha.adapters.copilot_cli.config import CopilotCliConfig
from youbencha.adapters.copilot_cli.credentials import copilot_home

_AGENTS = Path(".github", "agents")
_LARGEST_FILE = 1024 * 1024


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
    """A file that cannot be read defines nothing, nor does one outside of `below` that a link leads to.

    A pipe would be waited on for ever.
    """
    for path in (place / f"{name}.agent.md", place / f"{name}.md"):
        try:
            leads_away = below is not None and not path.resolve().is_relative_to(below.resolve())
            if not leads_away and path.is_file() and path.stat().st_size <= _LARGEST_FILE:
                return path.read_bytes()
        except OSError:
            continue
    return None
