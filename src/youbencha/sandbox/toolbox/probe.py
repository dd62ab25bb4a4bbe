"""Ask a CLI which version it is, in an environment that holds nothing of the user's."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.process import find_executable
from youbencha.sandbox.toolbox.versions import printed_version

# The first start of a 350 MB binary from a cold disk was seen to take 15 s.
_TIMEOUT_S = 120
# Windows programs do not start without SYSTEMROOT.
_KEPT = ("PATH", "SYSTEMROOT", "PATHEXT", "COMSPEC")


def ask_version(command: Sequence[str], home: Path) -> str:
    """What `COMMAND --version` says. The caller removes `home` afterwards: Copilot unpacks 235 MB there."""
    try:
        done = subprocess.run(
            [*command, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=_clean_environment(home),
            cwd=home,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _cannot_run(command, str(error)) from error
    # Not from stderr: a warning there may name a path, and paths of ours hold version numbers.
    version = printed_version(done.stdout.decode(errors="replace"))
    if done.returncode != 0 or version is None:
        said = (done.stderr or done.stdout).decode(errors="replace").strip()[-300:]
        raise _cannot_run(command, f"exit code {done.returncode}: {said or 'no output'}")
    return version


def require_node(agent: str) -> None:
    if find_executable("node", os.environ) is None:
        raise YouBenchaError(
            "NODE_NOT_FOUND",
            f"this version of {agent} is a JavaScript program, and there is no `node` on PATH",
            hint="Install Node.js 20 or newer, and try again.",
        )


def _clean_environment(home: Path) -> Mapping[str, str]:
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    places = dict.fromkeys(("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA"), str(home))
    return kept | places | {"DISABLE_AUTOUPDATER": "1"}


def _cannot_run(command: Sequence[str], reason: str) -> YouBenchaError:
    return YouBenchaError(
        "AGENT_CANNOT_RUN",
        f"`{' '.join(command)} --version` failed: {reason}",
        hint="This build may not be for this computer (processor, C library); another version may be.",
    )
