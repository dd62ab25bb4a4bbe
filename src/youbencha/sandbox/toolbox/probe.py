"""Ask a CLI which version it is."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.process import Command, Limits, ProcessResult, ProcessStartError
from youbencha.sandbox.base import Sandbox
from youbencha.sandbox.here import HERE
from youbencha.sandbox.toolbox.versions import printed_version

_TIMEOUT_S = 120.0  # the first start of a 350 MB binary from a cold disk was seen to take 15 s
_LONGEST = 300
# Windows programs do not start without SYSTEMROOT.
_KEPT = ("PATH", "SYSTEMROOT", "PATHEXT", "COMSPEC")
# Nothing is to be fetched for this: no newer version of itself, and no list of prices (LiteLLM).
_QUIET = {"DISABLE_AUTOUPDATER": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}


@dataclass(frozen=True, slots=True)
class Answer:
    version: str | None
    """None unless the program named one and ended well."""
    said: str
    """The end of all that it said; may be empty."""
    ending: str
    """How it ended, in words."""


async def ask_version(command: Sequence[str], *, cwd: Path, env: Mapping[str, str], within: Sandbox = HERE) -> Answer:
    """What `COMMAND --version` says. Raises ProcessStartError if it does not start."""
    lines: list[bytes] = []
    asked = Command(argv=(*command, "--version"), cwd=cwd, env=env)
    result = await within.run(asked, limits=Limits(timeout_s=_TIMEOUT_S), on_line=lines.append)
    # Not from stderr: a warning there may name a path, and paths of ours hold version numbers.
    version = printed_version(b"\n".join(lines).decode(errors="replace"))
    return Answer(version if result.exit.code == 0 else None, result.output.strip()[-_LONGEST:], _ending(result))


async def version_of(command: Sequence[str], home: Path) -> str:
    """Asked in an environment that holds nothing of the user's; an error if there is no answer.

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
        return f"no end within {_TIMEOUT_S:.0f} s"
    return f"exit code {result.exit.code}" if result.exit.code is not None else f"ended by {result.exit.signal}"


def _clean_environment(home: Path) -> Mapping[str, str]:
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    places = dict.fromkeys(("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA"), str(home))
    return kept | places | _QUIET


def _cannot_run(command: Sequence[str], reason: str) -> YouBenchaError:
    return YouBenchaError(
        "AGENT_CANNOT_RUN",
        f"`{' '.join(command)} --version` failed: {reason}",
        hint="This build may not be for this computer (processor, C library); another version may be.",
    )
