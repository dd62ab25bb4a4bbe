"""The directory an agent works in: where it comes from, how it was at the start, and what changed since.

repository = await open_repository("https://host/some/repo", base=Path.cwd(), branch="main")
with RunDirectory.create(Path(".youbencha-workspace")) as run:
    await repository.check_out(run.modified)
    start = await repository.snapshot(run.modified, run.private / "start.git")
    ...  # what prepares the tree for the agent; if anything did: start = await start.retake()
    run.hand_over()
    ...  # the agent
    tampering = run.reclaim()
    changes = await start.changes(run.artifacts / "git-diff.patch")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from youbencha.files import write_atomically
from youbencha.later import imported_when_asked
from youbencha.workspace.changes import Changes, FileChange
from youbencha.workspace.layout import RunDirectory
from youbencha.workspace.repository import Repository, open_repository
from youbencha.workspace.snapshot import Snapshot
from youbencha.workspace.source import public_url

if TYPE_CHECKING:
    from youbencha.workspace.prune import Run, old_runs, remove_run
    from youbencha.workspace.users_tree import changes_in_repository

__all__ = [
    "Changes",
    "FileChange",
    "Repository",
    "Run",
    "RunDirectory",
    "Snapshot",
    "changes_in_repository",
    "old_runs",
    "open_repository",
    "public_url",
    "remove_run",
    "write_atomically",
]

_HOMES = {
    "Run": "prune",
    "changes_in_repository": "users_tree",
    "old_runs": "prune",
    "remove_run": "prune",
}
"""What a run does not need is imported when it is asked for."""

__getattr__ = imported_when_asked(__name__, _HOMES)
