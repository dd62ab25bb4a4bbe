"""Trees of results, as the arena and the original Thunderdome leave them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RUN = {"format": 1, "youbencha_version": "0.1.0", "created_at": "2026-01-02T03:00:00Z"}
HASH = {"agent_hash": "a" * 64, "validation_hash": "b" * 64}


def meta(agent: str, task: str, trial: int = 1, **changes: Any) -> dict[str, Any]:
    """A trial of the arena that was solved."""
    return {
        "orchestrator": agent,
        "task": task,
        "trial": trial,
        "duration_s": 60.0,
        "exit_code": 0,
        "exit_reason": "completed",
        "scores": {"tests": 1.0, "static_analysis": 1.0},
        "composite_score": 1.0,
        "total_tokens": 1000,
        "total_cost_usd": 0.5,
        "budget_exceeded": False,
        "usage_partial": False,
        "outcome": "solved",
        "valid": True,
        "category": "bugfix/parser",
        "all_attempts_cost_usd": 0.5,
        "attempts": [{"number": 1, "outcome": "solved", "cost_usd": 0.5}],
        "flags": [],
        "identity": HASH,
        "completed_at": "2026-01-02T03:04:05Z",
        **changes,
    }


def original(agent: str, task: str, trial: int = 1, **changes: Any) -> dict[str, Any]:
    """As the original Thunderdome wrote it."""
    return {
        "orchestrator": agent,
        "task": task,
        "trial": trial,
        "duration_s": 321,
        "exit_code": 0,
        "exit_reason": "completed",
        "scores": {"tests": 0.75, "static_analysis": 1},
        "composite_score": 0.825,
        "total_tokens": 0,
        "total_cost_usd": 0,
        "budget_exceeded": False,
        **changes,
    }


def write_trial(run: Path, record: dict[str, Any]) -> Path:
    directory = run / "trials" / record["orchestrator"] / record["task"] / f"trial-{record['trial']}"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "meta.json").write_text(json.dumps(record))
    (directory / "diff.patch").write_text("")
    return directory


def write_run(run: Path, records: list[dict[str, Any]], *, planned: int | None = None, **info: Any) -> Path:
    """A run with these trials. With `planned`, `run.json` says how many trials each agent should have of each task.

    `info` is what else is in `run.json`.
    """
    (run / "trials").mkdir(parents=True, exist_ok=True)
    for record in records:
        write_trial(run, record)
    if planned is not None:
        cells = {(record["orchestrator"], record["task"]): record.get("category") for record in records}
        listed = [{"orchestrator": a, "task": t, "category": c, **HASH} for (a, t), c in cells.items()]
        (run / "run.json").write_text(json.dumps({**RUN, "trials": planned, "cells": listed, **info}))
    return run


def small_results(results: Path) -> Path:
    """Two agents, three tasks; one trial failed for another reason than the agent, one is flagged, one is missing."""
    retried = [
        {"number": 1, "outcome": "provider_error", "cost_usd": 0.2},
        {"number": 2, "outcome": "unsolved", "cost_usd": 0.4},
    ]
    run = write_run(
        results / "runs" / "2026-01-02T03-00-00Z-0000aaaa",
        [
            meta("claude-code", "parser", 1),
            meta("claude-code", "parser", 2, composite_score=0.65, outcome="unsolved", scores={"tests": 0.5}),
            meta("claude-code", "clock", 1, category="greenfield/cli", composite_score=0.9, total_cost_usd=1.25),
            meta(
                *("claude-code", "clock", 2),
                category="greenfield/cli",
                outcome="limit",
                exit_reason="timeout",
                composite_score=0.0,
                usage_partial=True,
            ),
            meta("aider", "parser", 1, composite_score=0.3, outcome="unsolved", total_cost_usd=0.4, attempts=retried),
            meta(
                *("aider", "parser", 2),
                outcome="infra_error",
                valid=False,
                reason="the container did not start",
                composite_score=None,
                total_cost_usd=None,
                attempts=[{"number": 1, "outcome": "infra_error", "cost_usd": 0.1}],
            ),
            meta(
                *("aider", "clock", 1),
                category="greenfield/cli",
                composite_score=0.8,
                total_cost_usd=0.3,
                total_tokens=None,
                flags=[
                    {"kind": "hidden_path", "evidence": "cat /validation/test_hidden.py", "severity": "evidence"},
                    {"kind": "tests_missing", "evidence": "12 of 20 tests ran", "severity": "note"},
                ],
            ),
        ],
        planned=2,
    )
    write_trial(run, meta("aider", "broken", 1))
    (run / "trials" / "aider" / "broken" / "trial-1" / "meta.json").write_text('{"orchestrator": "aider", ')
    (results / "latest").symlink_to(Path("runs", run.name))
    return results
