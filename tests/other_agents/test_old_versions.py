"""Versions of CLIs that are too old are refused before a run, or driven without the flags that they lack."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from copilot_bench import copilot_bench
from opencode_bench import opencode_bench
from recorded_agents import COPILOT, OPENCODE, Recording
from recorded_cli import RecordedCli
from toolbox_agents import Bench, script

from agent_clis import OLD_OTHERS
from toolbox_tools import installed
from yb import yb
from youbencha.adapters import AgentExecutionContext
from youbencha.adapters.aider import AiderAdapter
from youbencha.adapters.claude_code import ClaudeCodeAdapter
from youbencha.adapters.cli_agent import CliAdapter
from youbencha.adapters.codex import CodexAdapter
from youbencha.adapters.copilot_cli import CopilotCliAdapter
from youbencha.adapters.gemini_cli import GeminiCliAdapter
from youbencha.adapters.opencode import OpenCodeAdapter
from youbencha.errors import YouBenchaError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the programs are shell scripts")

# The oldest that works, and the newest that does not, as they were measured.
MEASURED: list[tuple[type[CliAdapter[Any]], str, str]] = [
    (ClaudeCodeAdapter, "1.0.8", "1.0.5"),
    (CodexAdapter, "0.44.0", "0.42.0"),
    (CopilotCliAdapter, "1.0.32", "1.0.24"),
    (GeminiCliAdapter, "0.24.0", "0.22.4"),
    (OpenCodeAdapter, "1.17.0", "1.15.13"),
    (AiderAdapter, "0.83.0", "0.82.3"),
]
every_agent = pytest.mark.parametrize(
    ("adapter", "oldest", "too_old"), MEASURED, ids=[adapter.name for adapter, *_ in MEASURED]
)
KEYS = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GH_TOKEN"), "sk-dummy-0123456789abcdef")


def program(directory: Path, command: str, version: str) -> Path:
    """Prints its version, and notes when it is started for anything else."""
    directory.mkdir(exist_ok=True)
    path = directory / command
    path.write_text(f'#!/bin/sh\n[ "$1" = --version ] && {{ echo "{version}"; exit; }}\ntouch {directory}/started\n')
    path.chmod(0o755)
    return path


def harness(directory: Path) -> dict[str, str]:
    path = f"{directory / 'bin'}:/usr/bin:/bin"
    return {"PATH": path, "HOME": str(directory), "YOUBENCHA_TOOLBOX": str(directory / "toolbox"), **KEYS}


@every_agent
async def test_a_version_that_is_too_old_is_refused_before_it_starts(
    adapter: type[CliAdapter[Any]], oldest: str, too_old: str, tmp_path: Path
) -> None:
    agent = adapter(env=harness(tmp_path))
    program(tmp_path / "bin", agent.program, too_old)
    context = AgentExecutionContext(
        workspace_dir=tmp_path, repo_dir=tmp_path, artifacts_dir=tmp_path / "artifacts", config={"prompt": "Do it."}
    )
    checks = (agent.check_availability(), agent.check_ready({"prompt": "Do it."}, {}), agent.execute(context))
    for check in (*checks, agent.check_version({"prompt": "Do it.", "version": too_old}, {})):
        with pytest.raises(YouBenchaError) as caught:
            await check
        assert caught.value.code == agent.code("VERSION_TOO_OLD")
        assert f"{too_old}" in caught.value.message
        assert f"works with {oldest} and later" in caught.value.message
        assert f"`yb agents install {agent.name}`" in (caught.value.hint or "")
    assert not (tmp_path / "bin" / "started").exists()
    program(tmp_path / "bin", agent.program, oldest)
    await agent.check_version({"prompt": "Do it."}, {})
    assert await adapter(env=harness(tmp_path)).check_availability() is True


async def test_one_that_is_too_old_on_path_does_not_hide_one_in_the_toolbox(tmp_path: Path) -> None:
    program(tmp_path / "bin", "copilot", "1.0.24")
    home = tmp_path / "toolbox" / "copilot-cli" / "1.0.102"
    home.mkdir(parents=True)
    program(home, "copilot", "1.0.102")
    facts = {"agent": "copilot-cli", "version": "1.0.102", "executable": "copilot", "sha256": "0" * 64}
    facts |= {"source": "npm", "package": "copilot", "installed_at": "2026-01-01T00:00:00Z"}
    (home / "manifest.json").write_text(json.dumps({**facts, "size_bytes": 1}))
    agent = CopilotCliAdapter(env=harness(tmp_path))
    config = agent.config_model(prompt="Do it.")
    assert (await agent.locate(config, harness(tmp_path), None)).version == "1.0.102"


def test_every_door_names_the_oldest_that_works(tmp_path: Path) -> None:
    program(tmp_path / "bin", "copilot", "1.0.24")
    case = {"name": "a", "repo": str(tmp_path / "shop"), "evaluators": ["git-diff"]}
    case["agent"] = {"type": "copilot-cli", "config": {"prompt": "Do it."}}
    (tmp_path / "case.json").write_text(json.dumps(case))
    task = {"repo": "./shop", "tag": "v1", "test_cmd": "true"}
    arena = {"orchestrators": [{"name": "copilot-cli"}], "tasks": [task], "gateway": "none", "sandbox": "local"}
    (tmp_path / "arena.json").write_text(json.dumps(arena))
    identity = ("-c", "user.name=x", "-c", "user.email=x@localhost")
    subprocess.run(["git", "init", "-q", tmp_path / "shop"], check=True)
    (tmp_path / "shop" / "TASK.md").write_text("Do it.")
    for words in (("add", "TASK.md"), ("commit", "-q", "-m", "a"), ("tag", "v1")):
        subprocess.run(["git", *identity, *words], cwd=tmp_path / "shop", check=True)
    env = {**harness(tmp_path), "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    doors = {
        ("run", "-c", "case.json"): 2,
        ("bench", "run", "-c", "arena.json"): 2,
        ("validate", "-c", "case.json"): 0,
        ("doctor",): None,
    }
    for words, code in doors.items():
        done = yb(*words, cwd=tmp_path, **env)
        assert code in (None, done.returncode), done.stderr
        assert "works with 1.0.32 and later" in " ".join((done.stdout + done.stderr).split())
    assert not (tmp_path / "bin" / "started").exists()


@pytest.mark.parametrize(
    ("recording", "version", "flags"),
    [
        (COPILOT, "1.0.54", set()),
        (COPILOT, "1.0.55", {"--session-id"}),
        (OPENCODE, "1.17.11", {"--dangerously-skip-permissions"}),
        (OPENCODE, "1.17.18", {"--auto"}),
    ],
)
async def test_flags_that_not_every_version_has(
    recording: Recording, version: str, flags: set[str], tmp_path: Path
) -> None:
    cli = RecordedCli(tmp_path, recording.adapter)
    env = {recording.credential: KEYS["GH_TOKEN"]}
    played = await cli.play(recording.session, env=env, prints_version=version, **recording.config)
    assert played.result.status == "success", played.result.errors
    assert {"--session-id", "--dangerously-skip-permissions", "--auto"} & set(played.argv) == flags


@pytest.mark.real_cli
@pytest.mark.full
@pytest.mark.parametrize(("name", "bench_of"), [("copilot-cli", copilot_bench), ("opencode", opencode_bench)])
async def test_the_oldest_that_works(name: str, bench_of: Any, tmp_path: Path) -> None:
    installed(name, OLD_OTHERS[name])
    bench: Bench = bench_of(tmp_path)
    call = {"name": "bash", "input": {"command": "echo hello > hello.txt", "description": "a command of the test"}}
    session = await bench.run(script({"tools": [call]}, {"text": "Done."}), version=OLD_OTHERS[name], timeout=120_000)
    assert session.result.status == "success", session.result.errors
    assert session.log.agent_info.version == OLD_OTHERS[name]
    assert (tmp_path / "workspace" / "hello.txt").read_text() == "hello\n"
