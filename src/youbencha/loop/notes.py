"""Read what agents wrote down for later iterations: the scratchpad, tasks and memories. None of it is trusted."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.files import open_nofollow
from youbencha.loop.memories import Memories, matching, within_budget
from youbencha.loop.prompt import MAX_SCRATCHPAD, scratchpad_spec
from youbencha.loop.tasks import TaskList, by_importance, task_lines
from youbencha.spec.loop import LoopSpec

_BYTES_PER_CHARACTER = 4


class Notes(NamedTuple):
    """What the next prompt needs, and what tells progress from repetition."""

    scratchpad: str = ""
    tasks: tuple[str, ...] = ()
    """The open tasks of this loop, one line each."""
    open_tasks: tuple[str, ...] = ()
    """Their titles."""
    memories: str = ""
    tasks_digest: str = ""
    """Changes with each change of a task."""
    problems: tuple[str, ...] = ()


def read_notes(spec: LoopSpec, project: Path, loop_id: str, hat: str | None) -> Notes:
    """Read everything that is enabled. What cannot be read is among the problems."""
    problems: list[str] = []
    notes = Notes(scratchpad=_scratchpad(spec, project, hat, problems))
    try:
        if spec.tasks.enabled:
            tasks = [task for task in TaskList(project).all() if task.in_loop(loop_id)]
            waiting = by_importance(task for task in tasks if not task.has_ended)
            notes = notes._replace(
                tasks=task_lines(waiting, tasks),
                open_tasks=tuple(task.title for task in waiting if task.loop_id == loop_id),
                tasks_digest=hashlib.sha256(repr(tasks).encode("utf-8", "replace")).hexdigest() if tasks else "",
            )
        if spec.memories.enabled and spec.memories.inject == "auto":
            wanted = spec.memories.filter
            memories = Memories(project).all()
            chosen = matching(memories, types=wanted.types, tags=wanted.tags, recent=wanted.recent)
            notes = notes._replace(memories=within_budget(chosen, spec.memories.budget))
    except YouBenchaError as error:
        problems.append(error.message)
    return notes._replace(problems=tuple(problems))


def _scratchpad(spec: LoopSpec, project: Path, hat: str | None, problems: list[str]) -> str:
    """The end of the scratchpad."""
    config = scratchpad_spec(spec, hat)
    if not config.enabled:
        return ""
    try:
        with open_nofollow(project, config.path) as file:
            end = file.seek(0, 2)
            file.seek(max(0, end - MAX_SCRATCHPAD * _BYTES_PER_CHARACTER))
            return file.read(MAX_SCRATCHPAD * _BYTES_PER_CHARACTER).decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        problems.append(f"{config.path} {error.strerror}")
        return ""
