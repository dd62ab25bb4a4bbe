"""The names of everything that runs leave on the disk.

A single run (`yb run`, `yb eval`) is a directory with `artifacts/`, in which `results.json` is the truth. A run of many
trials is a directory in `runs/` of a results directory: `run.json` says what was planned, and each finished trial has
`trials/<orchestrator>/<task>/trial-<number>/meta.json`, with the run directories of its attempts next to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from youbencha.usage import SessionUsage

# The artifacts directory of a run.
LEDGER_FILE = "gateway-ledger.jsonl"
RESULTS_FILE = "results.json"
LOG_FILE = "youbencha-log.json"
DIFF_FILE = "git-diff.patch"
AGENT_FILES = "agent-files"
REPORT_FILE = "report.md"
SIDECAR = ".thunderdome-metrics.json"
"""Thunderdome's metrics file, which contains the usage of a trial."""

# The results directory of runs of many trials.
RUNS_DIR, LATEST = "runs", "latest"
CALIBRATION_FILE = "calibration.json"

# The directory of one of these runs.
RUN_FILE = "run.json"
JOURNAL_FILE = "journal.jsonl"
TRIALS_DIR = "trials"
AGENTS_DIR = "agents"
"""A copy of each orchestrator's configuration and files."""

# The directory of a trial.
META_FILE, PATCH_FILE, TASK_FILE = "meta.json", "diff.patch", "task.md"
ATTEMPTS_DIR = "attempts"

# A loop, in the directory in which it works.
RALPH_DIR, LOOPS_DIR = ".ralph", "loops"
STATE_FILE, ITERATIONS_FILE, RECORDING_FILE = "loop.json", "iterations.jsonl", "recording.jsonl"

BENCH_DIR = "bench"
"""The results directory in a workspace, with runs of several trials."""
WORKSPACES = (".youbencha-workspace", ".youbencha-eval")
"""The default workspaces of `yb run` and `yb eval`."""


def sidecar_record(
    usage: SessionUsage | None,
    *,
    turns: int | None,
    tools_used: Sequence[str] | None,
    duration_ms: int | None,
    session_id: str | None,
    model: str | None,
    ended: str | None,
) -> dict[str, Any]:
    """Return the content of the metrics file, with Thunderdome's keys. Unknown is None, never 0."""
    known = usage or SessionUsage(partial=True)
    return {
        **{f"{kind}_tokens": number for kind, number in known.tokens._asdict().items()},
        "turns": turns,
        "tools_used": tools_used,
        "duration_ms": duration_ms,
        "total_cost_usd": known.cost_usd,
        "session_id": session_id,
        "model": model,
        "ended": ended,
        "partial": known.partial,
    }
