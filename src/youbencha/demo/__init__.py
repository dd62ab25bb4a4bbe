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

__all__ = ["Demo", "prepare_demo", "run_demo"]
_HERE = Path(__file__).parent
_IDENTITY = {"user.name": "youBencha", "user.email": "demo@youbencha.invalid"}


@dataclass(frozen=True)
class Demo:
    """The demo's files, all in one directory, and its agent."""

    directory: Path
    claude: InstalledAgent

    @property
    def test_case(self) -> Path:
        return self.directory / "testcase.yaml"


async def prepare_demo(directory: Path, *, progress: StepProgress) -> Demo:
    """Install the CLI in the toolbox if needed, and write a repository with a bug and a test case."""
    claude = Toolbox().find("claude-code") or await Toolbox().install("claude-code", progress=progress)
    _make_ignored(directory.parent)
    repository = directory / "repository"
    shutil.copytree(_HERE / "repository", repository, ignore=shutil.ignore_patterns("__pycache__"))
    git_dir = repository / ".git"
    await git(git_dir, "init", "--quiet", "--initial-branch=main", tree=repository)
    await git(git_dir, "add", "--all", tree=repository)
    await git(
        git_dir, "commit", "--quiet", "--message", "A shop whose totals are wrong", tree=repository, settings=_IDENTITY
    )
    shutil.copyfile(_HERE / "testcase.yaml", directory / "testcase.yaml")
    return Demo(directory, claude)


def _make_ignored(directory: Path) -> None:
    """Create the workspace with a `.gitignore`, so that it does not appear in the user's repository."""
    if not directory.exists():
        directory.mkdir(parents=True)
        (directory / ".gitignore").write_text("*\n")


async def run_demo(demo: Demo, *, on_event: EventSink) -> TrialResult:
    """Let Claude Code fix the bug, and evaluate the result."""
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
        }
        options = PlanOptions(workspace_dir=demo.directory / "workspace")
        plan = load_plan(demo.test_case, host, variables=variables, options=options)
        try:
            return await run_trial(plan, host, on_event=on_event)
        finally:
            shutil.rmtree(home, ignore_errors=True)
