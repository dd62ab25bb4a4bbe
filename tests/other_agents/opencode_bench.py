"""A bench for the real opencode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toolbox_agents import API_KEY, Bench, KitAgent, harness_env

from agent_clis import OTHERS
from toolbox_tools import installed
from youbencha.adapters.opencode import OpenCodeAdapter
from youbencha.testing import Situation
from youbencha.testing.agent import MARKER

MODEL = "claude-sonnet-4-5"


def runs(command: str) -> dict[str, Any]:
    return {"tools": [{"name": "bash", "input": {"command": command, "description": "a command of the test"}}]}


TURNS: dict[Situation, list[dict[str, Any]]] = {
    Situation.ANSWERS: [{"text": f"The answer is {MARKER}."}],
    Situation.WRITES_FILE: [runs('printf "%s" "$KIT_PROBE" > kit.txt'), {"text": "Written."}],
    Situation.SAYS_MUCH: [{"text": "0123456789abcde\n" * 1_000_000}],
    Situation.FAILS: [{"error": {"status": 400, "message": "the script says no"}}],
    Situation.HANGS: [{**runs("true"), "text": f"Wait for {MARKER}."}, {"hang": True, "text": "..."}],
}


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


class OpenCodeAgent(KitAgent):
    time_to_speak_ms = 10_000  # it takes five seconds to start


def opencode_agent(directory: Path) -> KitAgent:
    bench = opencode_bench(directory)
    env = harness_env(directory / "home")
    nowhere = OpenCodeAdapter(env={**env, "PATH": "/nowhere", "YOUBENCHA_TOOLBOX": str(directory / "none")})
    return OpenCodeAgent(bench, nowhere, OpenCodeAdapter(env=env), TURNS)
