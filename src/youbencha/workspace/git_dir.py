"""Write git directories and read HEAD without git: `git init` starts a process, and copies the user's templates."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from youbencha.files import read_nofollow, replace_atomically

RAW = "* -text !eol -ident !filter !working-tree-encoding !diff\n"
"""Overrides `.gitattributes`: bytes are written and recorded unchanged, and no program is run on them."""

_SHA256_LENGTH = 64
_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SMALL = 4096
_PACKED = 16 * 1024 * 1024


class FileSystem(NamedTuple):
    """What a directory's file system supports; `git init` checks the same."""

    executable_bit: bool
    links: bool
    case_sensitive: bool

    @property
    def exact(self) -> bool:
        """Whether files are stored unchanged."""
        return self.executable_bit and self.links and self.case_sensitive


def probe(directory: Path) -> FileSystem:
    """Check the file system of `directory`, which must be writable and contain the file HEAD."""
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
    return FileSystem(executable_bit, links, case_sensitive=not (directory / "heAD").exists())


def make_git_dir(path: Path, commit: str | None = None, *, attributes: str | None = RAW) -> None:
    """Make a bare git directory. `commit` is any id: its length shows which hash the repository uses."""
    _make(path, "ref: refs/heads/main\n")
    _write(path / "config", bare_config(commit))
    if attributes is not None:
        (path / "info").mkdir(exist_ok=True)
        _write(path / "info" / "attributes", attributes)


def make_agents_git_dir(path: Path, commit: str, branch: str) -> FileSystem:
    """Make a git directory with one branch at that commit, without the commit's parents."""
    _make(path, f"ref: refs/heads/{branch}\n")
    (path / "refs" / "heads").mkdir()
    # Not a separate file: a branch may have a name that a file on this system cannot have.
    _write(path / "packed-refs", f"# pack-refs with: peeled fully-peeled sorted \n{commit} refs/heads/{branch}\n")
    _write(path / "shallow", f"{commit}\n")
    file_system = probe(path)
    _write(path / "config", _config(commit, bare="false", **_settings_for(file_system)))
    return file_system


def reset_config(git_dir: Path, *, bare: bool = False) -> None:
    """Replace the configuration of a git directory that an agent may have written: it could name programs to run."""
    is_sha256 = re.search(r"^\s*objectformat\s*=\s*sha256\s*$", _read(git_dir, "config", _PACKED) or "", re.I | re.M)
    core = {"bare": str(bare).lower(), "filemode": "true", "logallrefupdates": "true"}
    text = _config("0" * _SHA256_LENGTH if is_sha256 else None, **core)
    replace_atomically(git_dir / "config", text.encode())


@contextmanager
def scratch_git_dir(near: Path, commit: str) -> Iterator[Path]:
    """Make a temporary git directory on the same disk as `near`."""
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


def bare_config(commit: str | None) -> str:
    """The configuration of a git directory without a tree. `commit` is any id, as in `make_git_dir`."""
    return _config(commit, bare="true")


def _settings_for(file_system: FileSystem) -> dict[str, str]:
    settings = {"filemode": str(file_system.executable_bit).lower(), "logallrefupdates": "true"}
    if not file_system.links:
        settings["symlinks"] = "false"
    if not file_system.case_sensitive:
        settings["ignorecase"] = "true"
    if sys.platform == "darwin":
        settings["precomposeunicode"] = "true"
    return settings


def _write(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8", "surrogateescape"))


def current_commit(tree: Path) -> str | None:
    """Return the commit that the agent's own HEAD names, or None if it is invalid.

    Read without git, which would trust the configuration there. The files in the tree may differ from the commit.
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
    """Whether it is a valid name of a ref, which is also safe as a path."""
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
        return read_nofollow(git_dir, name, limit).decode("utf-8", "replace")
    except OSError:
        return None
