"""The demo's steps, from a fresh workspace to a verdict."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from youbencha.adapters import AgentExecutionContext
from youbencha.adapters.claude_code import ClaudeCodeAdapter
from youbencha.events import EventSink
from youbencha.gateway.script import ScriptedModel, load_script
from youbencha.log import YouBenchaLog
from youbencha.process import Command, Limits, run
from youbencha.sandbox.toolbox import InstalledAgent, Toolbox
from youbencha.workspace import Snapshot

_HERE = Path(__file__).parent
_TIMEOUT_MS = 120_000
PROMPT = "The total of a list of prices is wrong. Find out why, mend it, and run the tests."


@dataclass(frozen=True)
class DemoOutcome:
    log: YouBenchaLog
    diff: str
    tests_passed_before: bool
    tests_passed: bool
    artifacts: Path

    @property
    def passed(self) -> bool:
        return self.log.execution.status == "success" and not self.tests_passed_before and self.tests_passed


async def run_demo(directory: Path, *, progress: Callable[[str], None], on_event: EventSink) -> DemoOutcome:
    """Let Claude Code mend a bug below `directory`, and check whether it did."""
    claude = Toolbox().find("claude-code") or await Toolbox().install("claude-code", progress=progress)
    tree, artifacts = directory / "src-modified", directory / "artifacts"
    shutil.copytree(_HERE / "repository", tree, ignore=shutil.ignore_patterns("__pycache__"))
    artifacts.mkdir(parents=True)
    start = await Snapshot.take(tree, directory / "start.git")
    passed_before = await _tests_pass(tree)
    progress(f"Claude Code {claude.version} works in {tree}")
    log = await _run_agent(claude, tree, artifacts, on_event)
    diff = await start.diff()
    (artifacts / "git-diff.patch").write_bytes(diff)
    (artifacts / "youbencha-log.json").write_text(log.model_dump_json(indent=2), encoding="utf-8")
    return DemoOutcome(log, diff.decode(errors="replace"), passed_before, await _tests_pass(tree), artifacts)


async def _run_agent(claude: InstalledAgent, tree: Path, artifacts: Path, on_event: EventSink) -> YouBenchaLog:
    script = load_script(_HERE / "script.yaml")
    variables = {"workspace": str(tree), "python": Path(sys.executable).as_posix()}
    with tempfile.TemporaryDirectory(prefix="youbencha-demo-home-") as home:
        async with ScriptedModel(script, variables=variables) as model:
            context = AgentExecutionContext(
                workspace_dir=tree,
                repo_dir=tree,
                artifacts_dir=artifacts,
                config={"prompt": PROMPT, "executable": str(claude.executable)},
                timeout=_TIMEOUT_MS,
                env={
                    "HOME": home,  # nothing of the person's own Claude Code settings, and nothing left in them
                    "CLAUDE_CONFIG_DIR": str(Path(home) / ".claude"),
                    "ANTHROPIC_BASE_URL": model.url,
                    "ANTHROPIC_API_KEY": "sk-no-key-is-needed-here",
                    "IS_SANDBOX": "1",  # the model's every word is in our own script
                    "PYTHONDONTWRITEBYTECODE": "1",
                },
                on_event=on_event,
            )
            adapter = ClaudeCodeAdapter()
            return adapter.normalize_log(await adapter.execute(context), context)


async def _tests_pass(tree: Path) -> bool:
    command = Command(
        argv=(sys.executable, "-B", "-m", "unittest", "-q"),
        cwd=tree,
        env={"PATH": os.environ.get("PATH", os.defpath)},
    )
    return (await run(command, limits=Limits(timeout_s=60.0))).exit.code == 0
