"""The one way in which this package calls git on its own machine.

Whatever a repository holds, nothing of it runs here: no configuration of a user or a system is read, hooks, monitors,
filters and transports are off, and nobody is asked for a password. What needs a network is in `remote.py`.

Not by way of the guarded process layer: git's plumbing starts nothing, and a call here costs 2 ms instead of 5.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.process import find_executable
from youbencha.workspace.names import without_long_words

_DEADLINE_S = 600.0
_ON_WINDOWS = sys.platform == "win32"

ALWAYS: Mapping[str, str] = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "gc.auto": "0",
    "maintenance.auto": "false",
    "submodule.recurse": "false",
}
"""For every git that is ever started, local or not."""

_PLUMBING: Mapping[str, str] = {
    **ALWAYS,
    "core.attributesFile": os.devnull,
    "core.autocrlf": "false",
    "core.excludesFile": os.devnull,
    "core.fsync": "none",  # a run that a power cut ends is made anew anyway
    "core.quotePath": "false",
    "core.safecrlf": "false",
    "index.version": "2",
}

ONLY_RECORDED: Mapping[str, str] = {"core.protectHFS": "false", "core.protectNTFS": "false"}
"""Names that would be dangerous elsewhere, where they are only recorded and never checked out."""

_ENVIRONMENT: Mapping[str, str] = {
    "LC_ALL": "C",
    "GIT_ALLOW_PROTOCOL": "",  # plumbing has no business with any transport, not even a promisor's
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
}
_INHERITED = ("PATH", "PATHEXT", "SYSTEMROOT", "TEMP", "TMP") if _ON_WINDOWS else ("PATH",)


class GitFailed(YouBenchaError):
    """git said no; `context["reason"]` is what it said."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__("GIT_FAILED", f"git {what} failed: {reason}", context={"reason": reason})
        self.reason = reason


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
    """What git wrote. `objects` is one more store to read from; `settings` come on top of our own."""
    env = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    env |= {**_ENVIRONMENT, "HOME": str(git_dir)}
    if index is not None:
        env["GIT_INDEX_FILE"] = str(index)
    if objects is not None:
        env["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = _quoted(objects)
    where = [f"--git-dir={git_dir}", *([f"--work-tree={tree}"] if tree else [])]
    argv = [git_program(), "--no-pager", *where, *as_options(_PLUMBING), *as_options(settings or {}), *arguments]
    status, output, errors = await _run(argv, tree or git_dir, env, stdin)
    if status != 0:
        said = without_long_words(errors.decode(errors="replace").strip())
        raise GitFailed(arguments[0], said or f"it ended with status {status}")
    return output


async def users_settings(git_dir: Path, pattern: str) -> dict[str, str]:
    """What the user's own configuration, all of it, says about the settings whose names match."""
    kept = ("GIT_CONFIG", "GIT_EXEC_PATH")
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name.startswith(kept)}
    argv = [git_program(), f"--git-dir={git_dir}", "config", "--null", "--get-regexp", pattern]
    _, output, _ = await _run(argv, git_dir, env, None)
    found = (entry.partition("\n") for entry in output.decode(errors="replace").split("\0") if entry)
    return {name: value or "true" for name, _, value in found}


def as_options(settings: Mapping[str, str]) -> list[str]:
    return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]


def _quoted(path: Path) -> str:
    """A path may hold the very character that separates paths there; quotes protect it."""
    escaped = path.as_posix().replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


async def _run(argv: list[str], cwd: Path, env: Mapping[str, str], stdin: bytes | None) -> tuple[int, bytes, bytes]:
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    feed = pipe if stdin is not None else nothing
    try:
        process = await asyncio.create_subprocess_exec(
            *argv, cwd=cwd, env=dict(env), stdin=feed, stdout=pipe, stderr=pipe, start_new_session=True
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
    """Whoever cancels gets no process left behind."""
    with contextlib.suppress(ProcessLookupError):
        if _ON_WINDOWS:
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    await process.communicate()
