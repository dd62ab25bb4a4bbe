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
from youbencha.gateway.script import ScriptedModel
from youbencha.log.results import CassetteReport
from youbencha.sandbox.toolbox.installed import InstalledAgent

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
