"""What a judge is given to look at: a copy of the tree, and beside it the patch, the task and the expected tree."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from youbencha.evaluators.base import EvaluationContext
from youbencha.evaluators.judge.copying import copy_tree
from youbencha.evaluators.threads import StillWanted


@dataclass(frozen=True, kw_only=True)
class Materials:
    tree: Path
    """The judge's current directory."""
    patch: Path | None
    expected: Path | None
    task: Path | None
    renamed: tuple[str, ...]
    """Files of the tree that have another name in the copy."""

    def beside(self, history: Path) -> list[Path]:
        """What a judge needs to see besides the tree: `history` are the objects that the copy's git refers to."""
        given = [path for path in (self.patch, self.expected, self.task) if path is not None]
        return [*given, history] if history.is_dir() and not history.is_symlink() else given


def lay_out(context: EvaluationContext, directory: Path, still_wanted: StillWanted) -> Materials:
    """Everything below `directory`, which is empty, for one judge alone: no judge sees what another did."""
    beside = directory / "materials"
    beside.mkdir()
    renamed = copy_tree(context.directory, directory / "tree", still_wanted, context.left_out)
    return Materials(
        tree=directory / "tree",
        patch=_patch(context, beside / "changes.patch"),
        expected=_expected(context, beside / "expected", still_wanted),
        task=_task(context, beside / "task.md"),
        renamed=tuple(renamed),
    )


def task_of(context: EvaluationContext) -> str | None:
    """What the agent was asked to do: as it was written, else as the agent heard it."""
    written = context.agent.config.get("prompt") if context.agent else None
    if isinstance(written, str) and written.strip():
        return written
    messages = context.log.messages if context.log else ()
    return next((each.content for each in messages if each.role == "user" and each.parent is None), None)


def _task(context: EvaluationContext, path: Path) -> Path | None:
    task = task_of(context)
    if task is None:
        return None
    path.write_bytes(task.encode("utf-8", "replace"))
    return path


def _patch(context: EvaluationContext, path: Path) -> Path | None:
    if context.changes is None:
        return None
    shutil.copyfile(context.changes.patch_file, path)
    return path


def _expected(context: EvaluationContext, path: Path, still_wanted: StillWanted) -> Path | None:
    if context.expected_dir is None:
        return None
    copy_tree(context.expected_dir, path, still_wanted, context.left_out)
    return path
