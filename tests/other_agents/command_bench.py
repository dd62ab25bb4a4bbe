"""Small programs as agents."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from youbencha.adapters import AgentAdapter, AgentExecutionContext, AgentExecutionResult
from youbencha.adapters.command import CommandAdapter
from youbencha.testing import Agent, Prepared, Situation
from youbencha.testing.agent import MARKER

FAILURE = 7

PROGRAM = f"""
import os, sys, time
situation, seen, prompt = sys.argv[1:]
with open(seen, "w", newline="", encoding="utf-8") as file:
    file.write(prompt)
if situation == "answers":
    print("The answer is {MARKER}.")
elif situation == "writes-file":
    with open("kit.txt", "w") as file:
        file.write(os.environ["KIT_PROBE"])
elif situation == "says-much":
    for _ in range(1000):
        sys.stdout.write("0123456789abcde\\n" * 1000)
elif situation == "fails":
    print("something went wrong", file=sys.stderr)
    sys.exit({FAILURE})
elif situation == "hangs":
    print("Wait for {MARKER}.", flush=True)
    time.sleep(600)
"""


class CommandAgent(Agent):
    time_to_speak_ms = 3_000

    def adapter(self) -> AgentAdapter:
        return CommandAdapter(env={"PATH": os.environ["PATH"]})

    @asynccontextmanager
    async def in_situation(self, situation: Situation, workspace: Path) -> AsyncIterator[Prepared]:
        seen = workspace.parent / "seen"
        yield Prepared(
            config={"command": [sys.executable, "-S", "-c", PROGRAM, situation.value, str(seen)]},
            exit_code=FAILURE if situation is Situation.FAILS else 0,
            prompts=lambda: [seen.read_bytes().decode()],
        )


class CommandBench:
    """One workspace, and programs to run in it."""

    def __init__(self, directory: Path) -> None:
        self.workspace = directory / "workspace"
        self.artifacts = directory / "artifacts"
        self.workspace.mkdir()
        self.adapter = CommandAdapter(env={"PATH": os.environ["PATH"], "SOMEBODYS_SECRET": "not for you"})
        self.context: AgentExecutionContext | None = None

    async def run(self, *, context: dict[str, Any] | None = None, **config: Any) -> AgentExecutionResult:
        self.context = AgentExecutionContext(
            workspace_dir=self.workspace,
            repo_dir=self.workspace,
            artifacts_dir=self.artifacts,
            config=config,
            **{"timeout": 60_000, **(context or {})},
        )
        return await self.adapter.execute(self.context)

    async def python(self, code: str, *, context: dict[str, Any] | None = None, **config: Any) -> AgentExecutionResult:
        return await self.run(context=context, command=[sys.executable, "-S", "-c", code], **config)
