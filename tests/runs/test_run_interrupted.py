"""An interrupt leaves a valid bundle of what was finished; a kill loses no finished result."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest
from run_bench import PATIENCE_S, RunBench

from systems import posix_only
from yb import SCRIPT
from youbencha.log.results import ResultsBundle
from youbencha.report.junit import render_junit

pytestmark = [posix_only("signals are sent"), pytest.mark.repeat(5)]


async def appears(path: Path) -> None:
    async def look() -> None:
        while not path.exists():
            await asyncio.sleep(0.02)

    await asyncio.wait_for(look(), PATIENCE_S)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_interrupted_while_the_agent_works(runs: RunBench, number: signal.Signals) -> None:
    runs.write_case(runs.program(f"echo begun > README.md; touch {runs.root}/begun; sleep 1000"))
    process = await runs.start("run", "-c", str(runs.case_file))
    await appears(runs.root / "begun")
    process.send_signal(number)
    _, err = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode == 130, err
    (run,) = runs.runs()
    bundle = ResultsBundle.model_validate_json((run / "artifacts/results.json").read_bytes())
    assert bundle.execution.interrupted
    assert bundle.summary.overall_status == "partial"
    assert ' errors="1" ' in render_junit(bundle)
    assert bundle.outcome is None
    assert bundle.agent is not None
    assert bundle.agent.status is None
    assert b"Traceback" not in err
    assert str(run) in err.decode()
    assert "+begun" in (run / "artifacts/git-diff.patch").read_text()  # what it had done so far


async def test_interrupted_while_evaluators_run(runs: RunBench) -> None:
    slow = {"name": "command", "config": {"command": ["/bin/sh", "-c", f"touch {runs.root}/judging; sleep 1000"]}}
    runs.write_case(runs.program("echo done > README.md"), evaluators=["git-diff", slow])
    process = await runs.start("run", "-c", str(runs.case_file))
    await appears(runs.root / "judging")
    process.send_signal(signal.SIGINT)
    await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode == 130
    (run,) = runs.runs()
    bundle = ResultsBundle.model_validate_json((run / "artifacts/results.json").read_bytes())
    assert bundle.execution.interrupted
    assert [result.evaluator for result in bundle.evaluators] == ["git-diff"]
    assert bundle.summary.overall_status == "partial"
    assert ' errors="1" ' in render_junit(bundle)
    assert bundle.agent is not None
    assert bundle.agent.status == "success"


async def test_a_kill_keeps_finished_results(runs: RunBench) -> None:
    slow = {"name": "command", "config": {"command": ["/bin/sh", "-c", f"touch {runs.root}/judging; sleep 1000"]}}
    runs.write_case(runs.program("echo done > README.md"), evaluators=["git-diff", slow])
    process = await runs.start("run", "-c", str(runs.case_file))
    await appears(runs.root / "judging")
    (run,) = runs.runs()
    results = run / "artifacts/results.json"

    async def first_verdict() -> None:
        while not json.loads(results.read_text())["evaluators"]:
            await asyncio.sleep(0.02)

    await asyncio.wait_for(first_verdict(), PATIENCE_S)
    process.kill()
    await process.communicate()
    bundle = ResultsBundle.model_validate_json(results.read_bytes())
    assert not bundle.execution.complete
    assert [result.evaluator for result in bundle.evaluators] == ["git-diff"]
    assert bundle.summary.overall_status == "partial"
    assert ' errors="1" ' in render_junit(bundle)
    assert (run / "artifacts/git-diff.patch").read_bytes()
    assert (run / "artifacts/youbencha-log.json").exists()


async def test_a_kill_while_the_agent_works_keeps_earlier_results(runs: RunBench) -> None:
    before = {"name": "script", "config": {"command": "/bin/sh", "args": ["-c", "true"]}}
    runs.write_case(runs.program(f"touch {runs.root}/begun; sleep 1000"), pre_execution=[before])
    process = await runs.start("run", "-c", str(runs.case_file))
    await appears(runs.root / "begun")
    process.kill()
    await process.communicate()
    (run,) = runs.runs()
    bundle = ResultsBundle.model_validate_json((run / "artifacts/results.json").read_bytes())
    assert not bundle.execution.complete
    assert [hook.status for hook in bundle.hooks.pre_execution] == ["success"]
    assert bundle.summary.overall_status == "partial"
    assert ' errors="1" ' in render_junit(bundle)


async def test_a_closed_stdout_does_not_end_the_run(runs: RunBench) -> None:
    runs.write_case(runs.program(f"until test -e {runs.root}/go; do sleep 0.05; done; echo done > README.md"))
    process = await runs.start("run", "-c", str(runs.case_file))
    assert process.stderr is not None
    assert process.stdout is not None
    await process.stderr.readline()
    process.stderr._transport.close()  # type: ignore[attr-defined]
    process.stdout._transport.close()  # type: ignore[attr-defined]
    (runs.root / "go").touch()
    await asyncio.wait_for(process.wait(), PATIENCE_S)
    assert process.returncode == 0
    (run,) = runs.runs()
    bundle = ResultsBundle.model_validate_json((run / "artifacts/results.json").read_bytes())
    assert bundle.summary.overall_status == "passed"


@pytest.mark.parametrize("redirection", ["> /dev/full", ">&-", "2>&-", ">&- 2>&-"])
async def test_redirected_output_does_not_change_the_verdict(runs: RunBench, redirection: str) -> None:
    runs.write_case(runs.program("echo done > README.md"))
    line = f"'{SCRIPT}' run -c '{runs.case_file}' {redirection}"
    process = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", line, cwd=runs.root, env=runs.env, stderr=asyncio.subprocess.PIPE
    )
    _, err = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode == 0
    assert (b"warning: the result could not be printed" in err) == (redirection == "> /dev/full")
