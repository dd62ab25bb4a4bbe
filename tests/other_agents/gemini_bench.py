"""Gemini CLI, the real one, on its bench."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toolbox_agents import API_KEY, Bench, KitAgent, harness_env, installed

from youbencha.adapters.gemini_cli import GeminiCliAdapter
from youbencha.testing import Situation
from youbencha.testing.agent import MARKER

MODEL = "gemini-2.5-pro"
"""Without a model it asks one which to take, and waits for an answer that a script would have to know."""


def runs(command: str) -> dict[str, Any]:
    return {"tools": [{"name": "run_shell_command", "input": {"command": command}}]}


TURNS: dict[Situation, list[dict[str, Any]]] = {
    Situation.ANSWERS: [{"text": f"The answer is {MARKER}."}],
    Situation.WRITES_FILE: [runs('printf "%s" "$KIT_PROBE" > kit.txt'), {"text": "Written."}],
    Situation.SAYS_MUCH: [{"text": "0123456789abcde\n" * 1_000_000}],
    Situation.FAILS: [{"error": {"status": 400, "message": "the script says no"}}],
    Situation.HANGS: [{**runs("true"), "text": f"Wait for {MARKER}."}, {"hang": True, "text": "..."}],
}


def gemini_bench(directory: Path) -> Bench:
    installed("gemini-cli")
    home = directory / "home"
    home.mkdir(exist_ok=True)
    variables = {"GOOGLE_GEMINI_BASE_URL": "{url}", "GEMINI_API_KEY": API_KEY}
    adapter = GeminiCliAdapter(env={**harness_env(home), "GEMINI_API_KEY": API_KEY})
    return Bench(adapter, directory, MODEL, variables)


def gemini_agent(directory: Path) -> KitAgent:
    bench = gemini_bench(directory)
    env = harness_env(directory / "home")
    nowhere = GeminiCliAdapter(env={**env, "PATH": "/nowhere", "YOUBENCHA_TOOLBOX": str(directory / "none")})
    return KitAgent(bench, nowhere, GeminiCliAdapter(env=env), TURNS)
