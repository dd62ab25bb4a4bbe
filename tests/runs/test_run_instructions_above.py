"""The real Claude Code reads nothing from directories above the user's results: what reaches the model proves it.

The team's instructions are in the project that has the results in it, as they usually are.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from run_bench import RunBench
from test_run_agent_files import MODEL, environment, write

from agent_clis import NEWEST, OLD
from claude_bench import bash, full, says, script, versions
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.scripted_model import ScriptedModel

pytestmark = pytest.mark.real_cli

ABOVE = {
    "CLAUDE.md": "the team's FROBNICATE\n",
    "CLAUDE.local.md": "FROBNICATE\n",
    "AGENTS.md": "FROBNICATE\n",
    ".claude/CLAUDE.md": "FROBNICATE\n",
    ".claude/rules/one.md": "FROBNICATE\n",
    ".claude/skills/tax/SKILL.md": "---\nname: tax\ndescription: FROBNICATE\n---\nUse it.\n",
    ".claude/agents/helper.md": "---\nname: helper\ndescription: FROBNICATE\n---\nHelp.\n",
    ".claude/commands/look.md": "---\ndescription: FROBNICATE\n---\nLook.\n",
}
WORK = "pwd; git -C . rev-parse --show-toplevel; echo 'TAX = 0.2' > src/prices.py"


def agent(cli: InstalledAgent) -> dict[str, Any]:
    config = {"prompt": "Fix the tax."}
    return {"type": "claude-code", "version": cli.version, "model": MODEL, "config": config, "env": {"IS_SANDBOX": "1"}}


@pytest.mark.parametrize("where", ["project", "home"])
@versions(NEWEST, full(OLD))
async def test_yb_run(runs: RunBench, claude_cli: InstalledAgent, where: str) -> None:
    """`home`: the user's cache is below the instructions, too, and the agent has a new home."""
    project = runs.root / "project"
    project.mkdir()
    write(project if where == "project" else runs.root, ABOVE)
    async with ScriptedModel(script(bash(WORK), says("Done."))) as model:
        runs.write_case(agent(claude_cli), workspace_dir=str(project / ".youbencha-workspace"))
        env = {**environment(model), "TMPDIR": str(Path(runs.root).parent)}
        done = await runs.yb("run", "-c", str(runs.case_file), env=env)
    assert done.code == 0, done.err
    assert "FROBNICATE" not in json.dumps([request.body for request in model.requests])
    (run,) = (path for path in (project / ".youbencha-workspace").iterdir() if path.is_dir())
    assert sorted(path.name for path in run.iterdir()) == [".lock", "artifacts", "src-modified"]
    assert (run / "src-modified/src/prices.py").read_text() == "TAX = 0.2\n"
    assert not (run / "src-modified").is_symlink()
    assert "+TAX = 0.2" in (run / "artifacts/git-diff.patch").read_text()
    assert not list((runs.home / "cache/youbencha/runs").glob("*"))


async def test_it_is_an_error_if_there_is_no_place_for_it(runs: RunBench, monkeypatch: pytest.MonkeyPatch) -> None:
    write(runs.root, {"CLAUDE.md": "FROBNICATE\n"})
    monkeypatch.setattr("tempfile.tempdir", str(runs.root))
    monkeypatch.setenv("TMPDIR", str(runs.root))
    runs.write_case(runs.program("true"))
    done = await runs.yb("run", "-c", str(runs.case_file), env={"TMPDIR": str(runs.root)})
    assert done.code == 2
    assert "INSTRUCTIONS_ABOVE_WORKSPACE" in done.err
    assert str(runs.root / "CLAUDE.md") in done.err
    assert runs.runs() == []
