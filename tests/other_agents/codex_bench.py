"""A bench for the real Codex."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toolbox_agents import API_KEY, WAIT, WRITE_PROBE, Bench, KitAgent, harness_env, kit_agent, usual_turns

from toolbox_tools import installed
from youbencha.adapters.codex import CodexAdapter

MODEL = "gpt-5-codex"
"""Codex does not know it, and therefore offers the plain tools."""


def runs(command: str) -> dict[str, Any]:
    return {"tools": [{"name": "exec_command", "input": {"cmd": command}}]}


TURNS = usual_turns(runs(WRITE_PROBE), {**runs("true"), "text": WAIT})


def codex_bench(directory: Path) -> Bench:
    installed("codex")
    home = directory / "home"
    home.mkdir(exist_ok=True)
    variables = {"OPENAI_BASE_URL": "{url}/v1", "OPENAI_API_KEY": API_KEY}
    adapter = CodexAdapter(env={**harness_env(home), "OPENAI_API_KEY": API_KEY})
    return Bench(adapter, directory, MODEL, variables)


def codex_agent(directory: Path) -> KitAgent:
    bench = codex_bench(directory)
    # It starts in one second, and speaks at once.
    return kit_agent(bench, harness_env(directory / "home"), TURNS, time_to_speak_ms=4_000)
