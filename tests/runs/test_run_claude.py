"""`yb run` with the real Claude Code CLI against the scripted model, on real repositories (CR-4.1)."""

from __future__ import annotations

import json

import pytest
from run_bench import Outcome, RunBench, cut_off

from agent_clis import NEWEST, OLD
from claude_bench import bash, full, says, script, uses, versions
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.scripted_model import Script, ScriptedModel

EDIT = bash("echo 'TAX = 0.2' > src/prices.py")


async def run_with(runs: RunBench, cli: InstalledAgent, answers: Script, **more: object) -> Outcome:
    async with ScriptedModel(answers) as model:
        return await runs.run(runs.claude(cli, model, **more.pop("agent", {})), **more)  # type: ignore[arg-type, call-overload]


@versions(NEWEST, full(OLD))
async def test_cr_4_1_the_complete_workflow(runs: RunBench, claude_cli: InstalledAgent) -> None:
    """With a prompt file beside the test case (SC-001), an expected reference and a judge.

    The agent commits its work and deletes its repository, which hides nothing.
    """
    runs.commit({"src/prices.py": "TAX = 0.2\n"}, branch="solution")
    (runs.root / "task.md").write_text("Fix the tax, please.")
    verdict = json.dumps({"assertions": {"tax_is_right": {"score": 1, "reason": "0.2 it is"}}})
    judging = [uses("Read", file_path="${cwd}/src/prices.py"), says(f"```json\n{verdict}\n```")]
    judge = {"when": {"prompt_contains": "tax_is_right"}, "turns": judging}
    commit = bash("git add -A && git -c user.name=x -c user.email=x@y commit -qm hidden && rm -rf .git")
    async with ScriptedModel(script(EDIT, commit, says("Done."), conversations=[judge])) as model:
        agent = runs.claude(claude_cli, model)
        del agent["config"]["prompt"]
        agent["config"]["prompt_file"] = "task.md"
        done = await runs.run(
            agent,
            expected="solution",
            evaluators=[
                {
                    "name": "git-diff",
                    "config": {"assertions": {"max_files_changed": 1}, "required_paths": ["src/*.py"]},
                },
                {"name": "command", "config": {"command": "grep -q 0.2 src/prices.py"}},
                {"name": "expected-diff", "config": {"threshold": 1.0}},
                {"name": "agentic-judge", "config": {"assertions": {"tax_is_right": "The tax is 0.2."}}},
            ],
        )
        assert any("Fix the tax, please." in json.dumps(request.body) for request in model.requests)
    assert done.done.code == 0, done.done.out + done.done.err
    bundle, log = done.bundle, done.log
    assert bundle.summary.overall_status == "passed"
    assert [call.name for call in log.tool_calls] == ["Bash", "Bash"]
    assert bundle.agent is not None
    assert bundle.agent.tools_used == {"Bash": 2}
    assert bundle.agent.version == claude_cli.version
    assert bundle.agent.usage is not None
    assert bundle.agent.usage.input_tokens
    assert bundle.agent.model == log.model_info.name
    assert bundle.identity.agent_version == claude_cli.version
    assert bundle.identity.agent_sha256 == claude_cli.sha256
    assert len(list(done.artifacts.glob("claude-code-logs/terminal-output-*.log"))) == 1
    changes, _, similar, judged = bundle.evaluators
    assert changes.metrics["files_changed"] == 1
    assert similar.metrics["aggregate_similarity"] == 1.0
    assert judged.metrics["tax_is_right"] == 1
    assert judged.usage is not None


@versions(NEWEST)
async def test_a_refusing_provider_is_not_the_agents_failure(runs: RunBench, claude_cli: InstalledAgent) -> None:
    denied = {"error": {"status": 401, "message": "invalid x-api-key"}, "times": "forever"}
    done = await run_with(runs, claude_cli, script(denied))
    assert done.done.code == 1
    assert done.bundle.agent is not None
    assert done.bundle.agent.status == "failed"
    assert [error.code for error in done.bundle.agent.errors] == ["CLAUDE_AUTH_FAILED"]
    assert done.bundle.summary.overall_status == "failed"
    assert done.bundle.outcome is not None
    assert (done.bundle.outcome.name, done.bundle.outcome.valid) == ("provider_error", False)


@versions(full(NEWEST))  # with a small program: `test_run_verdicts.py`
async def test_a_timeout(runs: RunBench, claude_cli: InstalledAgent) -> None:
    answers = script(EDIT, says("never", delay="5m"))
    done = await cut_off(lambda timeout: run_with(runs, claude_cli, answers, timeout=timeout), 8_000, "+TAX")
    assert done.done.code == 1
    assert done.bundle.outcome is not None
    assert done.bundle.outcome.name == "limit"
    assert "+TAX = 0.2" in done.diff


@versions(NEWEST)
async def test_a_crash(runs: RunBench, claude_cli: InstalledAgent) -> None:
    done = await run_with(runs, claude_cli, script(EDIT, bash("kill -9 $PPID; sleep 60")))
    assert done.done.code == 1
    assert done.bundle.agent is not None
    assert (done.bundle.agent.status, done.bundle.agent.exit_code) == ("failed", 137)
    assert done.bundle.outcome is not None
    assert done.bundle.outcome.name == "agent_error"


async def test_truncated_output(runs: RunBench) -> None:
    done = await runs.run(runs.program("echo 'TAX = 0.2' > src/prices.py; head -c 11000000 /dev/zero | tr '\\0' x"))
    assert done.done.code == 0, done.done.err
    assert done.bundle.agent is not None
    assert any("truncated" in error.message for error in done.bundle.agent.errors)
    assert done.bundle.summary.overall_status == "passed"


@pytest.mark.parametrize("claude_cli", [NEWEST], indirect=True)
async def test_missing_credentials_are_reported_before_the_agent_starts(
    runs: RunBench, claude_cli: InstalledAgent
) -> None:
    async with ScriptedModel(script(says("never"))) as model:
        agent = runs.claude(claude_cli, model)
        del agent["env"]["ANTHROPIC_API_KEY"]
        runs.write_case(agent)
        done = await runs.yb("run", "-c", str(runs.case_file))
    assert done.code == 2
    assert "CLAUDE_AUTH_FAILED" in done.err
    assert not list(runs.workspace.glob("run-*"))
