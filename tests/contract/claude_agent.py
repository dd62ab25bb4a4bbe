"""Claude Code for the conformance kit: how the scripted model brings it into each situation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from claude_lab import API_KEY, ClaudeLab, bash, prompt_of, says, script
from youbencha.adapters import AgentAdapter
from youbencha.adapters.claude_code import ClaudeCodeAdapter
from youbencha.testing import Agent, Prepared, Situation
from youbencha.testing.agent import MARKER

TURNS: dict[Situation, list[dict[str, Any]]] = {
    Situation.ANSWERS: [says(f"The answer is {MARKER}.")],
    Situation.WRITES_FILE: [bash('printf "%s" "$KIT_PROBE" > kit.txt'), says("Written.")],
    Situation.SAYS_MUCH: [says("0123456789abcde\n" * 1_000_000)],
    Situation.FAILS: [{"error": {"status": 400, "message": "the script says no"}}],
    Situation.HANGS: [{**bash("true"), "text": f"Wait for {MARKER}."}, {"hang": True, "text": "..."}],
}


class ClaudeAgent(Agent):
    def __init__(self, lab: ClaudeLab) -> None:
        self._lab = lab
        self._with_key = {**lab.harness_env, "ANTHROPIC_API_KEY": API_KEY}

    def _on_path(self) -> dict[str, str]:
        """An environment whose PATH has the CLI under test, as `claude`."""
        directory = self._lab.home / "bin"
        directory.mkdir(exist_ok=True)
        link = directory / "claude"
        if not link.exists():
            link.symlink_to(self._lab.cli.executable)
        return {**self._lab.harness_env, "PATH": f"{directory}:{self._lab.harness_env['PATH']}"}

    def adapter(self) -> AgentAdapter:
        return ClaudeCodeAdapter(env={**self._on_path(), "ANTHROPIC_API_KEY": API_KEY})

    def adapter_without_cli(self) -> AgentAdapter:
        empty = {"PATH": "/nowhere", "HOME": str(self._lab.home), "YOUBENCHA_TOOLBOX": str(self._lab.home / "none")}
        return ClaudeCodeAdapter(env=empty)

    def adapter_without_credentials(self) -> AgentAdapter:
        return ClaudeCodeAdapter(env=self._on_path())

    @asynccontextmanager
    async def in_situation(self, situation: Situation, workspace: Path) -> AsyncIterator[Prepared]:
        async with self._lab.model(script(*TURNS[situation])) as model:
            yield Prepared(
                config={"executable": str(self._lab.cli.executable)},
                env=self._lab.env(model),
                prompts=lambda: [prompt_of(request) for request in model.requests if request.kind == "turn"],
            )
