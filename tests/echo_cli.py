"""A `claude` of a few lines that keeps what it was started with, and reports success.

For tests of what the adapter hands over to a CLI, and of what it refuses before it starts one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from youbencha.adapters import AgentExecutionContext, AgentExecutionResult
from youbencha.adapters.claude_code import ClaudeCodeAdapter

_STREAM = (
    {"type": "system", "subtype": "init", "session_id": "s-1", "model": "claude-x"},
    {"type": "result", "subtype": "success", "is_error": False, "result": "Done.", "usage": {"output_tokens": 1}},
)
_PROGRAM = """#!/bin/sh
[ "$1" = --version ] && exec echo '{version} (Claude Code)'
printf '%s\\0' "$@" > "$ECHO_DIR/argv"
cat > "$ECHO_DIR/stdin"
for last; do :; done
rest=${{last#Read the file }}
[ "$rest" = "$last" ] || cp "${{rest%% completely;*}}" "$ECHO_DIR/file"
cat '{stream}'
"""


@dataclass(frozen=True)
class Received:
    """What the program was given in one run."""

    result: AgentExecutionResult
    workspace: Path
    argv: list[str]
    stdin: bytes
    file: bytes | None
    """The contents of the prompt file that it was told to read."""

    @property
    def prompt(self) -> str:
        """What a CLI in print mode takes for its prompt, or finds in the file that the prompt names."""
        if self.file is not None:
            return self.file.decode()
        return self.argv[-1] if self.argv[-2] == "--" else self.stdin.decode()


class EchoCli:
    def __init__(self, directory: Path, version: str = "2.1.325") -> None:
        self._directory = directory
        self.home = directory / "home"
        self.home.mkdir(parents=True)
        stream = directory / "stream.jsonl"
        stream.write_text("".join(json.dumps(line) + "\n" for line in _STREAM))
        self.path = directory / "claude"
        self.path.write_text(_PROGRAM.format(version=version, stream=stream))
        self.path.chmod(0o755)

    @property
    def was_started(self) -> bool:
        return any(self._directory.glob("*/argv"))

    async def run(self, name: str = "run", *, config: dict[str, Any], **overrides: Any) -> Received:
        """One execution, with a workspace of its own unless one is given."""
        place = self._directory / name
        workspace = overrides.pop("workspace_dir", place / "workspace")
        workspace.mkdir(parents=True, exist_ok=True)
        place.mkdir(exist_ok=True)
        context = AgentExecutionContext(
            workspace_dir=workspace,
            repo_dir=workspace,
            artifacts_dir=place / "artifacts",
            config={"executable": str(self.path), **config},
            env={"ECHO_DIR": str(place), "IS_SANDBOX": "1", "ANTHROPIC_API_KEY": "sk-ant-dummy-0123456789abcdef"},
            **overrides,
        )
        adapter = ClaudeCodeAdapter(env={"PATH": "/usr/bin:/bin", "HOME": str(self.home)})
        result = await adapter.execute(context)
        argv = (place / "argv").read_bytes().decode().split("\0")[:-1]
        file = place / "file"
        return Received(
            result, workspace, argv, (place / "stdin").read_bytes(), file.read_bytes() if file.exists() else None
        )
