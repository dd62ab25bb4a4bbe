"""The metrics sidecar of a trial, in the Thunderdome's words: for whoever reads those, whichever the agent. Pure."""

from __future__ import annotations

import json

from youbencha.log import Usage
from youbencha.log.sidecar import SIDECAR
from youbencha.trial.bundle import Record

__all__ = ["SIDECAR", "sidecar_of"]


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
        "tools_used": sorted({call.name for call in log.tool_calls}) if log else None,
        "duration_ms": log.execution.duration_ms if log else None,
        "total_cost_usd": known.cost_usd,
        "model": log.model_info.name if log else record.agent_model,
        "ended": log.execution.status if log else "interrupted",
        "partial": usage is None or bool(usage.partial),
    }
    return json.dumps(told, indent=2) + "\n"
