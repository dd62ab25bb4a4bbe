"""CLIs in JavaScript: which those are, and how each system starts them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.process import find_executable

_SCRIPTS = {".js", ".cjs", ".mjs"}


def needs_node(executable: Path) -> bool:
    return executable.suffix in _SCRIPTS


def require_node(what: str, env: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path:
    """Where it is; an error that says how to get it if there is none."""
    found = find_executable("node", env, platform=platform)
    if found is None:
        raise YouBenchaError(
            "NODE_NOT_FOUND",
            f"{what} is a JavaScript program, and there is no `node` on PATH",
            hint="Install Node.js 20 or newer, and try again.",
        )
    return found


def command_for(executable: Path, env: Mapping[str, str] = os.environ, platform: str = sys.platform) -> tuple[str, ...]:
    """Windows does not know `#!` lines; elsewhere they carry options for Node.js that must not be lost.

    The path of Node.js is whole: by its bare name, Windows would look for it in the agent's repository first.
    """
    if platform == "win32" and needs_node(executable):
        return (str(require_node(str(executable), env, platform)), str(executable))
    return (str(executable),)
