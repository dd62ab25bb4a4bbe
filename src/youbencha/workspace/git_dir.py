"""Write git directories and read HEAD without git: `git init` costs a process, and copies the user's templates."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from youbencha.files import read_untrusted

RAW = "* -text !eol -ident !filter !working-tree-encoding !diff\n"
"""Over whatever `.gitattributes` says: bytes are written and recorded as they are, and no program touches them."""

_SHA256_LENGTH = 64

_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")

_SMALL = 4096

_PACKED = 16 * 1024 * 1024


class FileSystem(NamedTuple):
    """What a directory's file system can keep; git asks the same when it makes a repository."""

    executable_bit: bool
    links: bool
    telling_case: bool

    @property
    def exact(self) -> bool:
        """Whether files that are written come back as they were."""
        return self.executable_bit and self.links and self.telling_case


def probe(directory: Path) -> FileSystem:
    """Look at `directory`, which exists, may be written to, and holds the file HEAD."""
    head, link = directory / "HEAD", directory / "a-link"
    mode = head.stat().st_mode
    head.chmod(mode ^ 0o100)
    executable_bit = head.stat().st_mode == mode ^ 0o100
    head.chmod(mode)
    try:
        link.symlink_to("HEAD")
        links = link.is_symlink()
        link.unlink()
    except OSError:
        links = False
    return FileSystem(executable_bit, links, telling_case=not (directory / "heAD").exists())


def make_git_dir(path: Path, commit: str | None = None, *, attributes: str | None = RAW) -> None:
    """A bare one of our own. `commit` is any id of it: its length tells which hash names the objects."""
    _make(path, "ref: refs/heads/main\n")
    _write(path / "config", _config(commit, bare="true"))
    if attributes is not None:
        (path / "info").mkdir(exist_ok=True)
        _write(path / "info" / "attributes", attributes)


def make_agents_git_dir(path: Path, commit: str, branch: str) -> FileSystem:
    """Write a git directory with one branch at that commit, whose parents are missing: history begins there."""
    _make(path, f"ref: refs/heads/{branch}\n")
    (path / "refs" / "heads").mkdir()
    # Not a file of its own: a branch may have a name that no file of this system can have.
    _write(path / "packed-refs", f"# pack-refs with: peeled fully-peeled sorted \n{commit} refs/heads/{branch}\n")
    _write(path / "shallow", f"{commit}\n")
    keeps = probe(path)
    _write(path / "config", _config(commit, bare="false", **_settings_for(keeps)))
    return keeps


@contextmanager
def scratch_git_dir(near: Path, commit: str) -> Iterator[Path]:
    """Make one for a single question, on the same disk as `near`; it is removed afterwards."""
    from youbencha.workspace.trees import remove_tree

    path = near.with_name(f".{near.name}-{os.urandom(4).hex()}.git")
    make_git_dir(path, commit)
    try:
        yield path
    finally:
        remove_tree(path)


def _make(path: Path, head: str) -> None:
    path.mkdir(parents=True, exist_ok=True)
    for name in ("objects", "refs"):
        (path / name).mkdir(exist_ok=True)
    (path / "objects" / "pack").mkdir(exist_ok=True)
    _write(path / "HEAD", head)


def _config(commit: str | None, **core: str) -> str:
    sha256 = commit is not None and len(commit) == _SHA256_LENGTH
    lines = ["[core]", f"\trepositoryformatversion = {int(sha256)}"]
    lines += [f"\t{name} = {value}" for name, value in core.items()]
    lines += ["[extensions]", "\tobjectformat = sha256"] if sha256 else []
    return "\n".join(lines) + "\n"


def _settings_for(keeps: FileSystem) -> dict[str, str]:
    settings = {"filemode": str(keeps.executable_bit).lower(), "logallrefupdates": "true"}
    if not keeps.links:
        settings["symlinks"] = "false"
    if not keeps.telling_case:
        settings["ignorecase"] = "true"
    if sys.platform == "darwin":
        settings["precomposeunicode"] = "true"
    return settings


def _write(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8", "surrogateescape"))


def current_commit(tree: Path) -> str | None:
    """Return the commit that the agent's own HEAD names, or None if anything about it is odd.

    Read by hand: asking git there would mean to trust its configuration. Its files need not be the ones in the tree.
    """
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
    try:
        return read_untrusted(git_dir, name, limit).decode("utf-8", "replace")
    except OSError:
        return None
