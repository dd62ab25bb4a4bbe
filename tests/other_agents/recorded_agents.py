"""Agents for the conformance kit whose CLI is a recording: the adapters are ours, and no agent is needed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recorded_cli import AIDER_FILES, files_of, heard_by, transcript, write_program

from youbencha.adapters import AgentAdapter
from youbencha.adapters.aider import AiderAdapter
from youbencha.adapters.codex import CodexAdapter
from youbencha.adapters.copilot_cli import CopilotCliAdapter
from youbencha.adapters.gemini_cli import GeminiCliAdapter
from youbencha.adapters.opencode import OpenCodeAdapter
from youbencha.testing import Agent, Prepared, Situation
from youbencha.testing.agent import MARKER

KEY = "sk-recorded-0123456789abcdef"
SYSTEM_PATH = "/usr/bin:/bin"
NOISE = "yes $(printf %01000d 0) | head -n 16000"
"""A shell line that prints 16 MB."""


@dataclass(frozen=True)
class Recording:
    """What one CLI printed: in a session that ended well, and in one that failed."""

    adapter: type[Any]
    credential: str
    session: str
    said: str
    """The model's words in that session. The kit wants to hear its own in their place."""
    failure: str
    exit_code: int = 1
    before: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    """What that session left."""
    config: Mapping[str, Any] = field(default_factory=dict)


WROTE = "Done: wrote hello.txt"
CODEX = Recording(
    CodexAdapter, "OPENAI_API_KEY", transcript("codex_tool_use-0.166.0.ndjson"), WROTE,
    transcript("codex_err_401-0.166.0.ndjson"),
)  # fmt: skip
COPILOT = Recording(
    CopilotCliAdapter, "GH_TOKEN", transcript("copilot_tool_use-1.0.102.ndjson"), WROTE,
    transcript("copilot_err_401-1.0.102.ndjson"), config={"model": "claude-sonnet-4.6"},
)  # fmt: skip
GEMINI = Recording(
    GeminiCliAdapter, "GEMINI_API_KEY", transcript("gemini_tool_use-0.61.0.ndjson"), WROTE,
    transcript("gemini_err_401-0.61.0.ndjson"), exit_code=145,
)  # fmt: skip
OPENCODE = Recording(
    OpenCodeAdapter, "ANTHROPIC_API_KEY", transcript("opencode_tool_use-1.18.33.ndjson"), WROTE,
    transcript("opencode_err_401-1.18.33.ndjson"), config={"model": "anthropic/claude-sonnet-4-5"},
)  # fmt: skip
AIDER = Recording(
    AiderAdapter, "ANTHROPIC_API_KEY", transcript("aider_edit-0.86.2.txt"), "I write.",
    "__main__.py: error: unrecognized arguments: --no-such-flag\n", exit_code=2,
    before=AIDER_FILES, files=files_of("aider_edit-0.86.2"), config={"model": "anthropic/claude-sonnet-4-5"},
)  # fmt: skip


def cut_off(text: str) -> str:
    """Without its last line, which tells how it ended."""
    return "".join(text.splitlines(keepends=True)[:-1])


class RecordedAgent(Agent):
    time_to_speak_ms = 1_000

    def __init__(self, directory: Path, recording: Recording) -> None:
        self._directory = directory
        self._recording = recording
        self._on_path = write_program(directory / "on-path", name=recording.adapter.program).parent

    def adapter(self) -> AgentAdapter:
        return self._adapter(f"{self._on_path}:{SYSTEM_PATH}", **{self._recording.credential: KEY})

    def adapter_without_cli(self) -> AgentAdapter:
        return self._adapter(SYSTEM_PATH, **{self._recording.credential: KEY})

    def adapter_without_credentials(self) -> AgentAdapter:
        return self._adapter(f"{self._on_path}:{SYSTEM_PATH}")

    def _adapter(self, path: str, **env: str) -> AgentAdapter:
        places = {"HOME": str(self._directory / "home"), "YOUBENCHA_TOOLBOX": str(self._directory / "no-toolbox")}
        adapter: AgentAdapter = self._recording.adapter(env={"PATH": path, **places, **env})
        return adapter

    @asynccontextmanager
    async def in_situation(self, situation: Situation, workspace: Path) -> AsyncIterator[Prepared]:
        directory = workspace.parent / "cli"
        recording = self._recording
        stdout, before, ending = recording.session, recording.before, "exit 0"
        files = {name: text.replace(recording.said, MARKER) for name, text in recording.files.items()}
        match situation:
            case Situation.WRITES_FILE:
                before += 'printf "%s" "$KIT_PROBE" > kit.txt'
            case Situation.SAYS_MUCH:
                before += NOISE
            case Situation.FAILS:
                stdout, files, ending = recording.failure, {}, f"exit {recording.exit_code}"
            case Situation.HANGS:
                files = {name: cut_off(text) for name, text in files.items()}
                stdout, ending = cut_off(stdout), "exec sleep 600"
        said = stdout.replace(recording.said, MARKER)
        program = write_program(directory, said, before=before, ending=ending, files=files)
        yield Prepared(
            config={"executable": str(program), **recording.config},
            env={recording.credential: KEY},
            exit_code=recording.exit_code if situation is Situation.FAILS else None,
            prompts=lambda: heard_by(directory),
        )
