"""The directory an agent works in: check it out, take a snapshot at the start, and determine the changes.

repository = await open_repository("https://host/some/repo", base=Path.cwd(), branch="main")
with RunDirectory.create(Path(".youbencha-workspace")) as run:
    await repository.check_out(run.modified)
    start = await repository.snapshot(run.modified, run.private / "start.git")
    ...  # prepare the tree for the agent; if that changed anything: start = await start.retake()
    run.hand_over()
    ...  # the agent
    tampering = run.reclaim()
    changes = await start.changes(run.artifacts / "git-diff.patch")
"""

from __future__ import annotations

from youbencha.workspace.changes import Changes, FileChange
from youbencha.workspace.recording import Snapshot
from youbencha.workspace.repository import Repository, open_repository
from youbencha.workspace.run_dir import RunDirectory
from youbencha.workspace.source import public_url

__all__ = ["Changes", "FileChange", "Repository", "RunDirectory", "Snapshot", "open_repository", "public_url"]
