"""The directory an agent works in: how it was at the start, and what changed since."""

from youbencha.workspace.snapshot import Snapshot

__all__ = ["Snapshot"]
