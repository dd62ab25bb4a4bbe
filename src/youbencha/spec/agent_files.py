"""Files that an agent gets besides those of the task: instructions, skills, plugins, and any others."""

from typing import Annotated

from pydantic import AfterValidator, Field

from youbencha.files import PathNotAllowed, check_relative
from youbencha.spec.base import Line, StrictModel

Paths = Annotated[tuple[Line, ...], Field(strict=False, exclude_if=lambda paths: not paths)]
OptionalPath = Annotated[Line | None, Field(exclude_if=lambda path: path is None)]


def _in_repository(path: str) -> str:
    try:
        check_relative(path)
    except PathNotAllowed as error:
        raise ValueError(str(error)) from error
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts or parts[0].lower() == ".git":
        raise ValueError("must name a file or a directory of the repository")
    return "/".join(parts)


Without = Annotated[
    tuple[Annotated[Line, AfterValidator(_in_repository)], ...], Field(strict=False, exclude_if=lambda paths: not paths)
]
"""Files and directories of the repository that are taken out before the agent starts, and put back when it has
ended, unless it made files of its own there."""


class AgentFiles(StrictModel):
    """Files for the agent, as paths relative to the configuration. None of them is ever in its diff."""

    instructions: OptionalPath = None
    """A file that the agent reads at the start of each session: Claude Code's CLAUDE.md, others' AGENTS.md or
    GEMINI.md. It is in the agent's configuration home, besides that of the repository."""
    skills: Paths = ()
    """Directories that contain a SKILL.md."""
    plugins: Paths = ()
    """Directories of plugins."""
    files: OptionalPath = None
    """A directory whose files are laid over the checkout before the agent starts, and taken away again when it has
    ended."""
    home: OptionalPath = None
    """A directory whose files are laid over the agent's home, which is always a new one then."""

    @property
    def has_files(self) -> bool:
        return any(getattr(self, name) for name in AgentFiles.model_fields)
