"""Claude Code for the conformance kit: how the scripted model brings it into each situation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from claude_bench import API_KEY, ClaudeBench, bash, prompt_of, says, script
from youbencha.adapters import AgentAdapter
from youbencha.adapters.claude_code import ClaudeCodeAdapter
from youbencha.testing import Agent, Prepared, Situation
from youbencha.testing.agent import MARKER

TURNS: dict[Situation, list[dict[str, Any]]] = {
    Situation.ANSWERS: [says(f"The answer is {MARKER}.")],
    Situation.WRITES_FILE: [bash('printf "%s" "$KIT_PROBE" > kit.txt'), says("Written.")],
    Situation.SAYS_MUCH: [says("0123456789abcde\n" * 1_000_000)],
    Situation.FAILS: [{"error": {"status": 400, "message": "the script says no"}, "times": "forever"}],
    Situation.HANGS: [{**bash("true"), "text": f"Wait for {MARKER}."}, {"hang": True, "text": "..."}],
}


class ClaudeAgent(Agent):
    def __init__(self, claude: ClaudeBench) -> None:
        self._claude = claude

        claude.put_on_path()

    def adapter(self) -> AgentAdapter:
        return ClaudeCodeAdapter(env={**self._claude.harness_env, "ANTHROPIC_API_KEY": API_KEY})

    def adapter_without_cli(self) -> AgentAdapter:
        empty = {"PATH": "/nowhere", "YOUBENCHA_TOOLBOX": str(self._claude.home / "none")}
        return ClaudeCodeAdapter(env={**self._claude.harness_env, **empty})

    def adapter_without_credentials(self) -> AgentAdapter:
        return ClaudeCodeAdapter(env=self._claude.harness_env)

    @asynccontextmanager
    async def in_situation(self, situation: Situation, workspace: Path) -> AsyncIterator[Prepared]:
        async with self._claude.model(script(*TURNS[situation])) as model:
            yield Prepared(
                config=self._claude.chosen(),
                env=self._claude.env(model),
                prompts=lambda: [prompt_of(request) for request in model.requests if request.kind == "turn"],
                model_url=model.url,
                # 2.1.150 looks first whether the API is there.
                keys=lambda: [
                    request.headers.get("x-api-key", "") for request in model.requests if request.method != "HEAD"
                ],
            )
