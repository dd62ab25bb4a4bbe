"""A variant that changes nothing is named: the gateway compares what the real CLI asks of its model."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from arena_process import ArenaProject
from engine_bench import metas

from agent_clis import OLD
from claude_bench import API_KEY, bash, full, says, script, versions
from youbencha.gateway.script import ScriptedModel
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.user_dirs import TOOLBOX_VARIABLE, default_root

SKILL = "---\nname: measure-twice\ndescription: Measure twice, cut once.\n---\nMeasure.\n"
VARIANTS = {
    "again": {"env": {"NOBODY_READS_IT": "1"}},
    "effort": {"config": {"effort": "high"}},
    "claude-md": {"instructions": "moon.md"},
    "skill": {"skills": ["measure-twice"]},
    "prompt": {"config": {"append_system_prompt": "Be brief."}},
    "model": {"model": "claude-sonnet-4-5"},
    "tools": {"config": {"disallowed_tools": ["WebFetch"]}},
}
UNCHANGED = {"again", "effort"}
"""A model without levels of effort is not told about them."""


@versions("newest", full(OLD))
async def test_variants_that_change_no_request_are_named(claude_cli: InstalledAgent, tmp_path: Path) -> None:
    (tmp_path / "measure-twice").mkdir()
    (tmp_path / "measure-twice" / "SKILL.md").write_text(SKILL)
    (tmp_path / "moon.md").write_text("Always speak of the moon.\n")
    agent = {
        "name": "claude",
        "agent": "claude-code",
        "model": "claude-haiku-4-5",
        "version": claude_cli.version,
        "env": {"IS_SANDBOX": "1"},
        "variants": [{"name": name, **changes} for name, changes in VARIANTS.items()],
    }
    project = ArenaProject(tmp_path, orchestrators=[agent], tasks=1, parallel=2, gateway="builtin")
    async with ScriptedModel(script(bash("date > made.txt; date +%N"), says("Done."), after="repeat-last")) as model:
        project.more_env = {
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": API_KEY,
            TOOLBOX_VARIABLE: str(default_root()),
        }
        done = await asyncio.to_thread(project.run_here)
    assert done.returncode == 0, done.stderr
    asked = {
        path.partition("/")[0]: meta.identity.request_fingerprints
        for path, meta in metas(project.latest).items()
        if meta.identity
    }
    same = {name for name, found in asked.items() if found == asked["claude"]}
    assert same == {"claude", *(f"claude+{name}" for name in UNCHANGED)}
    compared = json.loads(project.run_here_as("compare", "--format", "json").stdout)["comparisons"]
    named = {each["first"]["name"] for each in compared if each["unchanged"]}
    assert named == same - {"claude"}
    assert "config.effort changed nothing" in done.stdout.replace("\n  ", " ")
