"""Run git.

`git` runs plumbing commands, and runs nothing that a repository contains. No configuration of the user or the system is
read; hooks, monitors, filters and transports are off. Plumbing starts no other program, so it does not need the guarded
process layer: a call costs 2 ms instead of 5.

`ReadOnlyGit` reads a folder in the user's own repository, `ask_remote` contacts a remote with the user's own
credentials. Neither asks for a password.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Self

from youbencha.errors import YouBenchaError
from youbencha.process import Command, Limits, ProcessResult, Redactor, find_executable, run
from youbencha.process.environment import PROGRAM, TEMPORARY, select
from youbencha.text import without_long_words
from youbencha.workspace.source import RemoteUrl

_DEADLINE_S = 600.0
_ON_WINDOWS = sys.platform == "win32"

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

ONLY_RECORDED: Mapping[str, str] = {"core.protectHFS": "false", "core.protectNTFS": "false"}
"""Allows names that are dangerous to check out, if they are only recorded."""

AS_RECORDED: Mapping[str, str] = {} if _ON_WINDOWS else ONLY_RECORDED
"""For checking out what was recorded. Where a backslash separates directories, git's protection stays on."""

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

_INHERITED = PROGRAM | TEMPORARY if _ON_WINDOWS else {"PATH"}
_ASK_S = 60.0

_NO_PROGRAMS: Mapping[str, str] = {**ALWAYS, "core.quotePath": "false", "diff.external": ""}

_FILTERS = r"^filter\..*\.(clean|smudge|process)$"
LOOK_S = 120.0
FETCH_S = 3600.0
_MAX_LISTING_BYTES = 256 * 1024 * 1024
"""The longest listing of a remote's branches and tags that is read. Each takes about 70 bytes."""

_KEPT_OF_GIT = ("GIT_SSH", "GIT_SSL_", "GIT_HTTP_", "GIT_PROXY_", "GIT_ASKPASS", "GIT_CONFIG", "GIT_EXEC_PATH")
"""Prefixes of git's variables about how to reach a remote; the others refer to a repository."""

_SETTINGS: Mapping[str, str] = {
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


class GitFailed(YouBenchaError):
    """git failed; `reason` is what it printed, `status` its exit status (None if it has none)."""

    def __init__(self, what: str, reason: str, status: int | None = None) -> None:
        super().__init__("GIT_FAILED", f"git {what} failed: {reason}", context={"reason": reason})
        self.reason = reason
        self.status = status


def git_program(path: str | None = None) -> str:
    return _find_git(os.environ.get("PATH", os.defpath) if path is None else path)


@lru_cache(maxsize=4)
def _find_git(path: str) -> str:
    found = find_executable("git", {**os.environ, "PATH": path})
    if found is None:
        raise YouBenchaError("GIT_NOT_FOUND", "git is not on PATH.", hint="Install git, then try again.")
    return str(found)


async def git(
    git_dir: Path,
    *arguments: str,
    tree: Path | None = None,
    index: Path | None = None,
    objects: Path | None = None,
    stdin: bytes | None = None,
    settings: Mapping[str, str] | None = None,
) -> bytes:
    """Run a plumbing command and return its output; raises `GitFailed`.

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
        reason = without_long_words(errors.decode(errors="replace").strip())
        raise GitFailed(arguments[0], reason or f"it ended with status {status}", status)
    return output


async def users_settings(git_dir: Path, pattern: str) -> dict[str, str]:
    """Return the settings of the user's own configuration whose names match."""
    kept = ("GIT_CONFIG", "GIT_EXEC_PATH")
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name.startswith(kept)}
    argv = [git_program(), f"--git-dir={git_dir}", "config", "--null", "--get-regexp", pattern]
    _, output, _ = await _run(argv, git_dir, env, None)
    found = (entry.partition("\n") for entry in output.decode(errors="replace").split("\0") if entry)
    return {name: value or "true" for name, _, value in found}


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
            await _kill(process)
    assert process.returncode is not None
    return process.returncode, output, errors


async def _kill(process: asyncio.subprocess.Process) -> None:
    """End git and everything that it started."""
    with contextlib.suppress(ProcessLookupError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    await process.communicate()


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

    async def ask(self, *arguments: str, most_bytes: int | None = None) -> str | None:
        """Return what git prints, up to `most_bytes`; None if it fails."""
        env = select(os.environ, _INHERITED | {"HOME"})
        env |= {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
        lines: list[bytes] = []
        remaining = most_bytes

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


class RemoteFailure(NamedTuple):
    pattern: str
    code: str
    message: str
    hint: str


FAILURES = (
    RemoteFailure(
        r"host key verification failed|authentication failed|permission denied|could not read (username|password)"
        r"|terminal prompts disabled|error: (401|403)|access denied|invalid credentials",
        "REPO_ACCESS_DENIED",
        "The repository {url} cannot be read with your credentials.",
        "Try `git ls-remote {url}`: it must work without asking you anything (set up a key, helper or known host).",
    ),
    RemoteFailure(
        r"repository .*not found|does not appear to be a git repository|not found: did you run|error: 404"
        r"|project you were looking for could not be found",
        "REPO_NOT_FOUND",
        "There is no repository at {url}, or you have no access to it.",
        "Check the address, and that your credentials reach it.",
    ),
    RemoteFailure(
        r"not our ref|unadvertised object|couldn't find remote ref",
        "REPO_COMMIT_UNKNOWN",
        "The repository {url} does not provide that commit.",
        "Check the commit's id, or name a branch that contains it.",
    ),
)
"""Known messages of git; any other means that the remote cannot be reached."""


async def ask_remote(
    remote: RemoteUrl, git_dir: Path | None, *arguments: str, timeout_s: float = LOOK_S, after: tuple[str, ...] = ()
) -> str:
    """Run `git <arguments> <url> <after>`. Credentials are in the environment, because command lines are visible.

    git runs the programs that the configuration in `git_dir` names, so this must be our own. None: none is needed.
    """
    argv = (git_program(), "--no-pager", f"--git-dir={git_dir or os.devnull}", *as_options(_SETTINGS), *arguments)
    env = await _environment(remote)
    result = await run(
        Command(argv=(*argv, remote.public_url, *after), cwd=git_dir or Path(os.sep), env=env),
        limits=Limits(timeout_s=timeout_s, output_bytes=_MAX_LISTING_BYTES),
        redactor=Redactor(remote.secrets),
    )
    if result.exit.code != 0:
        raise _error(remote, result, timeout_s)
    if result.truncated:
        raise YouBenchaError(
            "REPO_TOO_LARGE",
            f"The repository {remote.public_url} has more branches and tags than can be listed.",
            hint="Clone it with those that you need, and name the clone's directory.",
        )
    return result.printed


async def _environment(remote: RemoteUrl) -> dict[str, str]:
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
    """Whether the user's configuration names a command for ssh, which the variable would override."""
    argv = (git_program(), "config", "--global", "--get", "core.sshCommand")
    return (await run(Command(argv=argv, cwd=Path.home(), env=env), limits=Limits(timeout_s=LOOK_S))).exit.code == 0


def _error(remote: RemoteUrl, result: ProcessResult, timeout_s: float) -> YouBenchaError:
    url = remote.public_url
    output = result.output.strip()
    if _is_local_failure(output):
        return GitFailed("fetch", output)
    for failure in () if result.timed_out else FAILURES:
        if re.search(failure.pattern, result.printed, re.IGNORECASE):
            message, hint = failure.message.format(url=url), failure.hint.format(url=url)
            return YouBenchaError(failure.code, message, hint=hint, context={"reason": output})
    reason = f"no answer within {timeout_s:.0f} s" if result.timed_out else _reason_in(output)
    return YouBenchaError(
        "REPO_UNREACHABLE",
        f"The repository {url} cannot be reached: {reason}",
        hint="Check the address, the network and the proxy. A full `commit` that was used before needs no network.",
        context={"reason": output},
    )


def _is_local_failure(output: str) -> bool:
    """Whether the mirror is damaged, or the disk is full. The remote's messages begin with `remote:`."""
    return any(_LOCAL_FAILURE.search(line) for line in output.splitlines() if not line.startswith("remote:"))


def _reason_in(output: str) -> str:
    lines = [line for line in output.splitlines() if line.startswith(("fatal: ", "ssh: ", "error: "))]
    return (lines or output.splitlines() or ["git gave no reason"])[0].partition(": ")[2] or output
