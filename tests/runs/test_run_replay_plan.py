"""What is known of a replay before anything runs, and what is refused then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from run_bench import RunBench

from youbencha.gateway.cassette.cassette import Cassette
from youbencha.gateway.cassette.matching import NO_PLACES, ModelRequest

AGENT = {"type": "claude-code", "model": "sonnet", "config": {"prompt": "Do it."}}
JUDGE = {"assertions": {"good": "It is good."}}
ANSWER = json.dumps({"type": "message", "content": [], "stop_reason": "end_turn"}).encode()


@pytest.fixture
def cassette(tmp_path: Path) -> Path:
    session = Cassette(tmp_path / "cassette", "record").session(NO_PLACES)
    for text in ("one", "two"):
        body = {"model": "claude-sonnet-4-5", "messages": [{"role": "user", "content": text}]}
        asking = ModelRequest("POST", "/v1/messages", "anthropic-messages", {}, body)
        session.keep(asking, 200, {"content-type": "application/json"}, [(1.0, ANSWER)])
    assert session.recorded == 2
    return tmp_path / "cassette"


async def planned(runs: RunBench, cassette: Path, agent: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    done = await dry(runs, cassette, agent, **more)
    assert done.code == 0, done.err
    return json.loads(done.out)  # type: ignore[no-any-return]


async def dry(runs: RunBench, cassette: Path, agent: dict[str, Any] | None = None, **more: Any) -> Any:
    runs.write_case(agent or AGENT, **more)
    return await runs.yb("run", "-c", str(runs.case_file), "--dry-run", "--json", "--replay", str(cassette))


async def test_contents_of_a_cassette(runs: RunBench, cassette: Path) -> None:
    plan = await planned(runs, cassette)
    assert plan["cassette"] == "2 exchanges of claude-sonnet-4-5 (anthropic-messages)"
    assert plan["cassette_lacks"] == []


async def test_missing_recordings(runs: RunBench, cassette: Path) -> None:
    plan = await planned(runs, cassette, {**AGENT, "model": "claude-opus-4-5"})
    assert plan["cassette_lacks"] == ["any request to the model claude-opus-4-5"]
    plan = await planned(runs, cassette, {"type": "codex", "config": {"prompt": "Do it."}})
    assert plan["cassette_lacks"] == ["any request to the API that codex uses (openai)"]


async def test_invalid_cassettes(runs: RunBench, cassette: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("empty", "nowhere"):
        done = await dry(runs, tmp_path / name)
        assert (done.code, "There is nothing to replay" in done.err) == (2, True)
    next((cassette / "exchanges").iterdir()).write_text("{")
    done = await dry(runs, cassette)
    assert (done.code, "is not JSON" in done.err) == (2, True)


async def test_a_judge_that_would_ask_a_real_model_is_refused(runs: RunBench, cassette: Path) -> None:
    judges = [
        {"name": "agentic-judge:ours", "config": JUDGE},
        {"name": "agentic-judge:theirs", "config": {**JUDGE, "type": "copilot-cli"}},
        {"name": "agentic-judge:program", "config": {**JUDGE, "type": "command", "command": ["true"]}},
    ]
    done = await dry(runs, cassette, evaluators=judges)
    assert done.code == 2
    assert "copilot-cli does not use the gateway" in done.err
    assert "evaluators.1" in done.err
    assert done.err.count("would call a real model") == 1
    runs.write_case(AGENT, evaluators=judges)
    done = await runs.yb("run", "-c", str(runs.case_file), "--dry-run", env={"ANTHROPIC_API_KEY": "k"})
    assert done.code == 0, done.err
