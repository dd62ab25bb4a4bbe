"""A result as data that other programs read: whole, or what a table needs of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from youbencha.log import ResultsBundle, Usage


def as_plain_data(bundle: ResultsBundle) -> dict[str, Any]:
    return bundle.model_dump(mode="json")


def as_json_bytes(data: Mapping[str, Any]) -> bytes:
    """One line, and pure ASCII: a file name of the agent's may hold bytes that are no UTF-8, which only this way of
    writing them survives."""
    return json.dumps(data, separators=(",", ":")).encode("ascii")


def summary_of(bundle: ResultsBundle, exported_at: str) -> dict[str, str | int | float | bool | None]:
    """One flat row. What is not known is null."""
    agent, outcome = bundle.agent, bundle.outcome
    usage = (agent.usage if agent else None) or Usage()
    return {
        "run_id": bundle.identity.run_id,
        "exported_at": exported_at,
        "test_case": bundle.test_case.name,
        "agent": agent.type if agent else None,
        "model": agent.model if agent else None,
        "overall_status": bundle.summary.overall_status,
        "outcome": outcome.name if outcome else None,
        "valid": outcome.valid if outcome else None,
        "duration_ms": bundle.execution.duration_ms,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": usage.cost_usd,
        "started_at": bundle.execution.started_at,
        "commit": bundle.test_case.commit,
    }
