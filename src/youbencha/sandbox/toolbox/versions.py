"""Version numbers: validity, order, and the version that a CLI reports."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

from youbencha.errors import YouBenchaError
from youbencha.process import Command, Limits, ProcessResult, ProcessStartError
from youbencha.process.environment import PROGRAM, select
from youbencha.sandbox.base import Sandbox
from youbencha.sandbox.local import HOST

LATEST = "latest"

# A version becomes the name of a directory: it starts with a digit, without separators, so it cannot leave its parent.
_VERSION = re.compile(r"\d+(\.\d+)*([-.+]?[0-9A-Za-z]+)*", re.ASCII)
_PRINTED = re.compile(r"\d+(?:\.\d+)+(?:[-+][0-9A-Za-z]+(?:\.[0-9A-Za-z]+)*)?", re.ASCII)
_PRINTED_ALONE = re.compile(rf"^v?({_PRINTED.pattern})(?: \([^()]*\))?\s*$", re.ASCII | re.MULTILINE)
"""On a line with nothing but the program's name."""
_NUMBERS = re.compile(r"\d+(\.\d+)*", re.ASCII)
_LONGEST_VERSION = 64
_TIMEOUT_S = 120.0  # the first start of a 350 MB binary from a cold disk was seen to take 15 s
_LONGEST_ANSWER = 300
# Nothing should be downloaded for this: no newer version of the CLI, and no price list (LiteLLM).
_QUIET = {"DISABLE_AUTOUPDATER": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}


def is_version(text: str) -> bool:
    return len(text) <= _LONGEST_VERSION and _VERSION.fullmatch(text) is not None


def wanted_version(text: str | None) -> str | None:
    """Return the requested version; None for the newest."""
    if text is None or text == LATEST:
        return None
    if not is_version(text):
        raise YouBenchaError(
            "AGENT_VERSION_INVALID",
            f"{text!r} is not a valid version",
            hint="Give a number such as 2.0.62, or `latest`.",
        )
    return text


def sort_key(version: str) -> tuple[Version, str]:
    """Return a key for sorting: 2.0.9 < 2.0.10-nightly.x < 2.0.10-beta.2 < 2.0.10-beta.10 < 2.0.10."""
    try:
        return Version(version), ""
    except InvalidVersion:  # npm allows any words in a pre-release
        numbers = _NUMBERS.match(version)
        return Version(f"{numbers[0] if numbers else 0}.dev0"), version


def newest_first(versions: Iterable[str]) -> list[str]:
    return sorted(versions, key=sort_key, reverse=True)


def printed_version(output: str) -> str | None:
    """Return the version in the output of `--version`: `2.0.62 (Claude Code)`, `codex-cli 0.166.0`, `aider 0.86.2`.

    A wrapper may print lines with other versions before it.
    """
    if found := _PRINTED_ALONE.search(output):
        return found[1]
    found = _PRINTED.search(output)
    return found.group() if found else None


@dataclass(frozen=True, slots=True)
class VersionAnswer:
    version: str | None
    """None unless the program printed one and exited with 0."""
    said: str
    """The end of its output; may be empty."""
    ending: str
    """How it ended: `exit code 1`."""


async def ask_version(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str], within: Sandbox = HOST
) -> VersionAnswer:
    """Run `COMMAND --version`. Raises ProcessStartError if it does not start."""
    lines: list[bytes] = []
    question = Command(argv=(*command, "--version"), cwd=cwd, env=env)
    result = await within.run(question, limits=Limits(timeout_s=_TIMEOUT_S), on_line=lines.append)
    # Not from stderr: a warning may contain a path, and our paths contain version numbers.
    version = printed_version(b"\n".join(lines).decode(errors="replace"))
    return VersionAnswer(
        version if result.exit.code == 0 else None, result.output.strip()[-_LONGEST_ANSWER:], _ending(result)
    )


async def version_of(command: Sequence[str], home: Path) -> str:
    """Return the version that a CLI reports, run without the user's environment; raise an error if it reports none.

    The caller removes `home` afterwards: Copilot unpacks 235 MB there.
    """
    try:
        answer = await ask_version(command, cwd=home, env=_clean_environment(home))
    except ProcessStartError as error:
        raise _cannot_run(command, error.message) from error
    if answer.version is None:
        raise _cannot_run(command, f"{answer.ending}: {answer.said or 'no output'}")
    return answer.version


def _ending(result: ProcessResult) -> str:
    if result.timed_out:
        return f"did not end within {_TIMEOUT_S:.0f} s"
    return f"exit code {result.exit.code}" if result.exit.code is not None else f"ended by {result.exit.signal}"


def _clean_environment(home: Path) -> Mapping[str, str]:
    kept = select(os.environ, PROGRAM)
    places = dict.fromkeys(("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA"), str(home))
    return kept | places | _QUIET


def _cannot_run(command: Sequence[str], reason: str) -> YouBenchaError:
    return YouBenchaError(
        "AGENT_CANNOT_RUN",
        f"`{' '.join(command)} --version` failed: {reason}",
        hint="This build may not run on this host (processor, C library). Try another version.",
    )
