"""A variant that changes nothing is named: the gateway compares what the real CLI asks of its model."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from arena_process import ArenaProject
from engine_bench import metas

from agent_clis import NEWEST, OLD
from claude_bench import API_KEY, bash, full, says, script, versions
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.scripted_model import ScriptedModel
from youbencha.user_dirs import TOOLBOX_VARIABLE, toolbox_dir

SKILL = "---\nname: measure-twice\ndescription: Measure twice, cut once.\n---\nMeasure.\n"
VARIANTS = {
    "again": {"env": {"NOBODY_READS_IT": "1"}},
    "taught": {"instructions": "moon.md"},
    "skill": {"skills": ["measure-twice"]},
}
EFFORTS = {"high": {"config": {"effort": "high"}}, "low": {"config": {"effort": "low"}}}
"""Only new versions have it. For this model, it is high unless they are told otherwise."""
UNCHANGED = {"claude", "claude+again", "claude+high"}


@versions(NEWEST, full(OLD))
async def test_variants_that_change_no_request_are_named(claude_cli: InstalledAgent, tmp_path: Path) -> None:
    (tmp_path / "measure-twice").mkdir()
    (tmp_path / "measure-twice" / "SKILL.md").write_text(SKILL)
    (tmp_path / "moon.md").write_text("Always speak of the moon.\n")
    variants = VARIANTS if claude_cli.version == OLD else VARIANTS | EFFORTS
    agent = {
        "name": "claude",
        "agent": "claude-code",
        "model": "claude-opus-4-5",
        "version": claude_cli.version,
        "env": {"IS_SANDBOX": "1"},
        "variants": [{"name": name, **changes} for name, changes in variants.items()],
    }
    project = ArenaProject(tmp_path, orchestrators=[agent], tasks=1, parallel=2, gateway="builtin")
    async with ScriptedModel(script(bash("date > made.txt; date +%N"), says("Done."), after="repeat-last")) as model:
        project.more_env = {
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": API_KEY,
            TOOLBOX_VARIABLE: str(toolbox_dir()),
        }
        done = await asyncio.to_thread(project.run_here)
    assert done.returncode == 0, done.stderr
    asked = {
        path.partition("/")[0]: meta.identity.request_fingerprints
        for path, meta in metas(project.latest).items()
        if meta.identity
    }
    assert {name for name, found in asked.items() if found == asked["claude"]} == UNCHANGED & asked.keys()
    compared = json.loads(project.run_here_as("compare", "--format", "json").stdout)["comparisons"]
    assert {each["first"]["name"] for each in compared if each["unchanged"]} == UNCHANGED & asked.keys() - {"claude"}
    if claude_cli.version != OLD:
        assert "config.effort changed nothing" in done.stdout.replace("\n  ", " ")
