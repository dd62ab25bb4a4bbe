"""A whole evaluation with the real Claude Code, judge included: recorded here, run again elsewhere without a model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from run_bench import Outcome, RunBench

from agent_clis import NEWEST, OLD
from claude_bench import API_KEY, bash, full, says, script, uses, versions
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.scripted_model import Script, ScriptedModel
from youbencha.store.bundle import CassetteReport

TOKENS = {"input_tokens": 1000, "output_tokens": 25}
VERDICT = json.dumps({"assertions": {"tax_is_right": {"score": 1, "reason": "0.2 it is"}}})
JUDGE = {
    "when": {"prompt_contains": "tax_is_right"},
    "turns": [uses("Read", file_path="${cwd}/src/prices.py"), says(f"```json\n{VERDICT}\n```")],
}
ANSWERS = script(
    bash("date; ls -la; git log -1; python3 -c 'import time; time.sleep(0.1)'"),
    uses("Read", file_path="${cwd}/src/prices.py"),
    uses("Write", file_path="${cwd}/src/prices.py", content="TAX = 0.2\n"),
    says("Done: it is in ${cwd}/src/prices.py."),
    usage=TOKENS,
    conversations=[JUDGE],
)
EVALUATORS = ["git-diff", {"name": "agentic-judge", "config": {"assertions": {"tax_is_right": "The tax is 0.2."}}}]

PROGRAM = """
import os, random, socket, tempfile
server, ms = socket.socket(), random.randint(3, 400)
server.bind(("127.0.0.1", 0))
port = server.getsockname()[1]
print(f"1 passed in {ms / 777:.2f}s\\nok 1 - adds ({ms} ms)\\n# duration_ms {ms / 3.7}\\nreal {ms / 100:.2f}")
print(f"<testcase name='a' time='{ms / 1000}'/>", {"duration_ms": ms}, f"elapsed: {ms / 1000}")
print(f"Listening on port {port}: http://localhost:{port}/, 127.0.0.1:{port}, [::]:{port}")
print(server.__init__, object(), hex(id(server)))
print(tempfile.mkdtemp(prefix="shop-"), f"/tmp/pytest-of-root/pytest-{os.getpid()}/test_a0")
"""
"""Prints what differs from run to run. No name comes twice within a run, which would be a difference, too."""

LOOK = bash("python3 noise.py")
REVIEWER = {"description": "a look", "prompt": "REVIEW this", "subagent_type": "general-purpose"}
REVIEW = {"when": {"prompt_contains": "REVIEW"}, "turns": [LOOK, says("Looks good.")]}
DONE = {**says("Done."), "times": "forever"}
IN_BACKGROUND = {"command": "python3 noise.py; touch ended", "description": "a test", "run_in_background": True}
WAIT = bash("until [ -e ended ]; do sleep 0.1; done; sleep 0.5; rm ended")
CUT = {**LOOK, "text": "I look", "drop": {"after_events": 7}}
TROUBLE: dict[str, Script] = {
    "a call cut, a subagent": script(LOOK, CUT, LOOK, uses("Task", **REVIEWER), DONE, conversations=[REVIEW]),
}
MORE_TROUBLE: dict[str, Script] = {
    "volatile output": script(LOOK, says("Done.")),
    "subagent": script(uses("Task", **REVIEWER), DONE, conversations=[REVIEW]),
    "cut in a call": script(LOOK, CUT, LOOK, says("Done.")),
    "rate limit": script({"error": {"status": 429}}, LOOK, says("Done.")),
    "error in a stream": script(LOOK, says("I", error_mid_stream={"status": 529}), LOOK, says("Done.")),
    "background task": script(uses("Bash", **IN_BACKGROUND), WAIT, DONE),
    "overload": script({"error": {"status": 529}}, LOOK, {"error": {"status": 500}}, says("Done.")),
    "cut in a text": script(LOOK, says("I was about to", drop={"after_events": 4}), says("Done.")),
    "garbage": script(LOOK, {"garbage": "<html>"}, says("Done.")),
    "wrong key": script(LOOK, {"error": {"status": 401}, "times": "forever"}),
    "refused request": script(LOOK, {"error": {"status": 400}, "times": "forever"}),
}


def agent(cli: InstalledAgent, prompt: str = "Fix the tax.") -> dict[str, Any]:
    config = {"prompt": prompt, "executable": str(cli.executable)}
    return {"type": "claude-code", "config": config, "env": {"IS_SANDBOX": "1"}}


def cassette(done: Outcome) -> CassetteReport:
    assert done.bundle.agent is not None
    assert done.bundle.agent.gateway is not None, done.done.err
    assert done.bundle.agent.gateway.cassette is not None
    return done.bundle.agent.gateway.cassette


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> RunBench:
    """The same repository on another path, in another home."""
    made = RunBench(tmp_path_factory.mktemp("quite-another-place"))
    made.make_repository()
    return made


@versions(NEWEST, full(OLD))
async def test_a_recording_is_replayed_in_another_directory(
    runs: RunBench, elsewhere: RunBench, claude_cli: InstalledAgent, tmp_path: Path
) -> None:
    tape = tmp_path / "tape"
    async with ScriptedModel(ANSWERS) as model:
        keys = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": API_KEY}
        first = await runs.run(agent(claude_cli), "--record", str(tape), env=keys, evaluators=EVALUATORS)
    assert first.done.code == 0, first.done.out + first.done.err
    assert cassette(first).recorded > 0
    written = b"".join(path.read_bytes() for path in tape.rglob("*") if path.is_file())
    assert API_KEY.encode() not in written
    assert str(runs.root).encode() not in written

    # No key, no address, no model: whatever is not on the tape cannot be answered.
    again = await elsewhere.run(agent(claude_cli), "--replay", str(tape), evaluators=EVALUATORS)
    assert again.done.code == 0, again.done.out + again.done.err
    assert again.diff == first.diff != ""
    counts = cassette(again)
    assert (counts.replayed, counts.recorded, counts.unmatched) == (cassette(first).recorded, 0, 0)
    assert again.bundle.agent is not None
    assert first.bundle.agent is not None
    assert again.bundle.agent.usage == first.bundle.agent.usage
    assert [result.metrics for result in again.bundle.evaluators[1:]] == [
        result.metrics for result in first.bundle.evaluators[1:]
    ]
    assert again.bundle.evaluators[1].usage == first.bundle.evaluators[1].usage


@versions(NEWEST)
async def test_an_unrecorded_request_is_reported_with_a_diff(runs: RunBench, claude_cli: InstalledAgent) -> None:
    tape = runs.root / "tape"
    async with ScriptedModel(script(says("Done."))) as model:
        keys = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": API_KEY}
        await runs.run(agent(claude_cli), "--record", str(tape), env=keys)
        other = await runs.run(agent(claude_cli, "Fix the shipping."), "--replay", str(tape), env=keys)
        asked_before = len(model.requests)
        rest = await runs.run(agent(claude_cli, "Fix the shipping."), "--cassette", str(tape), env=keys)
        assert len(model.requests) > asked_before  # `auto` asks for what it does not have, and keeps it
    assert other.done.code == 1
    assert other.bundle.outcome is not None
    assert (other.bundle.outcome.name, other.bundle.outcome.valid) == ("infra_error", False)
    (name, *_) = cassette(other).mismatches
    diff = (other.artifacts / name).read_text()
    assert "-" in diff
    assert "Fix the tax." in diff
    assert "Fix the shipping." in diff
    assert "CASSETTE_MISMATCH" in [warning.code for warning in other.bundle.agent.warnings]  # type: ignore[union-attr]
    assert rest.done.code == 0, rest.done.err
    assert cassette(rest).recorded > 0
    shutil.rmtree(runs.workspace)
    replayed = await runs.run(agent(claude_cli, "Fix the shipping."), "--replay", str(tape))
    assert replayed.done.code == 0, replayed.done.err


@versions(NEWEST, full(OLD))
@pytest.mark.parametrize(
    "answers",
    [
        *(pytest.param(answers, id=name) for name, answers in TROUBLE.items()),
        *(pytest.param(answers, id=name, marks=pytest.mark.full) for name, answers in MORE_TROUBLE.items()),
    ],
)
async def test_a_run_with_trouble_is_replayed(
    runs: RunBench, elsewhere: RunBench, claude_cli: InstalledAgent, tmp_path: Path, answers: Script
) -> None:
    """The replay gets on as the recorded run did, and ends in the same way."""
    tape = tmp_path / "tape"
    for bench in (runs, elsewhere):
        bench.commit({"noise.py": PROGRAM})
    async with ScriptedModel(answers) as model:
        keys = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": API_KEY}
        first = await runs.run(agent(claude_cli), "--record", str(tape), env=keys)
    again = await elsewhere.run(agent(claude_cli), "--replay", str(tape))
    assert cassette(again).unmatched == 0, again.done.err
    assert cassette(again).replayed >= cassette(first).recorded > 0
    assert first.bundle.outcome is not None
    assert again.bundle.outcome is not None
    assert again.bundle.outcome.name == first.bundle.outcome.name
    assert [call.name for call in again.log.tool_calls] == [call.name for call in first.log.tool_calls]
    for done in (first, again):
        assert done.bundle.agent is not None
        assert "CASSETTE_INCOMPLETE" not in [warning.code for warning in done.bundle.agent.warnings]


@versions(NEWEST)
async def test_a_request_without_an_answer_is_reported_by_the_recording(
    runs: RunBench, claude_cli: InstalledAgent, tmp_path: Path
) -> None:
    """Also by a summary of the cassette, and by the replay."""
    tape = tmp_path / "tape"
    async with ScriptedModel(script(LOOK, {"hang": True})) as model:
        keys = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": API_KEY}
        first = await runs.run(agent(claude_cli), "--record", str(tape), env=keys, timeout=6000)
    assert first.bundle.agent is not None
    (warning,) = [warning for warning in first.bundle.agent.warnings if warning.code == "CASSETTE_INCOMPLETE"]
    (name,) = [file.name for file in tape.glob("exchanges/*.json") if '"lost"' in file.read_text()]
    assert "A replay may fail: the agent closed the connection" in warning.message
    assert name in warning.message
    plan = await runs.yb("run", "-c", str(runs.case_file), "--dry-run", "--replay", str(tape))
    assert name in plan.out
    again = await runs.run(agent(claude_cli), "--replay", str(tape))
    assert "recorded without an answer: the agent closed the connection" in again.done.err
