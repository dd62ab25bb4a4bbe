"""A program that plays back what a real CLI printed: for faults that the real one cannot be made to show."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from youbencha.adapters import AgentAdapter, AgentExecutionContext, AgentExecutionResult
from youbencha.events import Event
from youbencha.log import YouBenchaLog

TRANSCRIPTS = Path(__file__).parents[1] / "data" / "transcripts"

_PROGRAM = """#!/bin/sh
case "$1" in --version) echo "Some CLI 1.2.3"; exit 0;; esac
here="{here}"
for word in "$@"; do printf '%s\\0' "$word"; done > "$here/argv"
env > "$here/env"
cat > "$here/stdin"
{before}
cat "$here/stdout"
cat "$here/stderr" >&2
{ending}
"""


def transcript(name: str) -> str:
    return (TRANSCRIPTS / name).read_text(encoding="utf-8")


def lines(*records: dict[str, Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


@dataclass(frozen=True)
class Played:
    result: AgentExecutionResult
    log: YouBenchaLog
    events: list[Event]
    argv: list[str]
    env: dict[str, str]
    stdin: str

    def codes(self) -> list[str | None]:
        return [error.code for error in self.result.errors]

    def warnings(self) -> list[str | None]:
        return [warning.code for warning in self.result.warnings]

    def value_of(self, flag: str) -> str:
        return self.argv[self.argv.index(flag) + 1]


class RecordedCli:
    def __init__(self, directory: Path, adapter: type[AgentAdapter]) -> None:
        self._directory = directory / "cli"
        self._directory.mkdir()
        self._adapter = adapter
        self.home = directory / "home"
        self.workspace = directory / "workspace"
        self.artifacts = directory / "artifacts"
        for path in (self.home, self.workspace):
            path.mkdir()

    async def play(
        self,
        stdout: str = "",
        *,
        stderr: str = "",
        before: str = "",
        ending: str = "exit 0",
        env: dict[str, str] | None = None,
        context: dict[str, Any] | None = None,
        **config: Any,
    ) -> Played:
        """`before` and `ending` are shell lines: what it does before it speaks, and how it ends."""
        program = self._directory / "program"
        program.write_text(_PROGRAM.format(here=self._directory, before=before, ending=ending))
        program.chmod(0o755)
        (self._directory / "stdout").write_text(stdout, encoding="utf-8")
        (self._directory / "stderr").write_text(stderr, encoding="utf-8")
        adapter = self._adapter(env={"PATH": "/usr/bin:/bin", "HOME": str(self.home)})  # type: ignore[call-arg]
        events: list[Event] = []
        told = AgentExecutionContext(
            workspace_dir=self.workspace,
            repo_dir=self.workspace,
            artifacts_dir=self.artifacts,
            config={"prompt": "Do it.", "executable": str(program), **config},
            on_event=events.append,
            **{"timeout": 30_000, "env": env or {}, **(context or {})},
        )
        result = await adapter.execute(told)
        return Played(
            result=result,
            log=adapter.normalize_log(result, told),
            events=events,
            argv=(self._directory / "argv").read_bytes().decode().split("\0")[:-1],
            env=dict(line.split("=", 1) for line in (self._directory / "env").read_text().splitlines() if "=" in line),
            stdin=(self._directory / "stdin").read_text(encoding="utf-8"),
        )
