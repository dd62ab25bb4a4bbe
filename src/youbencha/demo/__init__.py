"""The demo: a run with the real Claude Code CLI, a scripted model and a repository with a bug. Needs no key."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from youbencha.events import EventSink
from youbencha.gateway.script import ScriptedModel, load_script
from youbencha.progress import StepProgress
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.sandbox.toolbox.toolbox import Toolbox
from youbencha.spec.settings import load_settings
from youbencha.trial.context import Host
from youbencha.trial.plan import PlanOptions, load_plan
from youbencha.trial.results import TrialResult
from youbencha.trial.run import run_trial
from youbencha.workspace.git import git

__all__ = ["TEST_CASE", "Demo", "prepare_demo", "run_demo"]
_HERE = Path(__file__).parent
TEST_CASE = _HERE / "testcase.yaml"
_IDENTITY = {"user.name": "youBencha", "user.email": "demo@youbencha.invalid"}


@dataclass(frozen=True)
class Demo:
    """A temporary directory with the demo's repository, and its agent."""

    directory: Path
    claude: InstalledAgent


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
    settings = load_settings(demo.directory, demo.directory)  # not the user's settings: the demo is the same everywhere
    host = Host(os.environ, settings)
    script = load_script(_HERE / "script.yaml")
    home = demo.directory / "home"
    home.mkdir()
    async with ScriptedModel(script, variables={"python": Path(sys.executable).as_posix()}) as model:
        variables = {
            "CLAUDE": str(demo.claude.executable),
            "HOME": str(home),  # neither reads nor changes the user's own Claude Code settings
            "MODEL_URL": model.url,
            "PYTHON": sys.executable,
            "REPOSITORY": str(demo.directory / "repository"),
        }
        plan = load_plan(TEST_CASE, host, variables=variables, options=PlanOptions(workspace_dir=workspace))
        return await run_trial(plan, host, on_event=on_event)
