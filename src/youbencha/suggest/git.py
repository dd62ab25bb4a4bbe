"""Ask git about a folder that an agent has worked in. Nothing that its configuration names is run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from youbencha.errors import YouBenchaError
from youbencha.process import Command, Limits, find_executable, run

_TIMEOUT_S = 60.0
_SAFE = ("core.fsmonitor=false", f"core.hooksPath={os.devnull}", "core.quotePath=false", "diff.external=")
_PROGRAMS = r"^filter\..*\.(clean|smudge|process)$"


@dataclass(frozen=True, slots=True)
class Git:
    program: Path
    directory: Path
    settings: tuple[str, ...] = _SAFE

    @classmethod
    async def of(cls, directory: Path) -> Self:
        program = find_executable("git", os.environ)
        if program is None:
            raise YouBenchaError("GIT_NOT_FOUND", "git is not on PATH.", hint="Install git, then try again.")
        git = cls(program, directory)
        filters = await git.ask("config", "--name-only", "--get-regexp", _PROGRAMS) or ""
        return cls(program, directory, (*_SAFE, *(f"{name}=" for name in filters.splitlines())))

    async def ask(self, *arguments: str, most_bytes: int | None = None) -> str | None:
        """What git prints; None if it fails."""
        settings = [part for setting in self.settings for part in ("-c", setting)]
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "SYSTEMROOT") if name in os.environ}
        env = kept | {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
        lines: list[bytes] = []
        room = most_bytes

        def take(line: bytes) -> None:
            nonlocal room
            if room is not None:
                line, room = line[: max(room, 0)], room - len(line) - 1
            if line or room is None or room > 0:
                lines.append(line)

        command = Command(argv=(str(self.program), *settings, *arguments), cwd=self.directory, env=env)
        done = await run(command, limits=Limits(timeout_s=_TIMEOUT_S), on_line=take)
        return os.fsdecode(b"\n".join(lines)) if done.exit.code == 0 else None
