"""A bench for the real Gemini CLI."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toolbox_agents import API_KEY, WRITE_PROBE, Bench, KitAgent, harness_env, kit_agent, usual_turns

from toolbox_tools import installed
from youbencha.adapters.gemini_cli import GeminiCliAdapter
from youbencha.testing import Situation
from youbencha.testing.agent import MARKER

MODEL = "gemini-2.5-pro"
"""Without a model it asks one which to take, and waits for an answer that a script would have to know."""


def runs(command: str) -> dict[str, Any]:
    return {"tools": [{"name": "run_shell_command", "input": {"command": command}}]}


IN_PIECES = " ".join([MARKER] * 9)
"""A text arrives, and is printed, in four pieces: with so many markers in it, some are printed whole."""


def turns() -> dict[Situation, list[dict[str, Any]]]:
    # Not the same line over and over: the CLI takes that for a loop, and asks the model to stop it.
    much = "".join(f"{line * 7919:015x}\n" for line in range(1_000_000))
    waits = {**runs("true"), "text": IN_PIECES}
    return usual_turns(runs(WRITE_PROBE), waits, answer=IN_PIECES, much=[{"text": much}])


def gemini_bench(directory: Path) -> Bench:
    installed("gemini-cli")
    home = directory / "home"
    home.mkdir(exist_ok=True)
    variables = {"GOOGLE_GEMINI_BASE_URL": "{url}", "GEMINI_API_KEY": API_KEY}
    adapter = GeminiCliAdapter(env={**harness_env(home), "GEMINI_API_KEY": API_KEY})
    return Bench(adapter, directory, MODEL, variables)


def gemini_agent(directory: Path) -> KitAgent:
    bench = gemini_bench(directory)
    # It takes two seconds to start.
    return kit_agent(bench, harness_env(directory / "home"), turns(), time_to_speak_ms=6_000)
