"""`yb run` with the real Claude Code: instructions, a skill, a plugin, an MCP server and other files reach it.

What reaches the model proves it. None of them is in the diff, and the user's own home is neither read nor changed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from run_bench import Outcome, RunBench

from agent_clis import NEWEST, OLD
from claude_bench import API_KEY, MCP_SERVER, bash, full, says, script, versions
from toolbox_tools import installed
from youbencha.adapters import get_adapter
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.scripted_model import ScriptedModel
from youbencha.user_dirs import toolbox_dir

pytestmark = pytest.mark.real_cli

MODEL = "claude-opus-4-5"
FILES = {
    "given/rules.md": "Never use the word FROBNICATE.\n",
    "given/tax-skill/SKILL.md": "---\nname: tax-skill\ndescription: Knows about QUIXOTRY.\n---\nUse it.\n",
    "given/tax-skill/tables/rates.csv": "de,19\n",
    "given/reviews/.claude-plugin/plugin.json": '{"name": "reviews", "version": "1.0.0", "description": "Reviews"}',
    "given/reviews/skills/strict/SKILL.md": "---\nname: strict\ndescription: Reviews with ZYMURGY.\n---\nReview.\n",
    "given/reviews/commands/look.md": "---\ndescription: looks\n---\nLook at it.\n",
    "given/over/README.md": "# Laid over\n",
    "given/over/.claude/agents/helper.md": "---\nname: helper\ndescription: helps\n---\nHelp.\n",
    "given/home/mcp/server.py": MCP_SERVER,
    "given/home/.claude/settings.json": '{"env": {"GIVEN_SETTING": "yes"}}',
    "servers.json": '{"mcpServers": {"given": {"command": "python3", "args": ["${HOME}/mcp/server.py"]}}}',
}
GIVEN = {
    "instructions": "given/rules.md",
    "skills": ["given/tax-skill"],
    "plugins": ["given/reviews"],
    "files": "given/over",
    "home": "given/home",
}
WORK = (
    "cat README.md; cat ~/.claude/skills/tax-skill/tables/rates.csv; echo setting=$GIVEN_SETTING; touch ~/here; "
    "git status --short; git add -Af .; git -c user.name=a -c user.email=a@b commit -qm all; "
    "echo 'TAX = 0.2' > src/prices.py"
)


def write(top: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)


def agent(runs: RunBench, cli: InstalledAgent) -> dict[str, Any]:
    write(runs.root, FILES)
    config = {"prompt": "Fix the tax.", "mcp_config": "servers.json"}
    return {
        "type": "claude-code",
        "version": cli.version,
        "model": MODEL,
        "config": config,
        "env": {"IS_SANDBOX": "1"},
        **GIVEN,
    }


def environment(model: ScriptedModel) -> dict[str, str]:
    engine = {"DOCKER_HOST": os.environ["DOCKER_HOST"]} if "DOCKER_HOST" in os.environ else {}
    toolbox = {"YOUBENCHA_TOOLBOX": str(toolbox_dir(os.environ))}
    return {**engine, **toolbox, "ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": API_KEY}


async def run_with_files(runs: RunBench, cli: InstalledAgent, **more: Any) -> tuple[Outcome, str]:
    """The outcome, and everything that reached the model."""
    async with ScriptedModel(script(bash(WORK), says("Done."))) as model:
        done = await runs.run(agent(runs, cli), env=environment(model), **more)
    assert done.done.code == 0, done.done.err
    return done, json.dumps([request.body for request in model.requests])


def assert_the_agent_had_them(done: Outcome, sent: str) -> None:
    for text in TEXTS:
        assert text in sent
    printed = done.log.tool_calls[0].result or ""
    assert printed.splitlines()[:3] == ["# Laid over", "de,19", "setting=yes"]
    assert printed.splitlines()[3:] == []  # git shows none of the files


def assert_the_diff_does_not(done: Outcome) -> None:
    assert [line for line in done.diff.splitlines() if line.startswith("diff ")] == [
        "diff --git a/src/prices.py b/src/prices.py"
    ]
    assert (done.tree / "README.md").read_text() == "# Shop\n"
    assert not (done.tree / ".claude").exists()


TEXTS = ("FROBNICATE", "tax-skill", "QUIXOTRY", "reviews:strict", "ZYMURGY", "mcp__given__ask_oracle", "helper")
FILES_LEFT = """test "$(find . -name .git -prune -o -type f -print | sort | xargs)" = './README.md ./src/prices.py'"""
SEES_NONE = {"name": "command", "config": {"command": ["sh", "-c", f"{FILES_LEFT} && grep Shop README.md"]}}
"""An evaluator that fails if it sees one of the files."""


@versions(NEWEST, full(OLD))
async def test_claude_code_on_this_computer(runs: RunBench, claude_cli: InstalledAgent) -> None:
    (runs.home / ".claude").mkdir()
    (runs.home / ".claude/CLAUDE.md").write_text("the user's own: SECRETIVE\n")
    done, sent = await run_with_files(runs, claude_cli, evaluators=["git-diff", SEES_NONE], gateway={"type": "builtin"})
    assert_the_agent_had_them(done, sent)
    assert "SECRETIVE" not in sent
    assert_the_diff_does_not(done)
    assert [path.name for path in (runs.home / ".claude").iterdir()] == ["CLAUDE.md"]
    assert not (runs.home / "here").exists()
    assert (runs.root / "given/rules.md").read_text() == FILES["given/rules.md"]


@versions(NEWEST, full(OLD))
async def test_claude_code_in_a_container(runs: RunBench, image: str, claude_cli: InstalledAgent) -> None:
    sandbox = {"type": "docker", "image": image}
    done, sent = await run_with_files(runs, claude_cli, evaluators=["git-diff", SEES_NONE], sandbox=sandbox)
    assert_the_agent_had_them(done, sent)
    assert_the_diff_does_not(done)


OTHERS: dict[str, tuple[str, dict[str, str]]] = {
    "aider": ("anthropic/claude-sonnet-4-5", {"ANTHROPIC_API_BASE": "{url}", "ANTHROPIC_API_KEY": API_KEY}),
    "codex": ("gpt-5-codex", {"OPENAI_BASE_URL": "{url}/v1", "OPENAI_API_KEY": API_KEY}),
    "copilot-cli": (
        "claude-sonnet-4-5",
        {
            "COPILOT_PROVIDER_BASE_URL": "{url}",
            "COPILOT_PROVIDER_TYPE": "anthropic",
            "COPILOT_PROVIDER_API_KEY": API_KEY,
            "COPILOT_OFFLINE": "true",
        },
    ),
    "gemini-cli": ("gemini-2.5-pro", {"GOOGLE_GEMINI_BASE_URL": "{url}", "GEMINI_API_KEY": API_KEY}),
    "opencode": ("anthropic/claude-sonnet-4-5", {"ANTHROPIC_BASE_URL": "{url}", "ANTHROPIC_API_KEY": API_KEY}),
}
EXTENSION = {
    "given/reviews/gemini-extension.json": '{"name": "reviews", "version": "1.0.0", "contextFileName": "CONTEXT.md"}',
    "given/reviews/CONTEXT.md": "An extension's ZYMURGY.\n",
    "given/home/.gemini/settings.json": FILES["servers.json"],
}


@pytest.mark.full
@pytest.mark.parametrize("name", OTHERS)
async def test_other_agents(runs: RunBench, name: str) -> None:
    installed(name)
    places = get_adapter(name).file_places
    texts = ["FROBNICATE", *(["QUIXOTRY"] if places.skills else []), *(["ZYMURGY"] if places.plugins else [])]
    write(runs.root, {**FILES, **(EXTENSION if name == "gemini-cli" else {})})
    texts += ["ask_oracle"] if name == "gemini-cli" else []  # its MCP servers are in the settings of its home
    model_name, variables = OTHERS[name]
    given = {key: GIVEN[key] for key in GIVEN if key in ("files", "home") or getattr(places, key)}
    async with ScriptedModel(script(says("Done."))) as model:
        env = {key: value.format(url=model.url) for key, value in variables.items()}
        about = {"type": name, "model": model_name, "config": {"prompt": "Fix the tax."}, "env": env, **given}
        toolbox = {"YOUBENCHA_TOOLBOX": str(toolbox_dir(os.environ))}
        done = await runs.run(about, env=toolbox, gateway="none", evaluators=["git-diff", SEES_NONE])
    assert done.done.code == 0, done.done.err
    sent = json.dumps([request.body for request in model.requests])
    assert [text for text in texts if text not in sent] == []
    assert done.diff == ""
