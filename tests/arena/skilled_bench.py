"""The project's own suite with models of known skill: each solves a task with a given probability.

Whether it solves a trial follows from a seed, the model's name, the task and the number of the trial, of which there is
a hash in the path of the checkout. So a run has the same results every time, in whatever order its trials run.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.arena import ENV, arena_env, scripted_arena
from benchmarks.build import build_task, read_tree
from benchmarks.models import claude_turns
from ruamel.yaml import YAML

from yb import run_here
from youbencha.scripted_model import Script
from youbencha.store.arena import TrialKey
from youbencha.store.arena_run import ArenaRun

QUICK_TASKS = ("recur-month-ends", "overdue-loans", "split-sales-report")
MOST_TRIALS = 60
NO_MODEL = "http://127.0.0.1:1"
AGENT = """
import json, pathlib, sys
outcomes, trees = (json.loads(pathlib.Path(name).read_bytes()) for name in sys.argv[1:3])
*_, trial, _attempt, _random = pathlib.Path.cwd().parent.name.split("-")
if trial in outcomes:
    for name, text in trees[outcomes[trial]].items():
        path = pathlib.Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True) if text is None else path.write_text(text)
"""
"""Does at once what a model would tell an agent to do."""


def solves(seed: int, agent: str, task: str, trial: int, skill: float) -> bool:
    return random.Random(f"{seed}/{agent}/{task}/{trial}").random() < skill


def name_of(agent: str, task: str, trial: int) -> str:
    """How a trial is called in the path of its checkout."""
    run = ArenaRun(Path("run"))
    return run.trial(TrialKey(agent, task, trial)).attempt_id(1).split("-")[1]


class SkilledBench:
    """An arena with agents of known skill, each compared with the first."""

    def __init__(
        self, root: Path, skills: Mapping[str, float], *, seed: int, tasks: Sequence[str] = QUICK_TASKS
    ) -> None:
        self.root = root
        self._skills = skills
        self._seed = seed
        self._tasks = tasks

    async def prepare(self, **settings: Any) -> None:
        """Build the tasks, and write the arena."""
        for task in self._tasks:
            await build_task(task, self.root / "tasks")
        arena = scripted_arena(self.root / "tasks", aider=False, sandbox={"type": "local"}, parallel=3)
        arena["tasks"] = [task for task in arena["tasks"] if task["id"] in self._tasks]
        arena["orchestrators"] = [self._command_agent(name) for name in self._skills]
        with (self.root / "thunderdome.yaml").open("w") as file:
            YAML(typ="safe").dump(arena | {"baseline": next(iter(self._skills))} | settings, file)

    def _command_agent(self, name: str) -> dict[str, Any]:
        files = {
            "agent.py": AGENT,
            "outcomes.json": json.dumps(self._solved()),
            "trees.json": json.dumps(self._trees()),
        }
        for file, text in files.items():
            (self.root / file).write_text(text)
        command = [sys.executable, *(str(self.root / file) for file in files), name]
        return {"name": name, "agent": "command", "config": {"command": command, "prompt_by": "none"}}

    def claude_code(self) -> list[dict[str, Any]]:
        return [
            {"name": name, "agent": "claude-code", "model": f"claude-{name}-4-5", "env": ENV} for name in self._skills
        ]

    def _solved(self) -> dict[str, str]:
        """The solved trials, and the task of each."""
        return {
            name_of(agent, task, trial): task
            for agent, skill in self._skills.items()
            for task in self._tasks
            for trial in range(1, MOST_TRIALS + 1)
            if solves(self._seed, agent, task, trial, skill)
        }

    def _trees(self) -> dict[str, dict[str, str | None]]:
        """What a solution changes in each task; None: the file is deleted."""
        trees: dict[str, dict[str, str | None]] = {}
        for task in self._tasks:
            before, after = read_tree(task), read_tree(task, "solution")
            changed = {name: content.decode() for name, content in after.items() if before.get(name) != content}
            trees[task] = {**changed, **{name: None for name in before if name not in after}}
        return trees

    async def run(self, *arguments: str, model: str = NO_MODEL) -> str:
        return await self.thunderdome("run", "--until-decided", "--quiet", *arguments, model=model)

    async def compared(self, *names: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(await self.thunderdome("compare", *names, "--format=json"))
        return found

    async def thunderdome(self, *arguments: str, model: str = NO_MODEL) -> str:
        """Run a command in this process, which is quicker, and return what it prints."""
        env = {**arena_env(model, model), "NO_COLOR": "1", "COLUMNS": "160"}
        done = await asyncio.to_thread(run_here, ("bench", *arguments), cwd=self.root, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def script(self) -> Script:
        """The models, for the real Claude Code CLI: it tells them in which directory it works."""
        solved = self._solved()
        conversations = []
        for task in self._tasks:
            before, after = read_tree(task), read_tree(task, "solution")
            for agent in self._skills:
                for trial in range(1, MOST_TRIALS + 1):
                    where = name_of(agent, task, trial)
                    turns = claude_turns(before, after if where in solved else before)
                    conversations.append({"when": {"user_contains": f"-{where}-"}, "turns": turns})
        return Script.model_validate({"turns": [{"text": "Where am I?"}], "conversations": conversations})
