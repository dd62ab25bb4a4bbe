"""The adapters as scripts: with real CLIs, and with faults."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from agent_clis import NEWEST, OLD
from claude_bench import API_KEY, ClaudeBench, bash, says, script, versions
from systems import posix_only
from toolbox_tools import installed
from youbencha.scripted_model import ScriptedModel

pytestmark = posix_only("the adapters are shell scripts")

ADAPTERS = Path(__file__).parents[2] / "adapters"
CLAUDE, AIDER, NULL = ADAPTERS / "claude-code" / "adapter.sh", ADAPTERS / "aider" / "adapter.sh", ADAPTERS / "null.sh"
PYTHON = Path(sys.executable).parent
RECORDINGS = Path(__file__).parents[1] / "data" / "other_agents"
FIND_LOG = 'while [ $# -gt 0 ]; do [ "$1" = --analytics-log ] && log=$2; shift; done'
"""A shell line: where Aider is to write its events."""


class Done(NamedTuple):
    code: int
    out: str
    err: str


class Bench:
    def __init__(self, directory: Path) -> None:
        self.workspace, self.home, self.programs = (directory / name for name in ("work", "home", "programs"))
        for path in (self.workspace, self.home, self.programs):
            path.mkdir(parents=True)
        self.task = directory / "task.md"
        self.task.write_text("Do it.")
        self.metrics = directory / "metrics.json"
        self.env = {
            "PATH": f"{self.programs}:{PYTHON}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "TASK_DIR": str(self.workspace),
            "TASK_DESCRIPTION": str(self.task),
            "METRICS_FILE": str(self.metrics),
            "ANTHROPIC_API_KEY": API_KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }

    def program(self, name: str, text: str) -> None:
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    async def run(self, adapter: Path, **env: str) -> Done:
        process = await asyncio.create_subprocess_exec(
            adapter, env={**self.env, **env}, cwd="/", stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        out, err = await process.communicate()
        assert process.returncode is not None
        return Done(process.returncode, out.decode(), err.decode())


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "bench")


@versions(NEWEST, OLD)
async def test_claude_code_by_either_transport(claude: ClaudeBench, bench: Bench) -> None:
    (bench.programs / "claude").symlink_to(claude.cli.executable)
    async with ScriptedModel(script(bash("echo hi > made.txt"), says("done"))) as model:
        done = await bench.run(CLAUDE, PROXY_URL=model.url, CLAUDE_MODEL="claude-of-the-test")
        assert done.code == 0, done
        assert {request.body["model"] for request in model.requests if request.kind == "turn"} == {"claude-of-the-test"}
    assert (bench.workspace / "made.txt").read_text() == "hi\n"
    assert [path.name for path in bench.workspace.iterdir()] == ["made.txt"]
    left = json.loads(bench.metrics.read_text())
    assert left["input_tokens"] >= 200
    assert (left["tools_used"], left["ended"]) == (["Bash"], "completed")
    assert '"result"' in done.out + done.err


@pytest.mark.parametrize(("version", "code"), [("2.0.62", 7), ("2.1.325", 7)])
async def test_claude_code_that_does_not_start(bench: Bench, version: str, code: int) -> None:
    bench.program("claude", f'[ "$1" = --version ] && {{ echo "{version} (Claude Code)"; exit; }}\nexit {code}')
    done = await bench.run(CLAUDE)
    assert done.code == code, done
    assert bench.metrics.exists()


@pytest.mark.parametrize("adapter", [CLAUDE, AIDER])
@pytest.mark.parametrize("missing", ["TASK_DESCRIPTION", "TASK_DIR"])
async def test_missing_files(bench: Bench, adapter: Path, missing: str) -> None:
    done = await bench.run(adapter, **{missing: "/no/such/place"})
    assert done.code == 2
    assert "not found: /no/such/place" in done.err


@pytest.mark.full
async def test_aider(bench: Bench) -> None:
    bench.program("aider", f'exec "{installed("aider").executable}" "$@"')
    subprocess.run(["git", "init", "-q", bench.workspace], check=True)
    edit = "made.txt\n```\n<<<<<<< SEARCH\n=======\nhi\n>>>>>>> REPLACE\n```\n"
    async with ScriptedModel(script(says(edit), tools_optional=True)) as model:
        done = await bench.run(AIDER, PROXY_URL=model.url)
    assert done.code == 0, done
    assert (bench.workspace / "made.txt").read_text() == "hi\n"
    assert sorted(path.name for path in bench.workspace.iterdir()) == [".git", "made.txt"]
    left = json.loads(bench.metrics.read_text())
    assert left["input_tokens"] > 0
    assert left["partial"]


REJECTED = {"error": {"status": 401, "message": "invalid x-api-key"}, "times": "forever"}
NOTHING_KNOWN = {"input_tokens": None, "output_tokens": None, "turns": None, "partial": True}


@pytest.mark.full
async def test_aider_without_an_answer(bench: Bench) -> None:
    """It exits with 0 all the same."""
    bench.program("aider", f'exec "{installed("aider").executable}" "$@"')
    subprocess.run(["git", "init", "-q", bench.workspace], check=True)
    async with ScriptedModel(script(REJECTED, tools_optional=True)) as model:
        done = await bench.run(AIDER, PROXY_URL=model.url)
    assert done.code == 1, done
    assert json.loads(bench.metrics.read_text()) == {**NOTHING_KNOWN, "ended": "failed"}


@pytest.mark.parametrize(
    ("recording", "code", "left"),
    [
        (
            "aider_edit",
            0,
            {"input_tokens": 100, "output_tokens": 20, "turns": 1, "partial": True, "ended": "completed"},
        ),
        ("aider_err", 1, {**NOTHING_KNOWN, "ended": "failed"}),
    ],
)
async def test_a_recorded_aider(bench: Bench, recording: str, code: int, left: dict[str, object]) -> None:
    events = RECORDINGS / f"{recording}-0.86.2" / "analytics.jsonl"
    bench.program("aider", f"{FIND_LOG}\ncp '{events}' \"$log\"")
    assert (await bench.run(AIDER)).code == code
    assert json.loads(bench.metrics.read_text()) == left


async def test_aider_that_fails(bench: Bench) -> None:
    bench.program("aider", "exit 3")
    assert (await bench.run(AIDER)).code == 3
    assert json.loads(bench.metrics.read_text()) == {**NOTHING_KNOWN, "ended": "failed"}


async def test_aider_terminated(bench: Bench, tmp_path: Path) -> None:
    """At a deadline, after the model has answered once; and a link in the file's place is not followed."""
    event = json.dumps({"event": "message_send", "properties": {"prompt_tokens": 12, "completion_tokens": 3}})
    begun = tmp_path / "begun"
    bench.program("aider", f"{FIND_LOG}\necho '{event}' > \"$log\"\necho x > '{begun}'\nexec sleep 1000")
    theirs = tmp_path / "theirs"
    bench.metrics.symlink_to(theirs)
    process = await asyncio.create_subprocess_exec(AIDER, env=bench.env, cwd="/")
    while not begun.exists():
        await asyncio.sleep(0.02)
    process.terminate()
    assert await process.wait() == 143
    left = {"input_tokens": 12, "output_tokens": 3, "turns": 1, "partial": True, "ended": "interrupted"}
    assert json.loads(bench.metrics.read_text()) == left
    assert not theirs.exists()


async def test_the_null_adapter(bench: Bench) -> None:
    assert await bench.run(NULL) == (0, "", "")
