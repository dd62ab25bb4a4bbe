"""The directory an agent works in: how it was at the start, and what changed since."""

from youbencha.workspace.changes import Changes, FileChange
from youbencha.workspace.snapshot import Snapshot

__all__ = ["Changes", "FileChange", "Snapshot"]
