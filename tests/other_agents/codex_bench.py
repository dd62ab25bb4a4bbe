"""A bench for the real Codex."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toolbox_agents import API_KEY, Bench, KitAgent, harness_env

from toolbox_tools import installed
from youbencha.adapters.codex import CodexAdapter
from youbencha.testing import Situation
from youbencha.testing.agent import MARKER

MODEL = "gpt-5-codex"
"""Codex does not know it, and therefore offers the plain tools."""


def runs(command: str) -> dict[str, Any]:
    return {"tools": [{"name": "exec_command", "input": {"cmd": command}}]}


TURNS: dict[Situation, list[dict[str, Any]]] = {
    Situation.ANSWERS: [{"text": f"The answer is {MARKER}."}],
    Situation.WRITES_FILE: [runs('printf "%s" "$KIT_PROBE" > kit.txt'), {"text": "Written."}],
    Situation.SAYS_MUCH: [{"text": "0123456789abcde\n" * 1_000_000}],
    Situation.FAILS: [{"error": {"status": 400, "message": "the script says no"}}],
    Situation.HANGS: [{**runs("true"), "text": f"Wait for {MARKER}."}, {"hang": True, "text": "..."}],
}


def codex_bench(directory: Path) -> Bench:
    installed("codex")
    home = directory / "home"
    home.mkdir(exist_ok=True)
    variables = {"OPENAI_BASE_URL": "{url}/v1", "OPENAI_API_KEY": API_KEY}
    adapter = CodexAdapter(env={**harness_env(home), "OPENAI_API_KEY": API_KEY})
    return Bench(adapter, directory, MODEL, variables)


class CodexAgent(KitAgent):
    time_to_speak_ms = 4_000  # it starts in one, and speaks at once


def codex_agent(directory: Path) -> KitAgent:
    bench = codex_bench(directory)
    env = harness_env(directory / "home")
    nowhere = CodexAdapter(env={**env, "PATH": "/nowhere", "YOUBENCHA_TOOLBOX": str(directory / "none")})
    return CodexAgent(bench, nowhere, CodexAdapter(env=env), TURNS)
