"""`yb run` with any program as the agent: verdicts, metrics, and what is left behind."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest
from run_bench import RunBench, cut_off

from claude_bench import API_KEY
from youbencha.store.layout import SIDECAR

EDIT = "echo 'TAX = 0.2' > src/prices.py"


async def test_a_change_that_passes(runs: RunBench) -> None:
    done = await runs.run(runs.program(EDIT), evaluators=[{"name": "git-diff", "config": {"max_files_changed": 1}}])
    assert done.done.code == 0, done.done.err
    bundle = done.bundle
    assert bundle.summary.overall_status == "passed"
    assert (bundle.outcome and bundle.outcome.name, bundle.outcome and bundle.outcome.valid) == ("solved", True)
    assert bundle.execution.complete
    assert bundle.test_case.commit == runs.git("rev-parse", "HEAD")
    assert bundle.test_case.branch == "main"
    assert bundle.agent is not None
    assert (bundle.agent.status, bundle.agent.exit_code) == ("success", 0)
    assert bundle.evaluators[0].metrics["files_changed"] == 1
    assert "+TAX = 0.2" in done.diff
    assert (done.artifacts / "report.md").read_text().startswith("#")
    assert (done.tree / "src/prices.py").read_text() == "TAX = 0.2\n"
    assert "passed" in done.done.out


async def test_unreported_values_are_null(runs: RunBench) -> None:
    """Nothing is made up from what an agent did not say."""
    agent = (await runs.run(runs.program(EDIT))).bundle.agent
    assert agent is not None
    assert agent.model is None
    assert agent.turns is None
    assert agent.tool_calls is None
    assert agent.tools_used is None
    assert agent.usage is None or agent.usage.input_tokens is None


@pytest.mark.parametrize(("reported", "calls", "used"), [({}, None, None), ({"tools_used": []}, 0, {})])
async def test_tools_that_are_not_reported_are_unknown(
    runs: RunBench, reported: dict[str, object], calls: int | None, used: dict[str, int] | None
) -> None:
    metrics = json.dumps({"turns": 2, "input_tokens": 5, "output_tokens": 1, **reported})
    done = await runs.run(runs.program(f"echo '{metrics}' > \"$YOUBENCHA_METRICS_FILE\""))
    agent = done.bundle.agent
    assert agent is not None
    assert (agent.turns, agent.tool_calls, agent.tools_used) == (2, calls, used)
    sidecar = json.loads((done.artifacts / SIDECAR).read_text())
    assert sidecar["tools_used"] == (None if calls is None else [])


async def test_a_violation_fails(runs: RunBench) -> None:
    strict = [{"name": "git-diff", "config": {"assertions": {"max_files_changed": 0}}}]
    done = await runs.run(runs.program(EDIT), evaluators=strict)
    assert done.done.code == 1
    assert done.bundle.summary.overall_status == "failed"
    assert done.bundle.outcome is not None
    assert (done.bundle.outcome.name, done.bundle.outcome.valid) == ("unsolved", True)


async def test_caches_of_the_tools_that_the_agent_ran_are_not_its_changes(runs: RunBench) -> None:
    """The agent and an evaluator run pytest. Only files that the agent wrote count, and are named in the message."""
    runs.commit({"test_prices.py": "from src.prices import TAX\n\ndef test_tax():\n    assert TAX == 0.2\n"})
    pytest_run = f"'{sys.executable}' -m pytest -q"
    limit = {"name": "git-diff", "config": {"assertions": {"max_files_changed": 1}}}
    tests = {"name": "command", "config": {"command": pytest_run}}
    done = await runs.run(runs.program(f"{EDIT}; {pytest_run}; test -d .pytest_cache"), evaluators=[limit, tests])
    assert done.done.code == 0, done.done.out
    assert [file["path"] for file in done.bundle.evaluators[0].metrics["changed_files"]] == ["src/prices.py"]
    done = await runs.run(runs.program(f"{EDIT}; {pytest_run}; touch new.txt"), evaluators=[limit, tests])
    assert done.done.code == 1
    assert "new.txt, src/prices.py" in done.bundle.evaluators[0].message


async def test_an_agent_that_failed_cannot_pass(runs: RunBench) -> None:
    done = await runs.run(runs.program(f"{EDIT}; exit 3"))
    assert done.done.code == 1
    bundle = done.bundle
    assert bundle.evaluators[0].status == "passed"  # its changes are still reported
    assert bundle.summary.overall_status == "failed"
    assert bundle.agent is not None
    assert (bundle.agent.status, bundle.agent.exit_code) == ("failed", 3)
    assert bundle.outcome is not None
    assert bundle.outcome.name == "agent_error"


async def test_an_agent_that_takes_too_long_cannot_pass(runs: RunBench) -> None:
    slow = runs.program(f"{EDIT}; sleep 1000")
    done = await cut_off(lambda timeout: runs.run(slow, timeout=timeout), 700, "+TAX")
    assert done.done.code == 1
    assert done.bundle.agent is not None
    assert done.bundle.agent.status == "timeout"
    assert done.bundle.outcome is not None
    assert (done.bundle.outcome.name, done.bundle.outcome.valid) == ("limit", True)
    assert "+TAX = 0.2" in done.diff


async def test_a_verifier_that_cannot_run_is_not_the_agents_failure(runs: RunBench) -> None:
    nothing = {"name": "command", "config": {"command": ["no-such-program-anywhere"]}}
    done = await runs.run(runs.program(EDIT), evaluators=["git-diff", nothing])
    assert done.done.code == 1
    assert done.bundle.outcome is not None
    assert (done.bundle.outcome.name, done.bundle.outcome.valid) == ("verifier_error", False)
    assert done.bundle.summary.overall_status == "partial"
    assert [result.status for result in done.bundle.evaluators] == ["passed", "skipped"]
    assert done.bundle.evaluators[1].error is not None


async def test_the_expected_tree_is_compared_and_was_hidden_from_the_agent(runs: RunBench) -> None:
    runs.commit({"src/prices.py": "TAX = 0.2\n"}, branch="solution")
    look = "git branch -a > branches.txt; ls .. > beside.txt; git log --all --format=%H | wc -l > commits.txt"
    done = await runs.run(
        runs.program(f"{EDIT}; {look}"),
        evaluators=[{"name": "expected-diff", "config": {"threshold": 0.1}}],
        expected_source="branch",
        expected="solution",
    )
    assert done.done.code == 0, done.done.err
    metrics = done.bundle.evaluators[0].metrics
    assert metrics["files_matched"] == 2
    assert metrics["files_added"] == 3
    assert (done.tree / "branches.txt").read_text().split() == ["*", "main"]
    assert "src-expected" not in (done.tree / "beside.txt").read_text()
    assert (done.tree / "commits.txt").read_text().strip() == "1"
    assert (done.artifacts.parent / "src-expected" / "src/prices.py").read_text() == "TAX = 0.2\n"


async def test_an_agent_that_commits_hides_nothing(runs: RunBench) -> None:
    commit = "git add -A; git -c user.name=x -c user.email=x@y commit -qm hidden"
    done = await runs.run(runs.program(f"{EDIT}; {commit}"))
    metrics = done.bundle.evaluators[0].metrics
    assert metrics["files_changed"] == 1
    assert metrics["base_commit"] == runs.git("rev-parse", "HEAD")
    assert metrics["current_commit"] not in (None, metrics["base_commit"])


async def test_an_agent_that_deletes_its_repository(runs: RunBench) -> None:
    done = await runs.run(runs.program(f"{EDIT}; rm -rf .git"))
    assert done.done.code == 0, done.done.err
    metrics = done.bundle.evaluators[0].metrics
    assert metrics["files_changed"] == 1
    assert metrics["current_commit"] is None


async def test_binary_files(runs: RunBench) -> None:
    done = await runs.run(runs.program(r"printf '\000\001\377' > image.bin"))
    (changed,) = done.bundle.evaluators[0].metrics["changed_files"]
    assert (changed["path"], changed["binary"]) == ("image.bin", True)
    assert "GIT binary patch" in done.diff


async def test_names_that_are_not_utf_8(runs: RunBench) -> None:
    done = await runs.run(runs.program(r"echo x > $(printf 'caf\\351.txt'); printf 'no \\355\\240\\200 text'"))
    assert done.done.code == 0, done.done.err
    assert done.bundle.evaluators[0].metrics["files_changed"] == 1


@pytest.mark.parametrize("count", [1_200, pytest.param(5_000, marks=pytest.mark.full)])
async def test_many_files(runs: RunBench, count: int) -> None:
    runs.commit({f"many/{n // 100}/file{n}.txt": f"{n}\n" for n in range(count)})
    done = await runs.run(runs.program("for d in many/*; do for f in $d/*; do echo more >> $f; done; done"))
    assert done.done.code == 0, done.done.err
    assert done.bundle.evaluators[0].metrics["files_changed"] == count
    assert done.bundle.evaluators[0].metrics["lines_added"] == count


async def test_changes_made_by_hooks_are_not_the_agents(runs: RunBench) -> None:
    before = {"name": "script", "config": {"command": "/bin/sh", "args": ["-c", "echo x > $WORKSPACE_DIR/prepared"]}}
    done = await runs.run(runs.program(f"test -f prepared && {EDIT}"), pre_execution=[before])
    assert done.done.code == 0, done.done.err
    assert [f["path"] for f in done.bundle.evaluators[0].metrics["changed_files"]] == ["src/prices.py"]
    assert [hook.status for hook in done.bundle.hooks.pre_execution] == ["success"]


async def test_a_hook_that_fails_before_the_agent_stops_the_run(runs: RunBench) -> None:
    before = {"name": "script", "config": {"command": "/bin/sh", "args": ["-c", "echo broken pipes; exit 7"]}}
    runs.write_case(runs.program("touch /tmp/never"), pre_execution=[before])
    done = await runs.yb("run", "-c", str(runs.case_file))
    assert done.code == 2
    assert "PRE_EXECUTION_FAILED" in done.err
    assert "\n  │ broken pipes\n" in done.err
    assert not list(runs.workspace.rglob("results.json"))


async def test_results_of_post_evaluation_hooks_are_in_the_bundle(runs: RunBench) -> None:
    ledger = {"name": "database", "config": {"type": "json-file", "output_path": "ledger.jsonl"}}
    script = {"name": "script", "config": {"command": "/bin/sh", "args": ["-c", 'cat "$RESULTS_PATH" > copy.json']}}
    broken = {"name": "script", "config": {"command": "/bin/sh", "args": ["-c", "exit 1"]}}
    done = await runs.run(runs.program(EDIT), post_evaluation=[ledger, script, broken])
    assert done.done.code == 0, done.done.err  # a hook never changes the verdict
    assert [hook.status for hook in done.bundle.hooks.post_evaluation] == ["success", "success", "failed"]
    (line,) = (runs.root / "ledger.jsonl").read_text().splitlines()
    assert json.loads(line)["summary"]["overall_status"] == "passed"
    assert json.loads((runs.root / "copy.json").read_text())["summary"]["overall_status"] == "passed"


async def test_only_json_on_standard_output(runs: RunBench) -> None:
    runs.write_case(runs.program(EDIT))
    done = await runs.yb_process("run", "-c", str(runs.case_file), "--json")
    (run,) = runs.runs()
    assert json.loads(done.out)["summary"]["overall_status"] == "passed"
    assert json.loads(done.out) == json.loads((run / "artifacts/results.json").read_text())


async def test_quiet(runs: RunBench) -> None:
    done = await runs.run(runs.program(EDIT), "--quiet")
    assert done.done.err == ""
    assert done.done.out.strip().split("  ") == ["passed", str(done.artifacts)]


async def test_a_dry_run_runs_nothing(runs: RunBench) -> None:
    runs.write_case(runs.program(EDIT))
    done = await runs.yb("run", "-c", str(runs.case_file), "--dry-run")
    assert done.code == 0, done.err
    assert "git-diff" in done.out
    assert not runs.workspace.exists()


async def test_deleting_the_workspace_keeps_the_results(runs: RunBench) -> None:
    done = await runs.run(
        runs.program(f"{EDIT}; mkdir -p locked/in; touch locked/in/x; chmod 500 locked/in locked"), "--delete-workspace"
    )
    assert done.done.code == 0, done.done.err
    assert sorted(path.name for path in done.artifacts.parent.iterdir()) == ["artifacts"]
    assert done.bundle.summary.overall_status == "passed"


async def test_the_agent_gets_only_its_environment(runs: RunBench) -> None:
    agent = runs.program("env > seen.txt", env={"GIVEN": "${FROM_OUTSIDE}"})
    done = await runs.run(agent, env={"FROM_OUTSIDE": "hello", "SECRET_THING": "s3cr3t-value-0123456789"})
    seen = (done.tree / "seen.txt").read_text()
    assert "GIVEN=hello" in seen
    assert "s3cr3t" not in seen


SECRET = "sk-live-0123456789abcdefXYZ"


async def test_no_secret_in_anything_written_or_sent(runs: RunBench) -> None:
    """Not in the results, nor in what hooks get, nor on a terminal: wherever the agent or a verifier put it."""
    tell = 'echo "key is $MY_API_KEY"; echo "$MY_API_KEY" >&2; echo x > "f-$MY_API_KEY.txt"'
    metrics = 'echo "{\\"model\\": \\"$MY_API_KEY\\"}" > "$YOUBENCHA_METRICS_FILE"'
    agent = runs.program(f"{tell}; {metrics}", env={"MY_API_KEY": "${MY_API_KEY}"})
    judge = {"name": "command", "config": {"command": "/bin/sh", "args": ["-c", f"echo {SECRET}"]}}
    hooks = [
        {"name": "database", "config": {"type": "json-file", "output_path": "ledger.jsonl"}},
        {"name": "database", "config": {"type": "sqlite", "output_path": "ledger.db"}},
    ]
    more = {"evaluators": ["git-diff", judge], "post_evaluation": hooks}
    done = await runs.run(agent, "--json", env={"MY_API_KEY": SECRET}, **more)
    assert done.done.code == 0, done.done.err
    assert done.bundle.agent is not None
    assert done.bundle.agent.model is not None  # it was reported, and is masked
    assert json.loads(done.done.out) == json.loads((done.artifacts / "results.json").read_text())
    written = [path for path in done.artifacts.rglob("*") if path.is_file() and path.name != "git-diff.patch"]
    for path in [*written, runs.root / "ledger.jsonl", runs.root / "ledger.db"]:
        assert SECRET.encode() not in path.read_bytes(), path
    assert SECRET not in done.done.out + done.done.err


async def test_a_password_that_is_an_ordinary_word_does_not_mask_results(runs: RunBench) -> None:
    agent = runs.program(EDIT, env={"DB_PASSWORD": "passed", "API_TOKEN": "success", "SOME_SECRET": "git-diff"})
    done = await runs.run(agent)
    assert done.done.code == 0, done.done.err
    assert done.bundle.summary.overall_status == "passed"
    assert done.log.execution.status == "success"


async def test_credentials_in_a_repositorys_address_are_not_shown(runs: RunBench) -> None:
    runs.write_case(runs.program("true"), repo="http://ann:s3cr3tpw@127.0.0.1:9/x.git")
    done = await runs.yb("run", "-c", str(runs.case_file))
    assert done.code == 2
    assert "s3cr3tpw" not in done.out + done.err


async def test_concurrent_processes(runs: RunBench) -> None:
    runs.write_case(runs.program(EDIT))
    done = await asyncio.gather(*(runs.yb_process("run", "-c", str(runs.case_file), "--quiet") for _ in range(3)))
    assert [each.code for each in done] == [0] * 3, [each.err for each in done]
    assert len(runs.runs()) == 3
    assert len({each.out for each in done}) == 3


CLAIMS = "Model: claude-claimed\nInput tokens: 100\nOutput tokens: 200\n[TOOL: read_file] a.ts\nDone."


def wrapper(runs: RunBench) -> dict[str, Any]:
    """A CLI that prints no events and leaves no record of its session."""
    cli = runs.root / "claude"
    cli.write_text(
        f"#!/bin/sh\n[ $1 = --version ] && echo '2.0.55 (Claude Code)' && exit\ncat <<'EOF'\n{CLAIMS}\nEOF\n"
    )
    cli.chmod(0o755)
    config = {"prompt": "Do it.", "executable": str(cli), "output_format": "text"}
    env = {"ANTHROPIC_API_KEY": API_KEY, "IS_SANDBOX": "1"}
    return {"type": "claude-code", "config": config, "env": env}


async def test_claims_of_an_agent_are_in_its_log_and_nowhere_else(runs: RunBench) -> None:
    done = await runs.run(wrapper(runs), gateway="none")
    log, agent = done.log, done.bundle.agent
    assert agent is not None
    assert log.usage is not None
    assert (log.model_info.name, log.usage.input_tokens, log.usage.output_tokens) == ("claude-claimed", 100, 200)
    assert [(call.name, call.arguments) for call in log.tool_calls] == [("read_file", "a.ts")]
    assert (agent.model, agent.usage, agent.tool_calls, agent.tools_used) == (None, None, None, None)
    (warning,) = agent.warnings
    assert warning.code == "CLAUDE_TAKEN_FROM_TEXT"
    assert "the model, the tokens and the tool calls" in warning.message


async def test_what_the_gateway_measured_is_not_claimed(runs: RunBench) -> None:
    """It saw no request: the tokens of the text were not used through it, and nowhere else as far as is known."""
    done = await runs.run(wrapper(runs), gateway="builtin")
    log, agent = done.log, done.bundle.agent
    assert agent is not None
    assert agent.usage is not None
    assert (agent.usage.cost_source, agent.usage.input_tokens, agent.model) == ("gateway", 0, None)
    assert (log.usage, log.model_info.name, log.claims) == (agent.usage, "unknown", ("tool_calls",))
    assert agent.gateway is not None
    assert agent.gateway.reported is None
    assert [warning.code for warning in agent.warnings] == ["CLAUDE_TAKEN_FROM_TEXT"]
