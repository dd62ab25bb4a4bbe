"""CR-4.2: different agents at the same task give logs of the same structure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from copilot_bench import copilot_bench, runs
from toolbox_agents import script

from agent_clis import NEWEST
from claude_lab import ClaudeLab, bash, says, versions
from youbencha.log import YouBenchaLog
from youbencha.sandbox.toolbox import InstalledAgent

pytestmark = [pytest.mark.real_cli, pytest.mark.full]

WRITE = "printf hello > hello.txt"


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
    for message in data["messages"]:
        message["timestamp"] = None  # not every agent tells when
    return data


@versions(NEWEST)
async def test_claude_code_and_copilot_cli(claude_cli: InstalledAgent, tmp_path: Path) -> None:
    (tmp_path / "claude").mkdir()
    (tmp_path / "copilot").mkdir()
    lab, bench = ClaudeLab(claude_cli, tmp_path / "claude"), copilot_bench(tmp_path / "copilot")
    of_claude = compared((await lab.run(script({**bash(WRITE), "text": "I write."}, says("Done.")))).log)
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
    for directory in (lab.workspace, bench.directory / "workspace"):
        assert (directory / "hello.txt").read_text() == "hello"
