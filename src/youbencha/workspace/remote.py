"""git over a network, with all that the user's own git has: keys, helpers, proxies. Nobody is asked for anything."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.process import Command, Limits, ProcessResult, Redactor, run
from youbencha.workspace.git import ALWAYS, GitFailed, as_options, git_program
from youbencha.workspace.source import RemotePlace

LOOK_S = 120.0
FETCH_S = 3600.0

_KEPT_OF_GIT = ("GIT_SSH", "GIT_SSL_", "GIT_HTTP_", "GIT_PROXY_", "GIT_ASKPASS", "GIT_CONFIG", "GIT_EXEC_PATH")
"""Of the variables that are git's own, these say how to reach a place; the others point into some repository."""

_SETTINGS: Mapping[str, str] = {
    **ALWAYS,
    "fetch.recurseSubmodules": "false",
    "fetch.writeCommitGraph": "false",
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "60",  # a connection that hangs is given up
}
_ENVIRONMENT: Mapping[str, str] = {
    "LC_ALL": "C",  # what git says is read below
    "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",  # `file`: a user may have mapped an address to a place here
    "GIT_TERMINAL_PROMPT": "0",
    "GCM_INTERACTIVE": "never",
}
_SSH = "ssh -oBatchMode=yes"


class Failure(NamedTuple):
    says: re.Pattern[str]
    code: str
    message: str
    hint: str


def _failure(says: str, code: str, message: str, hint: str) -> Failure:
    return Failure(re.compile(says, re.IGNORECASE), code, message, hint)


FAILURES = (
    _failure(
        r"host key verification failed|authentication failed|permission denied|could not read (username|password)"
        r"|terminal prompts disabled|error: (401|403)|access denied|invalid credentials",
        "REPO_ACCESS_DENIED",
        "The repository {url} cannot be read with your credentials.",
        "Try `git ls-remote {url}`: what git asks you there must be answered beforehand (key, helper, known host).",
    ),
    _failure(
        r"repository .*not found|does not appear to be a git repository|not found: did you run|error: 404"
        r"|project you were looking for could not be found",
        "REPO_NOT_FOUND",
        "There is no repository at {url}, or you may not see it.",
        "Check the address, and that your credentials reach it.",
    ),
    _failure(
        r"not our ref|unadvertised object|couldn't find remote ref",
        "REPO_COMMIT_UNKNOWN",
        "The repository {url} does not give that commit.",
        "Check the commit's id, or name a branch that holds it.",
    ),
)
"""What git says, and what it means; anything else means that the place was not reached."""


_OUR_SIDE = re.compile(
    r"bad object|corrupt|missing object|not a git repository: '|did not send all necessary objects"
    r"|unable to create|unable to write|cannot lock ref|No space left|packed-refs",
)


async def ask_remote(
    place: RemotePlace, git_dir: Path, *arguments: str, timeout_s: float = LOOK_S, after: tuple[str, ...] = ()
) -> str:
    """`git <arguments> <the place> <after>`. Credentials travel in the environment: command lines can be seen."""
    argv = (git_program(), "--no-pager", f"--git-dir={git_dir}", *as_options(_SETTINGS), *arguments)
    env = await _environment(place)
    result = await run(
        Command(argv=(*argv, place.public_url, *after), cwd=git_dir, env=env),
        limits=Limits(timeout_s=timeout_s),
        redactor=Redactor(place.secrets),
    )
    if result.exit.code != 0:
        raise _error(place, result, timeout_s)
    return result.output


async def _environment(place: RemotePlace) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or _is_kept(name)}
    env |= _ENVIRONMENT
    if place.url != place.public_url:
        written = env.get("GIT_CONFIG_COUNT", "")
        count = int(written) if written.isdecimal() else 0
        env[f"GIT_CONFIG_KEY_{count}"] = f"url.{place.url}.insteadOf"
        env[f"GIT_CONFIG_VALUE_{count}"] = place.public_url
        env["GIT_CONFIG_COUNT"] = str(count + 1)
    over_http = place.url.startswith(("http://", "https://"))
    if not over_http and not {"GIT_SSH", "GIT_SSH_COMMAND"} & env.keys() and not await _has_own_ssh(env):
        env["GIT_SSH_COMMAND"] = _SSH
    return env


def _is_kept(name: str) -> bool:
    return name.startswith(_KEPT_OF_GIT)


async def _has_own_ssh(env: Mapping[str, str]) -> bool:
    """Whether the user's configuration names a command for ssh: the variable would hide it."""
    argv = (git_program(), "config", "--global", "--get", "core.sshCommand")
    return (await run(Command(argv=argv, cwd=Path.home(), env=env), limits=Limits(timeout_s=LOOK_S))).exit.code == 0


def _error(place: RemotePlace, result: ProcessResult, timeout_s: float) -> YouBenchaError:
    url = place.public_url
    said = result.output.strip()
    if _is_about_our_side(said):
        return GitFailed("fetch", said)
    for failure in () if result.timed_out else FAILURES:
        if failure.says.search(said):
            message, hint = failure.message.format(url=url), failure.hint.format(url=url)
            return YouBenchaError(failure.code, message, hint=hint, context={"reason": said})
    reason = f"no answer within {timeout_s:.0f} s" if result.timed_out else _last_word(said)
    return YouBenchaError(
        "REPO_UNREACHABLE",
        f"The repository {url} cannot be reached: {reason}",
        hint="Check the address, the network and the proxy. A full `commit` that was used before needs no network.",
        context={"reason": said},
    )


def _is_about_our_side(said: str) -> bool:
    """The mirror is damaged, or the disk is at fault. What the other side says begins with `remote:`."""
    return any(_OUR_SIDE.search(line) for line in said.splitlines() if not line.startswith("remote:"))


def _last_word(said: str) -> str:
    lines = [line for line in said.splitlines() if line.startswith(("fatal: ", "ssh: ", "error: "))]
    return (lines or said.splitlines() or ["git gave no reason"])[0].partition(": ")[2] or said
