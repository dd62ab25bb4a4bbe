"""A bench for the real opencode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toolbox_agents import API_KEY, WAIT, WRITE_PROBE, Bench, KitAgent, harness_env, kit_agent, usual_turns

from agent_clis import OTHERS
from toolbox_tools import installed
from youbencha.adapters.opencode import OpenCodeAdapter

MODEL = "claude-sonnet-4-5"


def runs(command: str) -> dict[str, Any]:
    return {"tools": [{"name": "bash", "input": {"command": command, "description": "a command of the test"}}]}


TURNS = usual_turns(runs(WRITE_PROBE), {**runs("true"), "text": WAIT})


def opencode_bench(directory: Path) -> Bench:
    installed("opencode")
    home = directory / "home"
    home.mkdir(exist_ok=True)
    variables = {
        "ANTHROPIC_BASE_URL": "{url}",
        "ANTHROPIC_API_KEY": API_KEY,
        "OPENCODE_DISABLE_MODELS_FETCH": "1",  # models.dev is none of a test's business
    }
    adapter = OpenCodeAdapter(env={**harness_env(home), "ANTHROPIC_API_KEY": API_KEY})
    return Bench(adapter, directory, MODEL, variables, {"version": OTHERS["opencode"]})


def opencode_agent(directory: Path) -> KitAgent:
    bench = opencode_bench(directory)
    # It takes five seconds to start.
    return kit_agent(bench, harness_env(directory / "home"), TURNS, time_to_speak_ms=10_000)
