"""Write the tree of an agent's work that is validated."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.evaluators.base import CheckCancelled, EvaluationContext, in_thread
from youbencha.evaluators.validation.config import ValidationConfig
from youbencha.evaluators.validation.task import ValidationTask
from youbencha.files import open_untrusted
from youbencha.workspace import FileChange
from youbencha.workspace.revisions import write_recorded
from youbencha.workspace.trees import FileCopies, copy_tree


async def write_work(context: EvaluationContext, task: ValidationTask, tree: Path) -> tuple[FileChange, ...]:
    """Write the agent's work as the mode says, and return what differs from the start. `tree` must not exist.

    It is the tree that was recorded, whatever names are in it. If only a patch is known, because the trial ended
    earlier, it is applied to the task's commit.
    """
    changes, config = context.changes, task.config
    if changes is None:
        raise YouBenchaError("VALIDATION_WITHOUT_CHANGES", "It is not known what the agent changed.")
    if config.mode == "shared" or (config.mode == "separate" and config.copy_ignored):
        await in_thread(lambda check: copy_tree(context.directory, tree, check, unreadable_ok=True))
        return changes.files
    if changes.recorded is None:
        return await task.repository.write_patched(changes.patch_file, tree)
    await write_recorded(changes.recorded, tree)
    apart = frozenset(changes.left_out_of_patch)
    if config.mode == "diff":
        return tuple(change for change in changes.files if change.path not in apart)
    await in_thread(lambda check: _add(context.directory, tree, apart, check))
    return changes.files


def left_out(context: EvaluationContext, config: ValidationConfig) -> tuple[str, ...]:
    """The files that the agent changed and that are not validated, because they are too large for git."""
    return context.changes.left_out_of_patch if context.changes and config.mode == "diff" else ()


def _add(workspace: Path, tree: Path, paths: Iterable[str], check_cancelled: CheckCancelled) -> None:
    """Copy files that are too large for git. What is no longer there, or nested too deeply, is left out."""
    copies = FileCopies(tree, check_cancelled)
    for path in paths:
        try:
            file = open_untrusted(workspace, path)
        except OSError:
            continue
        target = tree / path
        with file:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            copies.copy(file, str(target))
            target.chmod(os.fstat(file.fileno()).st_mode & 0o777)
