"""An arena with variants runs: results, baselines, leaderboard, resume and reuse."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from arena_process import ArenaProject
from engine_bench import events, metas

from agent_clis import OLD
from claude_bench import API_KEY, MCP_SERVER, says, script, versions
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.sandbox.toolbox.toolbox import Toolbox
from youbencha.scripted_model import ScriptedModel
from youbencha.user_dirs import TOOLBOX_VARIABLE, toolbox_dir

AGENT: dict[str, Any] = {
    "name": "worker",
    "agent": "command",
    "config": {"command": 'cat "$HOW_TO" > made.txt || rm made.txt', "shell": True, "prompt_by": "none"},
    "env": {"HOW_TO": "how-to.txt"},
    "variants": [{"name": "taught", "files": "for-agents"}, {"name": "other", "env": {"HOW_TO": "TASK.md"}}],
}
"""It knows what to do only if it finds it in a file."""
SCORES = {"worker": 0.0, "worker+other": 1.0, "worker+taught": 1.0}


def project_in(root: Path, **more: Any) -> ArenaProject:
    (root / "for-agents").mkdir()
    (root / "for-agents" / "how-to.txt").write_text("how to\n")
    return ArenaProject(root, orchestrators=[AGENT], tasks=2, **more)


def scores(project: ArenaProject) -> dict[str, float | None]:
    return {path: meta.composite_score for path, meta in metas(project.latest).items()}


def test_variants_run_besides_their_orchestrator(tmp_path: Path) -> None:
    project = project_in(tmp_path)
    done = project.run_here()
    assert done.returncode == 0, done.stderr
    assert scores(project) == {
        f"{name}/task-{number}/trial-1": score for name, score in SCORES.items() for number in (1, 2)
    }
    assert project.latest.info().baselines == {"worker+taught": "worker", "worker+other": "worker"}
    diff = (project.latest.path / "trials/worker+taught/task-1/trial-1/diff.patch").read_text()
    assert "+how to" in diff
    assert "how-to.txt" not in diff
    board = json.loads(project.run_here_as("leaderboard", "--format", "json").stdout)
    assert {row["agent"]: row["score"]["mean"] for row in board["agents"]} == SCORES


def test_only_what_is_selected_is_compared(tmp_path: Path) -> None:
    project = project_in(tmp_path)
    assert project.run_here("--orchestrator", "worker+*", "--task", "task-1").returncode == 0
    assert list(scores(project)) == ["worker+other/task-1/trial-1", "worker+taught/task-1/trial-1"]
    assert project.latest.info().baselines == {}
    assert project.run_here("--orchestrator", "worker", "--orchestrator", "*+other", "--task", "task-1").returncode == 0
    assert project.latest.info().baselines == {"worker+other": "worker"}


def test_a_changed_variant_runs_again_and_its_baseline_does_not(tmp_path: Path) -> None:
    project = project_in(tmp_path)
    assert project.run_here("--task", "task-1").returncode == 0
    before = project.latest
    (tmp_path / "for-agents" / "how-to.txt").write_text("how to do it better\n")
    resumed = project.run_here("--resume")
    assert resumed.returncode == 2
    assert "worker+taught on task-1: the agent" in resumed.stderr
    assert "worker on" not in resumed.stderr
    reused = project.run_here("--task", "task-1", "--reuse", before.name)
    assert reused.returncode == 0, reused.stderr
    found = {path.partition("/")[0]: meta.reused_from for path, meta in metas(project.latest).items()}
    assert found == {"worker": before.name, "worker+other": before.name, "worker+taught": None}
    assert [line["orchestrator"] for line in events(project.latest, "attempt_started")] == ["worker+taught"]


def test_a_run_is_resumed_with_the_baselines_that_it_began_with(tmp_path: Path) -> None:
    project = project_in(tmp_path)
    assert project.run_here("--task", "task-1").returncode == 0
    run = project.latest
    for meta in run.path.glob("trials/worker+taught/*/trial-1"):
        meta.rename(tmp_path / "removed")
    arena = json.loads((tmp_path / "thunderdome.yaml").read_text())
    (tmp_path / "thunderdome.yaml").write_text(json.dumps({**arena, "baseline": "worker+taught"}))
    resumed = project.run_here("--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert project.latest.name == run.name
    assert project.latest.info().baselines == {"worker+taught": "worker", "worker+other": "worker"}
    assert [line["orchestrator"] for line in events(run, "attempt_started")][3:] == ["worker+taught"]


def test_files_that_change_during_a_run_are_not_used(tmp_path: Path) -> None:
    """The agent of the first trial changes them, as a user would who continues to work."""
    project = project_in(tmp_path, trials=2)
    arena = json.loads((tmp_path / "thunderdome.yaml").read_text())
    arena["orchestrators"][0]["config"]["command"] += f"; echo more >> '{tmp_path}/for-agents/how-to.txt'"
    (tmp_path / "thunderdome.yaml").write_text(json.dumps(arena))
    done = project.run_here("--orchestrator", "*+taught", "--task", "task-1")
    assert done.returncode == 1, done.stderr
    assert "The files of worker+taught have changed since the run began." in done.stderr
    assert list(scores(project)) == ["worker+taught/task-1/trial-1"]


SKILL = "---\nname: measure-twice\ndescription: Measure twice, cut once.\n---\nMeasure.\n"


@versions(OLD)
async def test_one_agent_with_two_versions_and_with_a_skill_in_one_run(
    claude_cli: InstalledAgent, tmp_path: Path
) -> None:
    """The real CLI. Only the variant's requests have its skill, its instructions and the tool of its MCP server."""
    newest = Toolbox().find("claude-code")
    assert newest is not None
    (tmp_path / "measure-twice").mkdir()
    (tmp_path / "measure-twice" / "SKILL.md").write_text(SKILL)
    (tmp_path / "moon.md").write_text("Always speak of the moon.\n")
    (tmp_path / "mcp").mkdir()
    (tmp_path / "mcp" / "server.py").write_text(MCP_SERVER)
    server = {"command": sys.executable, "args": [str(tmp_path / "mcp" / "server.py")]}
    (tmp_path / "mcp" / "docs.json").write_text(json.dumps({"mcpServers": {"docs": server}}))
    taught = {
        "name": "taught",
        "skills": ["measure-twice"],
        "instructions": "moon.md",
        "config": {"mcp_config": "mcp/docs.json"},
    }
    agent = {
        "name": "claude",
        "agent": "claude-code",
        "model": "claude-opus-4-5",
        "version": newest.version,
        "env": {"IS_SANDBOX": "1"},
        "variants": [taught, {"name": "old", "version": claude_cli.version, "model": "claude-haiku-4-5"}],
    }
    project = ArenaProject(tmp_path, orchestrators=[agent], tasks=1, parallel=3)
    async with ScriptedModel(script(says("Done."), after="repeat-last")) as model:
        project.more_env = {
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": API_KEY,
            TOOLBOX_VARIABLE: str(toolbox_dir()),
        }
        done = await asyncio.to_thread(project.run_here)
    assert done.returncode == 0, done.stderr
    found = {path.partition("/")[0]: meta for path, meta in metas(project.latest).items()}
    versions_run = {name: meta.identity.agent_version for name, meta in found.items() if meta.identity}
    assert versions_run == {
        "claude": newest.version,
        "claude+taught": newest.version,
        "claude+old": claude_cli.version,
    }
    asked = [json.dumps(request.body) for request in model.requests if request.kind == "turn"]
    assert len(asked) == 3
    assert ["measure-twice" in each for each in asked].count(True) == 1
    for text in ("speak of the moon", "mcp__docs__ask_oracle"):
        assert [text in each for each in asked] == ["measure-twice" in each for each in asked]
    assert {meta.composite_score for meta in found.values()} == {0.0}, "the model did nothing, and files are no work"
