"""What `meta.json` says about the end of a trial."""

from __future__ import annotations

from pathlib import Path

import pytest
from engine_bench import EngineBench

from youbencha.engine.meta import make_attempt_info, make_meta
from youbencha.log.model import ErrorRecord
from youbencha.store.arena import IntegrityFlag, TrialKey, TrialMeta
from youbencha.store.bundle import DeniedHost, Outcome, SandboxReport
from youbencha.trial.run import run_trial

DENIED = DeniedHost(host="pypi.example.org:443", attempts=2, first_at="2026-01-01T00:00:00Z")


async def meta_with(tmp_path: Path, code: str) -> TrialMeta:
    """Of a real trial whose agent reported an error with this code."""
    bench = EngineBench(tmp_path)
    host = bench.host()
    cell = bench.cell(host, "agent", "task")
    bundle = (await run_trial(cell.plan, host, directory=tmp_path / "run")).bundle
    assert bundle.agent is not None
    error = ErrorRecord(message="It ended.", timestamp=bundle.execution.completed_at, code=code)
    sandbox = SandboxReport(type="docker", allowlist=("example.org",), denied=(DENIED,))
    agent = bundle.agent.model_copy(update={"errors": (error,), "sandbox": sandbox})
    outcome = Outcome(name="limit", valid=True, reason="It ended.")
    bundle = bundle.model_copy(update={"agent": agent, "outcome": outcome})
    return make_meta(TrialKey("agent", "task", 1), cell, bundle, [make_attempt_info(1, bundle)])


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("COMMAND_OUT_OF_MEMORY", "out_of_memory"),
        ("COMMAND_MAX_TURNS", "gave_up"),
        ("COMMAND_SANDBOX_LIMIT", "crashed"),
    ],
)
async def test_exit_reasons(tmp_path: Path, code: str, reason: str) -> None:
    assert (await meta_with(tmp_path, code)).exit_reason == reason


async def test_denied_hosts_are_flags(tmp_path: Path) -> None:
    evidence = "pypi.example.org:443 was denied (2 attempts)"
    flag = IntegrityFlag(kind="network", evidence=evidence, severity="evidence")
    assert (await meta_with(tmp_path, "COMMAND_TIMEOUT")).flags == (flag,)
