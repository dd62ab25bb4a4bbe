"""What the agent's own HEAD names, read by hand: asking git there would mean to trust its configuration."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SMALL = 4096
_PACKED = 16 * 1024 * 1024


def current_commit(tree: Path) -> str | None:
    """The commit, or None if anything about it is odd. Its files need not be the ones in the tree."""
    git_dir = tree / ".git"
    if tree.is_symlink() or git_dir.is_symlink():
        return None
    name = _read(git_dir, "HEAD", _SMALL)
    if name is None or not name.startswith("ref: "):
        return _as_id(name)
    ref = name.removeprefix("ref: ").strip()
    if not is_ref_name(ref):
        return None
    return _as_id(_read(git_dir, ref, _SMALL)) if os.path.lexists(git_dir / ref) else _packed(git_dir, ref)


def is_ref_name(name: str) -> bool:
    """Whether git would take it for the name of a ref: so it leads nowhere else in a path."""
    parts = name.split("/")
    return (
        not re.search(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{", name)
        and not name.endswith(".")
        and name != "@"
        and all(part and not part.startswith(".") and not part.endswith(".lock") for part in parts)
    )


def _packed(git_dir: Path, ref: str) -> str | None:
    lines = (_read(git_dir, "packed-refs", _PACKED) or "").splitlines()
    return next((_as_id(line[: -len(ref)]) for line in lines if line.endswith(f" {ref}")), None)


def _as_id(text: str | None) -> str | None:
    return text.strip() if text is not None and _ID.fullmatch(text.strip()) else None


def _read(git_dir: Path, name: str, limit: int) -> str | None:
    """A regular file inside, by whatever way, and not too large. A pipe would be waited on for ever."""
    path = git_dir / name
    try:
        if not path.resolve().is_relative_to(git_dir.resolve()):
            return None
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except (OSError, RuntimeError):  # RuntimeError: links in a circle
        return None
    try:
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode) or about.st_size > limit:
            return None
        with os.fdopen(fd, "rb", closefd=False) as file:
            return file.read(limit).decode("utf-8", "replace")
    except OSError:
        return None
    finally:
        os.close(fd)
