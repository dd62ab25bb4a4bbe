"""CR-4.2: different agents at the same task give logs of the same structure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from copilot_bench import copilot_bench, runs
from recorded_agents import AIDER, CODEX, COPILOT, GEMINI, KEY, OPENCODE, Recording
from recorded_cli import RecordedCli
from toolbox_agents import script

from agent_clis import NEWEST
from claude_bench import ClaudeBench, bash, says, versions
from systems import posix_only
from youbencha.adapters.claude_code import ClaudeCodeAdapter
from youbencha.log.model import YouBenchaLog
from youbencha.sandbox.toolbox.installed import InstalledAgent

WRITE = "printf hello > hello.txt"
CLAUDE = Path(__file__).parents[1] / "data" / "transcripts" / "tool_use-2.1.325.ndjson"


def shape(value: Any) -> Any:
    """What there is, without what it says: the kinds of value, however many of them."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


def compared(log: YouBenchaLog) -> dict[str, Any]:
    data = log.model_dump(mode="json")
    del data["environment"]  # each agent's own
    del data["model_info"]["configured"]  # not every test names a model
    for message in data["messages"]:
        message["timestamp"] = None  # not every agent tells when
    return data


@posix_only("the recorded CLI is a shell script")
@pytest.mark.parametrize(
    ("recording", "unknown"),
    [
        (AIDER, {"tool_calls", "session_id"}),  # its edits have no ids and no results
        (CODEX, {"usage", "turns", "warnings"}),  # no cost; turns are in its session file; it does not know the model
        (COPILOT, {"usage"}),  # tokens are in its own log
        (GEMINI, {"usage", "turns"}),
        (OPENCODE, set()),
    ],
    ids=lambda given: given.adapter.name if isinstance(given, Recording) else "",
)
async def test_recorded_sessions(recording: Recording, unknown: set[str], tmp_path: Path) -> None:
    for agent in ("claude", "other"):
        (tmp_path / agent).mkdir()
    env = {"ANTHROPIC_API_KEY": KEY, "IS_SANDBOX": "1"}
    claude = await RecordedCli(tmp_path / "claude", ClaudeCodeAdapter).play(CLAUDE.read_text(), env=env)
    other = await RecordedCli(tmp_path / "other", recording.adapter).play(
        recording.session,
        before=recording.before,
        files=recording.files,
        env={recording.credential: KEY},
        **recording.config,
    )
    expected, found = shape(compared(claude.log)), shape(compared(other.log))
    assert {key for key in expected if expected[key] != found[key]} == unknown


@pytest.mark.full
@versions(NEWEST)
async def test_claude_code_and_copilot_cli(claude_cli: InstalledAgent, tmp_path: Path) -> None:
    (tmp_path / "claude").mkdir()
    (tmp_path / "copilot").mkdir()
    claude, bench = ClaudeBench(claude_cli, tmp_path / "claude"), copilot_bench(tmp_path / "copilot")
    of_claude = compared((await claude.run(script({**bash(WRITE), "text": "I write."}, says("Done.")))).log)
    of_copilot = compared((await bench.run(script({**runs(WRITE), "text": "I write."}, says("Done.")))).log)

    for cost in ("cost_usd", "cost_source"):  # Copilot bills by request, and names no price
        del of_claude["usage"][cost], of_copilot["usage"][cost]
    assert shape(of_claude) == shape(of_copilot)

    same = ("role", "content")
    said = [[tuple(message[key] for key in same) for message in log["messages"]] for log in (of_claude, of_copilot)]
    assert said[0] == said[1]
    assert len(of_claude["tool_calls"]) == len(of_copilot["tool_calls"]) == 1
    assert (of_claude["turns"], of_claude["usage"]["input_tokens"]) == (2, 200)
    assert (of_copilot["turns"], of_copilot["usage"]["input_tokens"]) == (2, 200)
    assert of_claude["execution"]["status"] == of_copilot["execution"]["status"] == "success"
    for directory in (claude.workspace, bench.directory / "workspace"):
        assert (directory / "hello.txt").read_text() == "hello"
