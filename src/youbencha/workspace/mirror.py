"""Where commits come from: a local repository, which is read in place, or the mirror of a remote one in the cache.

git contacts a remote with the user's own credentials, and never asks for a password.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.events import StepProgress
from youbencha.files import read_file, read_nofollow
from youbencha.locks import lock_file
from youbencha.process import Command, Limits, ProcessResult, Redactor, run
from youbencha.user_dirs import cache_not_writable
from youbencha.workspace.git import ALWAYS, GitFailed, as_options, bare_config, git, git_program, make_git_dir
from youbencha.workspace.source import LOCAL_FORMAT, LOCAL_PREFIXES, Refs, RemoteUrl, from_listing, from_local
from youbencha.workspace.trees import remove_tree

_POINTER = "gitdir:"
_MAX_POINTER_BYTES = 8192
_REFSPECS = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
_FETCH = ("fetch", "--quiet", "--no-tags", "--prune", "--no-write-fetch-head", "--no-recurse-submodules")
_LIST = ("ls-remote", "--symref")
_LISTED = ("HEAD", "refs/heads/*", "refs/tags/*")
_PARTIAL = ".partial-"

_Identity = tuple[int, int]
"""Distinguishes a mirror from another with the same path."""

_UNDER_WAY = ".fetching"
"""Exists during a fetch. If it exists when the lock is taken, a fetch was killed."""

_LENGTHS = (40, 64)
_AT_LEAST = 4

_LOOK_S = 120.0
_FETCH_S = 3600.0
_MAX_LISTING_BYTES = 256 * 1024 * 1024
"""The longest listing of a remote's branches and tags that is read. Each takes about 70 bytes."""

_KEPT_OF_GIT = ("GIT_SSH", "GIT_SSL_", "GIT_HTTP_", "GIT_PROXY_", "GIT_ASKPASS", "GIT_CONFIG", "GIT_EXEC_PATH")
"""Prefixes of git's variables about how to reach a remote; the others refer to a repository."""

_NETWORK_SETTINGS: Mapping[str, str] = {
    **ALWAYS,
    "fetch.recurseSubmodules": "false",
    "fetch.writeCommitGraph": "false",
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "60",  # abort a connection that hangs
}

_NETWORK_ENVIRONMENT: Mapping[str, str] = {
    "LC_ALL": "C",  # git's messages are parsed below
    "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",  # `file`: the user may have mapped an address to a local path
    "GIT_TERMINAL_PROMPT": "0",
    "GCM_INTERACTIVE": "never",
}

_SSH = "ssh -oBatchMode=yes"

_LOCAL_FAILURE = re.compile(
    r"bad object|corrupt|missing object|not a git repository: '|did not send all necessary objects"
    r"|unable to create|unable to write|cannot lock ref|No space left|packed-refs"
)


class LocalStore:
    """A local repository, which is read in place, without a copy or a transport.

    Uncommitted changes are left out. Nothing is written to it, and its configuration is not used."""

    def __init__(self, path: Path) -> None:
        self.public_url = str(path)
        try:
            self.git_dir = find_git_dir(path) or _not_found(path)
            self.objects = common_dir(self.git_dir) / "objects"
            """For git to read from."""
        except OSError as error:
            reason = f"{path} cannot be read: {error.strerror or error}"
            raise YouBenchaError("REPO_NOT_FOUND", reason, hint="Check the path and its permissions.") from error
        self.known_refs: Refs | None = None

    async def refs(self) -> Refs:
        """Return the branches and tags. They are read once, so that a run sees one state of the repository."""
        if self.known_refs is None:
            output = await git(self.git_dir, "for-each-ref", f"--format={LOCAL_FORMAT}", *LOCAL_PREFIXES)
            refs = from_local(output)
            self.known_refs = refs if refs.head else refs._replace(head=await commit_at(self.git_dir, "HEAD"))
        return self.known_refs

    async def fetch_commit(self, written: str) -> str:
        """Return the full id of a commit, given in full or as a prefix, or as the id of a tag."""
        if self.known_refs is not None and written in self.known_refs.commits:
            return written
        commit = await commit_beginning(self.git_dir, written, self.public_url)
        if commit is None:
            raise unknown_commit(written, self.public_url)
        return commit

    async def refetch(self) -> bool:
        """Fetch everything again, because something is damaged. Return False: that is not possible."""
        return False


def find_git_dir(path: Path) -> Path | None:
    """Find the git directory of a working tree or of a bare repository, whose `.git` may be left out."""
    candidates = (path, path.parent / f"{path.name}.git")
    return git_dir_of_tree(path) or next((path for path in candidates if _is_git_dir(path)), None)


def git_dir_of_tree(path: Path) -> Path | None:
    """Return the git directory of a working tree, which may be a linked one."""
    candidate = path / ".git"
    text = _pointer(candidate)
    if text.startswith(_POINTER):
        candidate = path / text.removeprefix(_POINTER).strip()
    return candidate if _is_git_dir(candidate) else None


def _is_git_dir(path: Path) -> bool:
    return (path / "HEAD").is_file() and (common_dir(path) / "objects").is_dir()


def common_dir(git_dir: Path) -> Path:
    """Return the git directory with the objects, which linked working trees share."""
    return git_dir / _pointer(git_dir / "commondir").rstrip("\n")


def _pointer(file: Path) -> str:
    """Return the content of a small file; empty if there is none."""
    try:
        return read_file(file, _MAX_POINTER_BYTES).decode("utf-8", "surrogateescape")
    except OSError:
        return ""


def _not_found(path: Path) -> Path:
    if not path.exists():
        reason, hint = (
            f"There is no directory {path}.",
            "Check the path. A relative one starts at the file that names it.",
        )
    elif not path.is_dir():
        reason, hint = f"{path} is a file, not a git repository.", "Name the directory of the repository."
    else:
        reason, hint = f"{path} is not a git repository.", "Make it one: `git init`, `git add .`, `git commit`."
        if above := next((parent for parent in path.parents if git_dir_of_tree(parent)), None):
            hint = f"{above} is one: use that."
    raise YouBenchaError("REPO_NOT_FOUND", reason, hint=hint)


class Mirror:
    """A copy of a remote repository in the cache: a second run needs next to nothing from the network.

    `<cache>/mirrors/<name>-<hash of the address>/mirror.git` has all branches and tags that were ever fetched; nothing
    is removed from it. It is created atomically, and one process at a time writes to it; reading needs no lock. The
    address is not written into it, because it may contain a password."""

    def __init__(self, remote: RemoteUrl, cache_dir: Path, progress: StepProgress) -> None:
        self.public_url = remote.public_url
        self._remote = remote
        self._home = cache_dir.absolute() / "mirrors" / _directory_name(remote)
        self.git_dir = self._home / "mirror.git"
        self._progress = progress
        self.known_refs: Refs | None = None
        self._known: _Identity | None = None
        """The mirror that was read."""

    @property
    def objects(self) -> Path:
        return self.git_dir / "objects"

    async def refs(self) -> Refs:
        """Return the branches and tags. They are read once, so that a run sees one state of the repository."""
        if self.known_refs is None:
            self._make_home()
            self.known_refs = from_listing(await ask_remote(self._remote, None, *_LIST, after=_LISTED))
        return self.known_refs

    async def fetch_commit(self, written: str) -> str:
        """Return the full id of a commit, as `LocalStore.fetch_commit`, and make sure that the mirror has it."""
        commit = await self._stored_commit(written)
        if commit is None:
            await self.refs()
            await self._update(written)
            commit = await self._stored_commit(written)
        if commit is None:
            raise unknown_commit(written, self.public_url)
        self._known = _identity(self.git_dir)
        return commit

    async def refetch(self) -> bool:
        """Fetch again, unless another process has done so since the mirror was read."""
        async with self._locked():
            if _identity(self.git_dir) == self._known:
                self._progress(f"the mirror of {self.public_url} is damaged: fetching it again")
                await self.refs()
                await self._build()
            self._known = _identity(self.git_dir)
        return True

    async def _stored_commit(self, written: str) -> str | None:
        if not self.git_dir.exists():
            return None
        try:
            return await commit_beginning(self.git_dir, written, self.public_url)
        except GitFailed:  # damaged
            return None

    async def _update(self, wanted: str) -> None:
        async with self._locked():
            if await self._stored_commit(wanted):  # another process fetched it during the wait
                return
            if not self._usable() or not await self._fetched():
                await self._build()
            elif wanted in (await self.refs()).ids.values() and not await has_object(self.git_dir, wanted):
                await self._build()  # git reports that it exists, but it does not
            if is_full_id(wanted) and not await has_object(self.git_dir, wanted):
                # On no branch; most servers still provide it by its full id.
                await self._fetch(self.git_dir, f"+{wanted}:refs/youbencha/{wanted}", prune=False)

    async def _fetched(self) -> bool:
        """Fetch into the mirror. Return False if it is damaged."""
        try:
            await self._fetch(self.git_dir, *_REFSPECS)
        except GitFailed:
            return False
        return True

    def _usable(self) -> bool:
        """Return whether there is a mirror with the repository's kind of hash, and with the configuration we wrote.

        With another configuration, fetching could run programs that it names.
        """
        try:
            config = read_nofollow(self.git_dir, "config", _MAX_POINTER_BYTES).decode("utf-8", "replace")
        except OSError:
            return False
        return config == bare_config("0" * self._object_id_length())

    def _object_id_length(self) -> int:
        return next((len(value) for value in (self.known_refs.ids.values() if self.known_refs else ())), 40)

    async def _build(self) -> None:
        """Fetch into a new directory, then rename it to replace the old one."""
        partial = self._home / f"{_PARTIAL}{os.urandom(4).hex()}"
        try:
            make_git_dir(partial, "0" * self._object_id_length(), attributes=None)
            self._progress(f"fetching {self.public_url} into the cache")
            await self._fetch(partial, *_REFSPECS)
            if self.git_dir.exists():
                self.git_dir.rename(self._home / f"{_PARTIAL}{os.urandom(4).hex()}")
            partial.rename(self.git_dir)
        except GitFailed as failed:
            raise _not_writable(self._home, failed.reason) from failed
        finally:
            self._clear()

    async def _fetch(self, git_dir: Path, *refspecs: str, prune: bool = True) -> None:
        how = _FETCH if prune else tuple(option for option in _FETCH if option != "--prune")
        mark = git_dir / _UNDER_WAY
        mark.touch()
        await ask_remote(self._remote, git_dir, *how, timeout_s=_FETCH_S, after=refspecs)
        mark.unlink()

    def _clear(self) -> None:
        """Remove what killed processes left. The caller must hold the lock."""
        for path in self._home.glob(f"{_PARTIAL}*"):
            remove_tree(path)
        if (self.git_dir / _UNDER_WAY).exists():
            for pattern in ("*.lock", "refs/**/*.lock", "objects/pack/tmp_*"):
                for path in self.git_dir.glob(pattern):
                    path.unlink(missing_ok=True)
            (self.git_dir / _UNDER_WAY).unlink(missing_ok=True)

    @asynccontextmanager
    async def _locked(self) -> AsyncIterator[None]:
        self._make_home()
        try:
            with lock_file(self._home / ".lock") as lock:
                await lock.wait(f"fetch of {self.public_url}", self._progress)
                self._clear()
                yield
        except OSError as error:
            raise _not_writable(self._home, error.strerror or str(error)) from error

    def _make_home(self) -> None:
        try:
            self._home.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _not_writable(self._home, error.strerror or str(error)) from error


Store = LocalStore | Mirror


def _not_writable(home: Path, reason: str) -> YouBenchaError:
    return cache_not_writable("a mirror of the repository", home, reason)


def _directory_name(remote: RemoteUrl) -> str:
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", remote.key.rpartition("/")[2])[-40:].strip("-.") or "repository"
    return f"{readable}-{hashlib.sha256(remote.key.encode()).hexdigest()[:16]}"


def _identity(git_dir: Path) -> _Identity | None:
    try:
        info = (git_dir / "config").stat()
    except OSError:
        return None
    return info.st_ino, info.st_mtime_ns


def is_full_id(text: str) -> bool:
    return len(text) in _LENGTHS and all(character in "0123456789abcdefABCDEF" for character in text)


async def commit_at(git_dir: Path, object_id: str) -> str | None:
    """Return the commit of a full id, which may be that of a tag. None if it does not exist."""
    try:
        output = await git(git_dir, "rev-parse", "--quiet", "--verify", f"{object_id}^{{commit}}")
    except GitFailed:
        return None
    return output.decode().strip()


async def has_object(git_dir: Path, object_id: str) -> bool:
    try:
        await git(git_dir, "cat-file", "-e", object_id)
    except GitFailed:
        return False
    return True


async def commit_beginning(git_dir: Path, prefix: str, where: str) -> str | None:
    """Return the one commit whose id begins with `prefix`, never a branch of that name; None if there is none."""
    if is_full_id(prefix):
        return await commit_at(git_dir, prefix.lower())
    if len(prefix) < _AT_LEAST:
        raise unknown_commit(prefix, where)
    candidates = await git(git_dir, "rev-parse", f"--disambiguate={prefix.lower()}")
    if not candidates:
        return None
    output = await git(git_dir, "cat-file", "--batch-check=%(objecttype) %(objectname)", stdin=candidates)
    commits = [line.split()[1] for line in output.decode().splitlines() if line.startswith("commit ")]
    if len(commits) > 1:
        raise YouBenchaError(
            "REPO_COMMIT_UNKNOWN",
            f"{len(commits)} commits of the repository {where} begin with {prefix}.",
            hint=f"Write more characters of it: {', '.join(commits[:3])}.",
        )
    return commits[0] if commits else None


def unknown_commit(written: str, where: str) -> YouBenchaError:
    return YouBenchaError(
        "REPO_COMMIT_UNKNOWN",
        f"The repository {where} has no commit {written}.",
        hint="Check the id; a commit outside of all branches needs its full id.",
    )


# Contacting a remote


class _RemoteFailure(NamedTuple):
    pattern: str
    code: str
    message: str
    hint: str


_FAILURES = (
    _RemoteFailure(
        r"host key verification failed|authentication failed|permission denied|could not read (username|password)"
        r"|terminal prompts disabled|error: (401|403)|access denied|invalid credentials",
        "REPO_ACCESS_DENIED",
        "The repository {url} cannot be read with your credentials.",
        "Try `git ls-remote {url}`: it must work without asking you anything (set up a key, helper or known host).",
    ),
    _RemoteFailure(
        r"repository .*not found|does not appear to be a git repository|not found: did you run|error: 404"
        r"|project you were looking for could not be found",
        "REPO_NOT_FOUND",
        "There is no repository at {url}, or you have no access to it.",
        "Check the address, and that your credentials reach it.",
    ),
    _RemoteFailure(
        r"not our ref|unadvertised object|couldn't find remote ref",
        "REPO_COMMIT_UNKNOWN",
        "The repository {url} does not provide that commit.",
        "Check the commit's id, or name a branch that contains it.",
    ),
)
"""Known messages of git; any other means that the remote cannot be reached."""


async def ask_remote(
    remote: RemoteUrl, git_dir: Path | None, *arguments: str, timeout_s: float = _LOOK_S, after: tuple[str, ...] = ()
) -> str:
    """Run `git <arguments> <url> <after>`. Credentials are in the environment, because command lines are visible.

    git runs the programs that the configuration in `git_dir` names, so this must be our own. None: none is needed.
    """
    where = f"--git-dir={git_dir or os.devnull}"
    argv = (git_program(), "--no-pager", where, *as_options(_NETWORK_SETTINGS), *arguments)
    env = await _network_environment(remote)
    result = await run(
        Command(argv=(*argv, remote.public_url, *after), cwd=git_dir or Path(os.sep), env=env),
        limits=Limits(timeout_s=timeout_s, output_bytes=_MAX_LISTING_BYTES),
        redactor=Redactor(remote.secrets),
    )
    if result.exit.code != 0:
        raise _remote_error(remote, result, timeout_s)
    if result.truncated:
        raise YouBenchaError(
            "REPO_TOO_LARGE",
            f"The repository {remote.public_url} has too many branches and tags to list.",
            hint="Clone it with only the branches you need, and name the clone's directory.",
        )
    return result.printed


async def _network_environment(remote: RemoteUrl) -> dict[str, str]:
    inherited = (name for name in os.environ if not name.startswith("GIT_") or name.startswith(_KEPT_OF_GIT))
    env = {**{name: os.environ[name] for name in inherited}, **_NETWORK_ENVIRONMENT}
    if remote.url != remote.public_url:
        written = env.get("GIT_CONFIG_COUNT", "")
        count = int(written) if written.isdecimal() else 0
        env[f"GIT_CONFIG_KEY_{count}"] = f"url.{remote.url}.insteadOf"
        env[f"GIT_CONFIG_VALUE_{count}"] = remote.public_url
        env["GIT_CONFIG_COUNT"] = str(count + 1)
    over_http = remote.url.startswith(("http://", "https://"))
    if not over_http and not {"GIT_SSH", "GIT_SSH_COMMAND"} & env.keys() and not await _has_own_ssh(env):
        env["GIT_SSH_COMMAND"] = _SSH
    return env


async def _has_own_ssh(env: Mapping[str, str]) -> bool:
    """Return whether the user's configuration names a command for ssh, which the variable would override."""
    argv = (git_program(), "config", "--global", "--get", "core.sshCommand")
    return (await run(Command(argv=argv, cwd=Path.home(), env=env), limits=Limits(timeout_s=_LOOK_S))).exit.code == 0


def _remote_error(remote: RemoteUrl, result: ProcessResult, timeout_s: float) -> YouBenchaError:
    url = remote.public_url
    output = result.output.strip()
    if _is_local_failure(output):
        return GitFailed("fetch", output)
    for failure in () if result.timed_out else _FAILURES:
        if re.search(failure.pattern, result.printed, re.IGNORECASE):
            message, hint = failure.message.format(url=url), failure.hint.format(url=url)
            return YouBenchaError(failure.code, message, hint=hint, context={"reason": output})
    lines = [line for line in output.splitlines() if line.startswith(("fatal: ", "ssh: ", "error: "))]
    reason = (lines or output.splitlines() or ["git gave no reason"])[0].partition(": ")[2] or output
    if result.timed_out:
        reason = f"no answer within {timeout_s:.0f} s"
    return YouBenchaError(
        "REPO_UNREACHABLE",
        f"The repository {url} cannot be reached: {reason}",
        hint="Check the address, the network and the proxy. A full `commit` that was used before needs no network.",
        context={"reason": output},
    )


def _is_local_failure(output: str) -> bool:
    """Return whether the mirror is damaged, or the disk is full. The remote's messages begin with `remote:`."""
    return any(_LOCAL_FAILURE.search(line) for line in output.splitlines() if not line.startswith("remote:"))
