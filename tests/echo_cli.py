"""A `claude` of a few lines that keeps what it was started with, and reports success.

For tests of what the adapter hands over to a CLI, of what it reads back, and of what it refuses before it starts one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from systems import posix_only
from youbencha.adapters import AgentExecutionContext, AgentExecutionResult
from youbencha.adapters.claude_code import ClaudeCodeAdapter
from youbencha.events import Event
from youbencha.log.model import YouBenchaLog

needs_shell = posix_only("the program that stands for the CLI is a shell script")

_USAGE = {"input_tokens": 1, "output_tokens": 1}
_DONE = {"id": "m", "model": "claude-x", "role": "assistant", "content": [{"type": "text", "text": "Done."}]}
STREAM = "".join(
    json.dumps(line) + "\n"
    for line in (
        {"type": "system", "subtype": "init", "session_id": "s-1", "model": "claude-x"},
        {"type": "assistant", "message": {**_DONE, "usage": _USAGE}},
        {"type": "result", "subtype": "success", "is_error": False, "result": "Done.", "usage": _USAGE},
    )
)
_PROGRAM = """#!/bin/sh
[ "$1" = --version ] && exec echo '{version} (Claude Code)'
printf '%s\\0' "$@" > "$ECHO_DIR/argv"
cat > "$ECHO_DIR/stdin"
for last; do :; done
rest=${{last#Read the file }}
[ "$rest" = "$last" ] || cp "${{rest%% completely;*}}" "$ECHO_DIR/file"
{before}
cat '{output}'
"""


@dataclass(frozen=True)
class Received:
    """What the program was given in one run, and what the adapter made of its output."""

    result: AgentExecutionResult
    log: YouBenchaLog
    events: list[Event]
    workspace: Path
    argv: list[str]
    stdin: bytes
    file: bytes | None
    """The contents of the prompt file that it was asked to read."""

    @property
    def prompt(self) -> str:
        """What a CLI in print mode takes for its prompt, or finds in the file that the prompt names."""
        if self.file is not None:
            return self.file.decode()
        return self.argv[-1] if self.argv[-2] == "--" else self.stdin.decode()

    def warning_codes(self) -> list[str | None]:
        return [warning.code for warning in self.result.warnings]


class EchoCli:
    """`before` is shell that runs before the program prints its `output`."""

    def __init__(self, directory: Path, *, version: str = "2.1.325", before: str = "", output: str = STREAM) -> None:
        self._directory = directory
        self.home = directory / "home"
        self.home.mkdir(parents=True)
        self.harness_env = {"PATH": "/usr/bin:/bin", "HOME": str(self.home)}
        printed = directory / "output"
        printed.write_text(output)
        self.path = directory / "bin" / "claude"
        self.path.parent.mkdir()
        self.path.write_text(_PROGRAM.format(version=version, before=before, output=printed))
        self.path.chmod(0o755)

    @property
    def was_started(self) -> bool:
        return any(self._directory.glob("*/argv"))

    async def run(self, name: str = "run", *, config: dict[str, Any] | None = None, **overrides: Any) -> Received:
        """One execution, by default in a new workspace."""
        place = self._directory / name
        workspace = overrides.pop("workspace_dir", place / "workspace")
        for directory in (place, workspace):
            directory.mkdir(parents=True, exist_ok=True)
        given = {"prompt": "Do what you are told.", "executable": str(self.path), **(config or {})}
        env = {"ECHO_DIR": str(place), "IS_SANDBOX": "1", "ANTHROPIC_API_KEY": "sk-ant-dummy-0123456789abcdef"}
        events: list[Event] = []
        context = AgentExecutionContext(
            workspace_dir=workspace,
            repo_dir=workspace,
            artifacts_dir=overrides.pop("artifacts_dir", place / "artifacts"),
            config={key: value for key, value in given.items() if value is not None},
            env=env,
            on_event=events.append,
            **overrides,
        )
        adapter = ClaudeCodeAdapter(env=self.harness_env)
        result = await adapter.execute(context)
        return Received(
            result=result,
            log=adapter.normalize_log(result, context),
            events=events,
            workspace=workspace,
            argv=(place / "argv").read_bytes().decode().split("\0")[:-1],
            stdin=(place / "stdin").read_bytes(),
            file=(place / "file").read_bytes() if (place / "file").exists() else None,
        )
