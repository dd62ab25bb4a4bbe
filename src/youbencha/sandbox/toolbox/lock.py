"""One installer at a time."""

from youbencha.workspace.lock import LockFile, lock_file

__all__ = ["LockFile", "lock_file"]
