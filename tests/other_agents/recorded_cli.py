"""A program that plays back what a real CLI printed, and what it left in files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from youbencha.adapters import AgentAdapter, AgentExecutionContext, AgentExecutionResult
from youbencha.events import Event
from youbencha.log.model import YouBenchaLog

TRANSCRIPTS = Path(__file__).parents[1] / "data" / "other_agents"

_PROGRAM = """#!/bin/sh
case "$1" in --version) echo "Some CLI {version}"; exit 0;; esac
here="{here}"
for word in "$@"; do printf '%s\\0' "$word"; done > "$here/argv"
env > "$here/env"
cat > "$here/stdin"
{before}
cat "$here/stdout"
cat "$here/stderr" >&2
{ending}
"""


AIDER_FILES = """
for word in "$@"; do case "$word" in
  --message-file=*) cp "${word#*=}" "$here/stdin";;
  --analytics-log=*) scratch=$(dirname "${word#*=}"); touch "$scratch/guarded"; cp "$here"/files/* "$scratch";;
esac; done 2> /dev/null
"""
"""Shell lines: Aider is given its prompt in a file, and tells what it did in others."""


def transcript(name: str) -> str:
    return (TRANSCRIPTS / name).read_text(encoding="utf-8")


def files_of(name: str) -> dict[str, str]:
    """The files that a session left."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted((TRANSCRIPTS / name).iterdir())}


def write_program(
    directory: Path,
    stdout: str = "",
    *,
    stderr: str = "",
    before: str = "",
    ending: str = "exit 0",
    files: Mapping[str, str] | None = None,
    name: str = "program",
    version: str = "99.2.3",
) -> Path:
    """`before` and `ending` are shell lines: what it does before it speaks, and how it ends."""
    (directory / "files").mkdir(parents=True, exist_ok=True)
    for path, content in {"stdout": stdout, "stderr": stderr}.items():
        (directory / path).write_text(content, encoding="utf-8")
    for path, content in (files or {}).items():
        (directory / "files" / path).write_text(content, encoding="utf-8")
    program = directory / name
    program.write_text(_PROGRAM.format(here=directory, before=before, ending=ending, version=version))
    program.chmod(0o755)
    return program


def heard_by(directory: Path) -> list[str]:
    """What the program was given to read: its stdin, its arguments, and their values."""
    argv = (directory / "argv").read_bytes().decode().split("\0")
    return [(directory / "stdin").read_bytes().decode(), *argv, *(word.partition("=")[2] for word in argv)]


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
        files: Mapping[str, str] | None = None,
        env: dict[str, str] | None = None,
        context: dict[str, Any] | None = None,
        prints_version: str = "99.2.3",
        **config: Any,
    ) -> Played:
        said = {"stderr": stderr, "before": before, "ending": ending, "version": prints_version}
        program = write_program(self._directory, stdout, files=files, **said)
        adapter = self._adapter(env={"PATH": "/usr/bin:/bin", "HOME": str(self.home)})  # type: ignore[call-arg]
        events: list[Event] = []
        execution_context = AgentExecutionContext(
            workspace_dir=self.workspace,
            repo_dir=self.workspace,
            artifacts_dir=self.artifacts,
            config={"prompt": "Do it.", "executable": str(program), **config},
            on_event=events.append,
            **{"timeout": 30_000, "env": env or {}, **(context or {})},
        )
        result = await adapter.execute(execution_context)
        return Played(
            result=result,
            log=adapter.normalize_log(result, execution_context),
            events=events,
            argv=(self._directory / "argv").read_bytes().decode().split("\0")[:-1],
            env=dict(line.split("=", 1) for line in (self._directory / "env").read_text().splitlines() if "=" in line),
            stdin=(self._directory / "stdin").read_text(encoding="utf-8"),
        )
