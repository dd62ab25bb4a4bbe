"""An interrupt leaves a valid bundle of what was finished; a kill loses no finished result."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from run_bench import PATIENCE_S, RunBench

import youbencha
from systems import posix_only
from yb import SCRIPT
from youbencha.report.junit import render_junit
from youbencha.store.bundle import ResultsBundle

pytestmark = [posix_only("signals are sent"), pytest.mark.repeat(5)]


async def appears(path: Path) -> None:
    await until(path.exists)


async def until(is_so: Callable[[], bool]) -> None:
    async def look() -> None:
        while not is_so():
            await asyncio.sleep(0.02)

    await asyncio.wait_for(look(), PATIENCE_S)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_interrupted_while_the_agent_works(runs: RunBench, number: signal.Signals) -> None:
    runs.write_case(runs.program(f"echo begun > README.md; touch '{runs.root}/begun'; sleep 1000"))
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
    slow = {"name": "command", "config": {"command": ["/bin/sh", "-c", f"touch '{runs.root}/judging'; sleep 1000"]}}
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


@pytest.mark.parametrize("command", ["run", "eval"])
async def test_interrupted_while_a_hook_runs(runs: RunBench, command: str) -> None:
    """The verdict was written before the hook, and is kept."""
    hook = {"name": "script", "config": {"command": f"touch '{runs.root}/hooked'; sleep 1000", "shell": True}}
    file = runs.write_case(runs.program("echo done > README.md"), post_evaluation=[hook])
    if command == "eval":
        judged = {"directory": str(runs.repository), "evaluators": ["git-diff"], "post_evaluation": [hook]}
        file.write_text(json.dumps({**judged, "output_dir": str(runs.workspace)}))
    process = await runs.start(command, "-c", str(file))
    await appears(runs.root / "hooked")
    process.send_signal(signal.SIGINT)
    await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode == 130
    (run,) = runs.runs()
    bundle = ResultsBundle.model_validate_json((run / "artifacts/results.json").read_bytes())
    assert (bundle.execution.complete, bundle.execution.interrupted) == (True, False)
    assert bundle.summary.overall_status == "passed"
    assert (bundle.outcome and bundle.outcome.name) == ("solved" if command == "run" else None)
    assert (run / "artifacts/report.md").exists()


async def test_a_kill_keeps_finished_results(runs: RunBench) -> None:
    slow = {"name": "command", "config": {"command": ["/bin/sh", "-c", f"touch '{runs.root}/judging'; sleep 1000"]}}
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
    runs.write_case(runs.program(f"touch '{runs.root}/begun'; sleep 1000"), pre_execution=[before])
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
    runs.write_case(runs.program(f"until test -e '{runs.root}/go'; do sleep 0.05; done; echo done > README.md"))
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


SIGNAL_WHERE_EXCEPTIONS_ARE_DROPPED = """
import os, signal, sys

class Finalized:
    def __del__(self):
        os.kill(os.getpid(), getattr(signal, os.environ["SIGNAL"]))
        for _ in range(100):
            pass

class Finder:
    left = int(os.environ["AT_IMPORT"])

    def find_spec(self, name, path=None, target=None):
        if "youbencha.cli.startup" in sys.modules:
            self.left -= 1
            if self.left == 0:
                Finalized()

sys.meta_path.insert(0, Finder())
"""
"""A `sitecustomize`: the signal arrives during the nth import, in a finalizer."""


def left_running(home: Path) -> list[str]:
    """The processes that have this home."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"HOME={home}".encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_text().replace("\0", " "))
    return found


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are found in /proc")
@pytest.mark.parametrize(
    ("number", "at_import"),
    [
        ("SIGINT", 1),
        ("SIGTERM", 100),
        *(pytest.param("SIGINT", at, marks=pytest.mark.full) for at in range(20, 340, 40)),
        pytest.param("SIGHUP", 200, marks=pytest.mark.full),
    ],
)
async def test_a_signal_is_never_lost(runs: RunBench, number: str, at_import: int) -> None:
    (runs.root / "sitecustomize.py").write_text(SIGNAL_WHERE_EXCEPTIONS_ARE_DROPPED)
    runs.write_case(runs.program("echo done > README.md"))
    source = str(Path(youbencha.__file__).parents[1])
    hook = {"PYTHONPATH": f"{runs.root}:{source}", "AT_IMPORT": str(at_import), "SIGNAL": number}
    process = await runs.start("run", "-c", str(runs.case_file), env=hook)
    _, err = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode == 130, err
    assert b"Traceback" not in err
    await until(lambda: not left_running(runs.home))
