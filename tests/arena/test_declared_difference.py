"""Arms differ in what is declared, and in nothing else; and what was declared is in the results.

The real CLI: what reaches the model proves it.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from arena_process import ArenaProject
from engine_bench import metas

from agent_clis import NEWEST
from claude_bench import API_KEY, says, script, versions
from git_repositories import git
from youbencha.report.commit_files import CommitFiles, commit_notes, describe_files
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.scripted_model import ScriptedModel
from youbencha.user_dirs import TOOLBOX_VARIABLE, toolbox_dir

COMMIT = {
    "CLAUDE.md": "The commit says ZYMURGY.\n",
    ".claude/skills/tax/SKILL.md": "---\nname: tax\ndescription: Knows about QUIXOTRY.\n---\nUse it.\n",
}
SECRET = "hunter2-hunter2"
GIVEN = {
    "CLAUDE.md": "The team says FROBNICATE.\n",
    "mcp.json": json.dumps({"mcpServers": {"docs": {"command": "true", "env": {"DOCS_TOKEN": SECRET}}}}),
    "skills/measure/SKILL.md": "---\nname: measure\ndescription: Measure.\n---\nMeasure.\n",
}


def write(top: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)


def project_in(root: Path, agent: dict[str, Any]) -> ArenaProject:
    """A project with the team's instructions above the results, and a task whose commit has its own."""
    write(root, GIVEN)
    project = ArenaProject(root, orchestrators=[agent], tasks=1, parallel=3)
    write(root / "repository", COMMIT)
    for arguments in (("add", "-A"), ("commit", "-q", "-m", "instructions"), ("tag", "-f", "v1")):
        git(root / "repository", *arguments)
    return project


def claude(cli: InstalledAgent | None = None) -> dict[str, Any]:
    return {
        "name": "claude",
        "agent": "claude-code",
        "model": "claude-opus-4-5",
        "env": {"IS_SANDBOX": "1", "PLAIN_KEY": SECRET},
        "variants": [
            {"name": "bare", "without": ["CLAUDE.md", ".claude"]},
            {
                "name": "team",
                "without": ["CLAUDE.md", ".claude"],
                "instructions": "CLAUDE.md",
                "skills": ["skills/measure"],
                "config": {"mcp_config": "mcp.json"},
            },
        ],
        **({"version": cli.version} if cli else {}),
    }


@versions(NEWEST)
@pytest.mark.real_cli
async def test_each_arm_gets_what_it_declares(claude_cli: InstalledAgent, tmp_path: Path) -> None:
    project = project_in(tmp_path, claude(claude_cli))
    async with ScriptedModel(script(says("Done."), after="repeat-last")) as model:
        toolbox = {TOOLBOX_VARIABLE: str(toolbox_dir())}
        project.more_env = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": API_KEY, **toolbox}
        done = await asyncio.to_thread(project.run_here)
    assert done.returncode == 0, done.stderr
    asked = [json.dumps(request.body) for request in model.requests if request.kind == "turn"]
    words = ("FROBNICATE", "ZYMURGY", "QUIXOTRY", "claude+")  # the last one would be a path that tells the arm
    assert sorted([word in each for word in words] for each in asked) == [
        [False, False, False, False],
        [False, True, True, False],
        [True, False, False, False],
    ]
    run = project.latest.path
    assert {(run / name).read_text() for name in run.glob("trials/*/*/*/diff.patch")} == {""}
    found = {path.partition("/")[0]: meta.identity for path, meta in metas(project.latest).items()}
    brought = {name: identity.commit_files for name, identity in found.items() if identity}
    assert brought == {"claude": (".claude/skills/tax/SKILL.md", "CLAUDE.md"), "claude+bare": (), "claude+team": ()}
    team = run / "agents/claude+team"
    assert (team / "instructions/CLAUDE.md").read_text() == GIVEN["CLAUDE.md"]
    assert (team / "skills/measure/SKILL.md").read_text() == GIVEN["skills/measure/SKILL.md"]
    assert json.loads((team / "mcp_config/mcp.json").read_text())["mcpServers"]["docs"]["command"] == "true"
    assert SECRET not in (team / "mcp_config/mcp.json").read_text() + (team / "agent.json").read_text()
    board = json.loads(project.run_here_as("leaderboard", "--format", "json").stdout)
    assert "task-1: the commit has its own CLAUDE.md and 1 skill: read by claude" in board["notes"]


def test_what_was_tested_is_in_the_results(tmp_path: Path) -> None:
    """Once for each orchestrator, with secrets masked; however the trials end."""
    agent = {"name": "worker", "agent": "command", "config": {"command": ["true"]}, "env": {"PLAIN_KEY": SECRET}}
    project = project_in(tmp_path, {**agent, "variants": [{"name": "laid", "files": "skills"}]})
    write(tmp_path, {"skills/.env": f"API_KEY={SECRET}\n", "skills/data.bin": "\0"})
    project.run_here()
    agents = project.latest.path / "agents"
    assert sorted(path.name for path in agents.iterdir()) == ["worker", "worker+laid"]
    assert (agents / "worker+laid/files/measure/SKILL.md").read_text() == GIVEN["skills/measure/SKILL.md"]
    about = json.loads((agents / "worker+laid/agent.json").read_text())
    assert about["agent"]["files"] == "skills"
    assert {file["path"]: file["kept"] for file in about["files"]} == {
        "files/.env": True,
        "files/data.bin": False,
        "files/measure/SKILL.md": True,
    }
    assert not list(project.latest.path.glob("trials/**/agent-files"))
    assert [path for path in agents.rglob("*") if path.is_file() and SECRET in path.read_text()] == []


def test_the_dry_run_says_what_the_commit_brings(tmp_path: Path) -> None:
    project = project_in(tmp_path, claude())
    shown = project.run_here("--dry-run").stdout
    assert "note: task-1: the commit has its own CLAUDE.md and 1 skill: read by claude\n" in shown
    cells = json.loads(project.run_here("--dry-run", "--json").stdout)["cells"]
    assert [len(cell["commit_files"]) for cell in cells] == [2, 0, 0]


def test_the_task_can_do_without_them(tmp_path: Path) -> None:
    project = project_in(tmp_path, claude())
    arena = json.loads((tmp_path / "thunderdome.yaml").read_text())
    arena["tasks"][0]["without"] = [".claude", "CLAUDE.md"]
    (tmp_path / "thunderdome.yaml").write_text(json.dumps(arena))
    done = project.run_here("--dry-run")
    assert done.returncode == 0, done.stderr
    assert "note:" not in done.stdout


SKILL = ".claude/skills/a/SKILL.md"
NOTES: dict[str, tuple[list[CommitFiles], list[str]]] = {
    "none": ([CommitFiles("t", "a", ())], []),
    "every arm": (
        [CommitFiles("t", "a", ("CLAUDE.md",)), CommitFiles("t", "b", ("CLAUDE.md",))],
        ["t: the commit has its own CLAUDE.md: every arm reads it"],
    ),
    "several": (
        [CommitFiles("t", "a", ("CLAUDE.md", SKILL))],
        ["t: the commit has its own CLAUDE.md and 1 skill: every arm reads them"],
    ),
    "different": (
        [CommitFiles("t", "a", ("CLAUDE.md",)), CommitFiles("t", "b", ("AGENTS.md",)), CommitFiles("t", "c", ())],
        ["t: the commit has its own CLAUDE.md: read by a", "t: the commit has its own AGENTS.md: read by b"],
    ),
    "many tasks": (
        [CommitFiles("t", "a", ("CLAUDE.md",)), CommitFiles("u", "a", ("CLAUDE.md",))],
        ["t, u: the commit has its own CLAUDE.md: every arm reads it"],
    ),
}


@pytest.mark.parametrize("what", NOTES)
def test_notes(what: str) -> None:
    cells, expected = NOTES[what]
    assert list(commit_notes(cells)) == expected


def test_in_words() -> None:
    files = [
        "CLAUDE.md",
        ".mcp.json",
        SKILL,
        ".claude/skills/b/SKILL.md",
        ".claude/agents/x.md",
        ".claude/commands/c.md",
    ]
    assert describe_files(files) == "CLAUDE.md, .mcp.json, 2 skills, 1 subagent and 1 command"
