"""A bench for the real Copilot CLI. It uses the scripted model as a custom provider."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toolbox_agents import API_KEY, WAIT, WRITE_PROBE, Bench, KitAgent, harness_env, kit_agent, usual_turns

from agent_clis import OTHERS
from toolbox_tools import installed
from youbencha.adapters.copilot_cli import CopilotCliAdapter

MODEL = "claude-sonnet-4.6"


def runs(command: str) -> dict[str, Any]:
    return {"tools": [{"name": "bash", "input": {"command": command, "description": "a command of the test"}}]}


TURNS = usual_turns(
    runs(WRITE_PROBE),
    {**runs("true"), "text": WAIT},
    # By a tool: its output is printed as it comes, and 15 MB in one message take the CLI three times as long.
    much=[runs("seq 1 2500000"), {"text": "Said."}],
)


def home_env(directory: Path) -> dict[str, str]:
    """A home of its own, but a cache for all: in each new one the CLI unpacks 235 MB."""
    home = directory / "home"
    home.mkdir(exist_ok=True)
    return {**harness_env(home), "XDG_CACHE_HOME": str(directory.parent / "copilot-cache")}


def copilot_bench(directory: Path) -> Bench:
    installed("copilot-cli")
    variables = {
        "COPILOT_PROVIDER_BASE_URL": "{url}",
        "COPILOT_PROVIDER_TYPE": "anthropic",
        "COPILOT_PROVIDER_API_KEY": API_KEY,
        "COPILOT_OFFLINE": "true",
    }
    adapter = CopilotCliAdapter(env={**home_env(directory), "GH_TOKEN": API_KEY})
    return Bench(adapter, directory, MODEL, variables, {"version": OTHERS["copilot-cli"]})


def copilot_agent(directory: Path) -> KitAgent:
    bench = copilot_bench(directory)
    return kit_agent(bench, home_env(directory), TURNS)
