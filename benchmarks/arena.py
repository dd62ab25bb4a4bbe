"""Run the task suite with real agents and scripted models, and rank them: `make arena`. Needs no key.

The agents are Claude Code with two models, Aider if it is in the toolbox, and one that does nothing. All are compared
with Claude Code and the smaller model. `make smoke` is one trial of Claude Code.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from benchmarks.build import BUILD, HERE, build_all
from benchmarks.models import aider_script, claude_code_script
from youbencha.sandbox.toolbox.toolbox import Toolbox
from youbencha.scripted_model import ScriptedModel

CONFIG = HERE.parent / "thunderdome.yaml"
RESULTS = BUILD / "results"
THUNDERDOME = (sys.executable, "-c", "from youbencha.cli import thunderdome; thunderdome()")
ENV = {
    "IS_SANDBOX": "1",  # Claude Code works for root only so; safe here, because the model is a script
    "PYTHONDONTWRITEBYTECODE": "1",
}


def scripted_arena(repositories: Path, *, aider: bool, sandbox: Mapping[str, str], **settings: Any) -> dict[str, Any]:
    """The suite's tasks for the scripted models, in the form of thunderdome.yaml."""
    suite = YAML(typ="safe").load(CONFIG)
    orchestrators: list[dict[str, Any]] = [
        {"name": "claude-opus", "agent": "claude-code", "model": "claude-opus-4-5", "env": ENV},
        {"name": "claude-haiku", "agent": "claude-code", "model": "claude-haiku-4-5", "env": ENV},
        {"name": "aider", "model": "openai/gpt-4.1", "config": {"edit_format": "diff"}, "env": ENV},
        {"name": "null"},
    ]
    return {
        **suite,
        "orchestrators": [orchestrator for orchestrator in orchestrators if aider or orchestrator["name"] != "aider"],
        "baseline": "claude-haiku",
        "tasks": [{**task, "repo": str(repositories / task["id"])} for task in suite["tasks"]],
        "sandbox": dict(sandbox),
        **settings,
    }


async def thunderdome(*arguments: str, env: Mapping[str, str]) -> int:
    process = await asyncio.create_subprocess_exec(*THUNDERDOME, *arguments, env=env)
    return await process.wait()


async def run_arena(options: argparse.Namespace) -> int:
    """Calibrate the suite, then run it, which ends with the leaderboard and the comparisons; or run one task."""
    toolbox = Toolbox()
    if toolbox.find("claude-code") is None:
        await toolbox.install("claude-code", progress=lambda step, detail="", /: print(step, detail, flush=True))
    await build_all()
    config = BUILD / "thunderdome.yaml"
    sandbox = {"type": options.sandbox, **({"image": options.image} if options.image else {})}
    arena = scripted_arena(
        BUILD,
        aider=toolbox.find("aider") is not None,
        sandbox=sandbox,
        trials=options.trials,
        parallel=options.parallel,
        results={"dir": str(RESULTS)},
    )
    if options.smoke:
        agent = {"name": "claude-code", "model": "claude-opus-4-5", "env": ENV}
        arena |= {"orchestrators": [agent], "baseline": None}
    with config.open("w", encoding="utf-8") as file:
        YAML(typ="safe").dump(arena, file)
    # Ctrl-C is for thunderdome: it waits for the trials that are running, which need their models meanwhile.
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, lambda: None)
    async with AsyncExitStack() as stack:
        claude_model = await stack.enter_async_context(ScriptedModel(claude_code_script()))
        aider_model = await stack.enter_async_context(ScriptedModel(aider_script()))
        env = arena_env(claude_model.url, aider_model.url)
        if options.smoke:
            return await thunderdome("run", "-c", str(config), "--task", "bench-time-tracker", "--trials", "1", env=env)
        calibrated = await thunderdome("calibrate", "-c", str(config), env=env)
        if calibrated > 1:  # 1: with warnings
            return calibrated
        return max(calibrated, await thunderdome("run", "-c", str(config), env=env))


def arena_env(anthropic_url: str, openai_url: str) -> dict[str, str]:
    """The environment of thunderdome: where the gateway finds the models, keys that are none, and this Python."""
    return {
        **os.environ,
        "ANTHROPIC_BASE_URL": anthropic_url,
        "ANTHROPIC_API_KEY": "sk-no-key-is-needed-here",
        "OPENAI_BASE_URL": f"{openai_url}/v1",
        "OPENAI_API_KEY": "sk-no-key-is-needed-here",
        # The tasks need Python 3.11, and run `python3`.
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath))),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sandbox", choices=("local", "docker"), default=os.environ.get("ARENA_SANDBOX", "local"))
    parser.add_argument("--image", default=os.environ.get("ARENA_IMAGE"), help="of the containers")
    parser.add_argument("--trials", type=int, default=int(os.environ.get("ARENA_TRIALS", "2")))
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--smoke", action="store_true", help="only bench-time-tracker, once")
    return asyncio.run(run_arena(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
