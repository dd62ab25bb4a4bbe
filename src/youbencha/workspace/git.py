"""Run git, and write git directories of our own.

`git` runs plumbing commands, and runs nothing that a repository contains. No configuration of the user or the system is
read; hooks, monitors, filters and transports are off. Plumbing starts no other program, so it does not need the guarded
process layer: a call costs 2 ms instead of 5. `ReadOnlyGit` reads a folder in the user's own repository.

Git directories are written without git: `git init` starts a process, and copies the user's templates.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Self

from youbencha.errors import YouBenchaError
from youbencha.files import read_nofollow, replace_atomically
from youbencha.process import Command, Limits, find_executable, run
from youbencha.process.environment import PROGRAM, TEMPORARY, select
from youbencha.text import shorten_words
from youbencha.workspace.trees import remove_tree

_DEADLINE_S = 600.0

ALWAYS: Mapping[str, str] = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "gc.auto": "0",
    "maintenance.auto": "false",
    "submodule.recurse": "false",
}
"""For every call of git, local or remote."""

_PLUMBING: Mapping[str, str] = {
    **ALWAYS,
    "core.attributesFile": os.devnull,
    "core.autocrlf": "false",
    "core.excludesFile": os.devnull,
    "core.fsync": "none",  # after a power failure, a run is repeated anyway
    "core.quotePath": "false",
    "core.safecrlf": "false",
    "index.version": "2",
}

ANY_NAME: Mapping[str, str] = {"core.protectHFS": "false", "core.protectNTFS": "false"}
"""Allows names that are dangerous only on other systems: for recording files, and for writing what was recorded."""

_ENVIRONMENT: Mapping[str, str] = {
    "LC_ALL": "C",
    "GIT_ALLOW_PROTOCOL": "",  # plumbing needs no transport, not even that of a promisor
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
}

_INHERITED = PROGRAM | TEMPORARY
_ASK_S = 60.0

_NO_PROGRAMS: Mapping[str, str] = {**ALWAYS, "core.quotePath": "false", "diff.external": ""}

_FILTERS = r"^filter\..*\.(clean|smudge|process)$"

RAW = "* -text !eol -ident !filter !working-tree-encoding !diff\n"
"""Overrides `.gitattributes`: bytes are written and recorded unchanged, and no program is run on them."""

_SHA256_LENGTH = 64
_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_MAX_REF_BYTES, _MAX_CONFIG_BYTES = 4096, 1 << 20
_MAX_PACKED_BYTES = 16 * 1024 * 1024


class GitFailed(YouBenchaError):
    """git failed; `reason` is what it printed, `status` its exit status (None if it has none)."""

    def __init__(self, what: str, reason: str, status: int | None = None) -> None:
        super().__init__("GIT_FAILED", f"git {what} failed: {reason}", context={"reason": reason})
        self.reason = reason
        self.status = status


def git_program() -> str:
    return _find_git(os.environ.get("PATH", os.defpath))


@lru_cache(maxsize=4)
def _find_git(path: str) -> str:
    program = find_executable("git", {**os.environ, "PATH": path})
    if program is None:
        raise YouBenchaError("GIT_NOT_FOUND", "git is not on PATH.", hint="Install git, then try again.")
    return str(program)


async def git(
    git_dir: Path,
    *arguments: str,
    tree: Path | None = None,
    index: Path | None = None,
    objects: Path | None = None,
    stdin: bytes | None = None,
    settings: Mapping[str, str] | None = None,
) -> bytes:
    """Run a plumbing command and return its output. Raises `GitFailed`.

    `objects` is an additional object store to read from; `settings` are added to the defaults.
    """
    env = {**select(os.environ, _INHERITED), **_ENVIRONMENT, "HOME": str(git_dir)}
    if index is not None:
        env["GIT_INDEX_FILE"] = str(index)
    if objects is not None:
        env["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = _quoted(objects)
    where = [f"--git-dir={git_dir}", *([f"--work-tree={tree}"] if tree else [])]
    argv = [git_program(), "--no-pager", *where, *as_options(_PLUMBING), *as_options(settings or {}), *arguments]
    status, output, errors = await _run(argv, tree or git_dir, env, stdin)
    if status != 0:
        reason = shorten_words(errors.decode(errors="replace").strip())
        raise GitFailed(arguments[0], reason or f"it exited with status {status}", status)
    return output


@dataclass(frozen=True)
class GitDir:
    """A git directory of our own, and what every command in it needs."""

    path: Path
    objects: Path | None = None
    """An additional object store to read from."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Added to the defaults."""

    async def git(
        self,
        *arguments: str,
        tree: Path | None = None,
        index: Path | None = None,
        stdin: bytes | None = None,
    ) -> bytes:
        return await git(
            self.path, *arguments,
            tree=tree, index=index, objects=self.objects, stdin=stdin, settings=self.settings,
        )  # fmt: skip

    def new_file(self, kind: str) -> Path:
        """Return a new name for a temporary file: a killed git leaves its lock next to the file."""
        return self.path / f"{kind}-{os.urandom(4).hex()}"


async def users_settings(git_dir: Path, pattern: str) -> dict[str, str]:
    """Return the settings of the user's own configuration whose names match."""
    kept = ("GIT_CONFIG", "GIT_EXEC_PATH")
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name.startswith(kept)}
    argv = [git_program(), f"--git-dir={git_dir}", "config", "--null", "--get-regexp", pattern]
    _, output, _ = await _run(argv, git_dir, env, None)
    entries = (entry.partition("\n") for entry in output.decode(errors="replace").split("\0") if entry)
    return {name: value or "true" for name, _, value in entries}


def as_options(settings: Mapping[str, str]) -> list[str]:
    return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]


def _quoted(path: Path) -> str:
    """Quote a path: it may contain the character that separates paths."""
    escaped = path.as_posix().replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


async def _run(argv: list[str], cwd: Path, env: Mapping[str, str], stdin: bytes | None) -> tuple[int, bytes, bytes]:
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=cwd,
            env=dict(env),
            stdin=asyncio.subprocess.DEVNULL if stdin is None else pipe,
            stdout=pipe,
            stderr=pipe,
            start_new_session=True,
        )
    except OSError as error:
        raise GitFailed("", f"it cannot be started: {error.strerror or error}") from error
    try:
        async with asyncio.timeout(_DEADLINE_S):
            output, errors = await process.communicate(stdin)
    except TimeoutError:
        raise GitFailed("", f"it took more than {_DEADLINE_S:.0f} s") from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.communicate()
    assert process.returncode is not None
    return process.returncode, output, errors


class ReadOnlyGit:
    """Reads a folder in which an agent may have worked, without running programs that its configuration names."""

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        self._directory = directory
        self._settings = settings

    @classmethod
    async def open(cls, directory: Path) -> Self:
        git = cls(directory, _NO_PROGRAMS)
        filters = await git.ask("config", "--name-only", "--get-regexp", _FILTERS) or ""
        return cls(directory, {**_NO_PROGRAMS, **dict.fromkeys(filters.splitlines(), "")})

    async def ask(self, *arguments: str, max_bytes: int | None = None) -> str | None:
        """Return what git prints, up to `max_bytes`; None if it fails."""
        env = select(os.environ, _INHERITED | {"HOME"})
        env |= {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
        lines: list[bytes] = []
        remaining = max_bytes

        def on_line(line: bytes) -> None:
            nonlocal remaining
            if remaining is not None:
                line, remaining = line[: max(remaining, 0)], remaining - len(line) - 1
            if line or remaining is None or remaining > 0:
                lines.append(line)

        argv = (git_program(), *as_options(self._settings), *arguments)
        done = await run(
            Command(argv=argv, cwd=self._directory, env=env), limits=Limits(timeout_s=_ASK_S), on_line=on_line
        )
        return os.fsdecode(b"\n".join(lines)) if done.exit.code == 0 else None


# Git directories, written without git: `git init` starts a process, and copies the user's templates


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
    config = _read(git_dir, "config", _MAX_CONFIG_BYTES) or ""
    is_sha256 = re.search(r"^\s*objectformat\s*=\s*sha256\s*$", config, re.IGNORECASE | re.MULTILINE)
    core = {"bare": str(bare).lower(), "filemode": "true", "logallrefupdates": "true"}
    text = _config("0" * _SHA256_LENGTH if is_sha256 else None, **core)
    replace_atomically(git_dir / "config", text.encode())


@contextmanager
def scratch_git_dir(
    near: Path, commit: str, objects: Path | None = None, settings: Mapping[str, str] = MappingProxyType({})
) -> Iterator[GitDir]:
    """Make a temporary git directory on the same disk as `near`."""
    path = near.with_name(f".{near.name}-{os.urandom(4).hex()}.git")
    make_git_dir(path, commit)
    try:
        yield GitDir(path, objects, settings)
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
    """Return the configuration of a git directory without a tree. `commit` is any id, as in `make_git_dir`."""
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
    name = _read(git_dir, "HEAD", _MAX_REF_BYTES)
    if name is None or not name.startswith("ref: "):
        return _as_id(name)
    ref = name.removeprefix("ref: ").strip()
    if not is_ref_name(ref):
        return None
    return _as_id(_read(git_dir, ref, _MAX_REF_BYTES)) if os.path.lexists(git_dir / ref) else _packed(git_dir, ref)


def is_ref_name(name: str) -> bool:
    """Return whether it is a valid name of a ref, which is also safe as a path."""
    parts = name.split("/")
    return (
        not re.search(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{", name)
        and not name.endswith(".")
        and name != "@"
        and all(part and not part.startswith(".") and not part.endswith(".lock") for part in parts)
    )


def _packed(git_dir: Path, ref: str) -> str | None:
    lines = (_read(git_dir, "packed-refs", _MAX_PACKED_BYTES) or "").splitlines()
    return next((_as_id(line[: -len(ref)]) for line in lines if line.endswith(f" {ref}")), None)


def _as_id(text: str | None) -> str | None:
    return text.strip() if text is not None and _ID.fullmatch(text.strip()) else None


def _read(git_dir: Path, name: str, limit: int) -> str | None:
    try:
        return read_nofollow(git_dir, name, limit).decode("utf-8", "replace")
    except OSError:
        return None
