"""The demos: a run and a loop with the real Claude Code CLI, a scripted model and a repository with a bug."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from string import Template

from youbencha.events import EventSink, StepProgress
from youbencha.loop.control import LoopControl
from youbencha.loop.directory import LoopDirectory, new_loop_id
from youbencha.loop.plan import plan_loop
from youbencha.loop.run import new_history, run_loop
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.sandbox.toolbox.toolbox import Toolbox
from youbencha.scripted_model import ScriptedModel, load_script
from youbencha.spec.loop_loader import load_loop_file
from youbencha.spec.settings import load_settings
from youbencha.store.loops import LoopState
from youbencha.trial.context import Host
from youbencha.trial.plan import PlanOptions, load_plan
from youbencha.trial.results import TrialResult
from youbencha.trial.run import run_trial
from youbencha.workspace.git import git

__all__ = ["LOOP", "TEST_CASE", "Demo", "prepare_demo", "run_demo", "run_loop_demo"]
_HERE = Path(__file__).parent
TEST_CASE = _HERE / "testcase.yaml"
LOOP = _HERE / "ralph.yml"
_IDENTITY = {"user.name": "youBencha", "user.email": "demo@youbencha.invalid"}


@dataclass(frozen=True)
class Demo:
    """A temporary directory with the demo's repository, and its agent."""

    directory: Path
    claude: InstalledAgent

    @property
    def repository(self) -> Path:
        return self.directory / "repository"


async def prepare_demo(directory: Path, *, progress: StepProgress) -> Demo:
    """Install the CLI in the toolbox if needed, and write a repository with a bug."""
    claude = Toolbox().find("claude-code") or await Toolbox().install("claude-code", progress=progress)
    repository = directory / "repository"
    shutil.copytree(_HERE / "repository", repository, ignore=shutil.ignore_patterns("__pycache__"))
    git_dir = repository / ".git"
    await git(git_dir, "init", "--quiet", "--initial-branch=main", tree=repository)
    await git(git_dir, "add", "--all", tree=repository)
    await git(
        git_dir, "commit", "--quiet", "--message", "A shop whose totals are wrong", tree=repository, settings=_IDENTITY
    )
    return Demo(directory, claude)


async def run_demo(demo: Demo, workspace: Path, *, on_event: EventSink) -> TrialResult:
    """Let Claude Code fix the bug, and evaluate the result. The run is one of the workspace, like any other."""
    async with _serve_model(demo, "script.yaml") as (host, variables):
        plan = load_plan(TEST_CASE, host, variables=variables, options=PlanOptions(workspace_dir=workspace))
        return await run_trial(plan, host, on_event=on_event)


async def run_loop_demo(demo: Demo, *, on_event: EventSink) -> LoopState:
    """Let Claude Code work in the repository until the tests pass."""
    async with _serve_model(demo, "loop-script.yaml") as (host, variables):
        file = demo.directory / "ralph.yml"
        file.write_text(Template(LOOP.read_text(encoding="utf-8")).safe_substitute(variables), encoding="utf-8")
        plan = plan_loop(load_loop_file(file), host, demo.repository)
        directory = LoopDirectory(demo.repository, new_loop_id())
        directory.create()
        history = new_history(plan, directory.loop_id)
        return await run_loop(plan, host, LoopControl(), on_event, directory=directory, history=history)


@asynccontextmanager
async def _serve_model(demo: Demo, script: str) -> AsyncIterator[tuple[Host, dict[str, str]]]:
    """Serve the scripted model; yield the host, and the variables of the demo's files."""
    settings = load_settings(demo.directory, demo.directory)  # not the user's settings: the demo is the same everywhere
    home = demo.directory / "home"
    home.mkdir()
    python = {"python": Path(sys.executable).as_posix()}
    async with ScriptedModel(load_script(_HERE / script), variables=python) as model:
        yield (
            Host(os.environ, settings),
            {
                "CLAUDE": str(demo.claude.executable),
                "HOME": str(home),  # neither reads nor changes the user's own Claude Code settings
                "MODEL_URL": model.url,
                "PYTHON": sys.executable,
                "REPOSITORY": str(demo.repository),
            },
        )
