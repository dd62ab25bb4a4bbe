"""The CLI's own debug log, read for one thing: that the model's API rejected the key.

Versions before 2.1.77 try a wrong key ten times, for three minutes, and say nothing of it on their output. Their debug
log has the first answer after a second at the most. (2.1.19 was found to leave it out; there the wait remains.)
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from pathlib import Path

_LOOK_EVERY_S = 0.25
_LONGEST_READ = 4 * 1024 * 1024
_REJECTED = re.compile(
    rb"^(?:\S+Z )?\[ERROR\] (?:Error streaming, falling back to non-streaming mode:|API error \(attempt \d+/\d+\): 401)"
    rb" 401 \{",
    re.MULTILINE,
)


async def watch_debug_log(
    session_id: Callable[[], str | None], on_rejected: Callable[[], None], *, env: Mapping[str, str], cwd: Path
) -> None:
    """Runs until cancelled, or until a rejected key was seen."""
    shared = _shared_log(env, cwd)
    already_there = shared.stat().st_size if shared.is_file() else 0
    while True:
        await asyncio.sleep(_LOOK_EVERY_S)
        session = session_id()
        own = _config_dir(env) / "debug" / f"{session}.txt" if session else None
        if _mentions_rejection(shared, already_there) or (own and _mentions_rejection(own, 0)):
            on_rejected()
            return


def _mentions_rejection(path: Path, offset: int) -> bool:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return _REJECTED.search(file.read(_LONGEST_READ)) is not None
    except OSError:  # not there yet, or not ours to read
        return False


def _config_dir(env: Mapping[str, str]) -> Path:
    return Path(env["CLAUDE_CONFIG_DIR"]) if env.get("CLAUDE_CONFIG_DIR") else Path(env.get("HOME", "/")) / ".claude"


def _shared_log(env: Mapping[str, str], cwd: Path) -> Path:
    """Where 1.0.x logs: one file for each working directory, which earlier sessions may have written to."""
    state = Path(env["XDG_STATE_HOME"]) if env.get("XDG_STATE_HOME") else Path(env.get("HOME", "/")) / ".local" / "state"
    slug = re.sub(r"[^A-Za-z0-9]", "-", str(cwd))
    return state / "claude-cli-nodejs" / slug / "debug-logs" / "debug.txt"
