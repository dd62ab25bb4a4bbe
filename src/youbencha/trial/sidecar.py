"""The metrics sidecar of a trial, in the Thunderdome's words: for whoever reads those, whichever the agent. Pure."""

from __future__ import annotations

import json
from collections import Counter

from youbencha.log import Usage, YouBenchaLog
from youbencha.log.sidecar import SIDECAR
from youbencha.trial.bundle import Record

__all__ = ["SIDECAR", "sidecar_of"]

_DENIED = "_TOOL_DENIED"
"""How the code of every adapter's warning of denied tools ends. It counts them by name."""


def sidecar_of(record: Record) -> str:
    """However it ended. What is not known is null; `partial` where more was spent than could be counted."""
    log = record.log
    usage = log.usage if log else record.gateway.usage if record.gateway else None
    known = usage or Usage()
    told = {
        "input_tokens": known.input_tokens,
        "output_tokens": known.output_tokens,
        "cache_read_tokens": known.cache_read_tokens,
        "cache_creation_tokens": known.cache_creation_tokens,
        "turns": log.turns if log else None,
        "tools_used": _tools_used(log) if log else None,
        "duration_ms": log.execution.duration_ms if log else None,
        "total_cost_usd": known.cost_usd,
        "session_id": log.session_id if log else None,
        "model": log.model_info.name if log else record.agent_model,
        "ended": _ended(log) if log else "interrupted",
        "partial": usage is None or bool(usage.partial),
    }
    return json.dumps(told, indent=2) + "\n"


def _ended(log: YouBenchaLog) -> str:
    return "completed" if log.execution.status == "success" else log.execution.status


def _tools_used(log: YouBenchaLog) -> list[str]:
    """Without those of which every call was denied: nobody carried one out."""
    calls = Counter(call.name for call in log.tool_calls)
    for warning in log.warnings:
        denied = (warning.context or {}).get("tools")
        if (warning.code or "").endswith(_DENIED) and isinstance(denied, dict):
            calls.subtract({name: times for name, times in denied.items() if isinstance(times, int)})
    return sorted(name for name, times in calls.items() if times > 0)
