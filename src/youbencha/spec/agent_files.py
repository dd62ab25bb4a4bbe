"""Files that an agent gets besides those of the task: instructions, skills, plugins, and any others."""

from typing import Annotated

from pydantic import AfterValidator, Field

from youbencha.files import PathNotAllowed, check_relative
from youbencha.spec.base import Line, StrictModel, added

Paths = Annotated[tuple[Line, ...], Field(strict=False)]


def _in_repository(path: str) -> str:
    try:
        check_relative(path)
    except PathNotAllowed as error:
        raise ValueError(str(error)) from error
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts or parts[0].lower() == ".git":
        raise ValueError("must name a file or a directory of the repository")
    return "/".join(parts)


Without = Annotated[tuple[Annotated[Line, AfterValidator(_in_repository)], ...], Field(strict=False)]
"""Files and directories of the repository that are removed before the agent starts, and restored when it has ended,
unless it made files of its own there."""


class AgentFiles(StrictModel):
    """Files for the agent, as paths relative to the configuration. They never show up in the agent's diff."""

    instructions: Line | None = added(None)
    """A file that the agent reads at the start of each session: CLAUDE.md for Claude Code, AGENTS.md or GEMINI.md for
    others. It is placed in the agent's configuration home, in addition to the repository's own."""
    skills: Paths = added(())
    """Directories that each contain a SKILL.md."""
    plugins: Paths = added(())
    """Plugin directories to load for this trial."""
    files: Line | None = added(None)
    """A directory whose files are copied into the checkout before the agent starts, and removed afterwards."""
    home: Line | None = added(None)
    """A directory whose files are copied into the agent's home, which is then always a new one."""

    @property
    def has_files(self) -> bool:
        return any(getattr(self, name) for name in AgentFiles.model_fields)
