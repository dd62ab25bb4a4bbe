"""The metrics sidecar of a run, in the words of the first harness: beside the log, and so in no diff."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from youbencha.adapters.claude_code.facts import SessionFacts
from youbencha.control import SIDECAR
from youbencha.control.sidecar import write_sidecar
from youbencha.log import Usage

if TYPE_CHECKING:
    from youbencha.adapters.claude_code.watch import Watch


@contextlib.contextmanager
def leave_metrics(artifacts: Path, watch: Watch, denied: Collection[str | None] = ()) -> Iterator[None]:
    """Written however it ends: a failure costs tokens, too. `denied` are calls that nobody carried out."""
    started = time.monotonic()
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # a full disk must not cost the run its result
            write_sidecar(artifacts / SIDECAR, _metrics(watch, denied, time.monotonic() - started))


def _metrics(watch: Watch, denied: Collection[str | None], duration_s: float) -> dict[str, Any]:
    """As `control.metrics` has them, from what the log is made of: the two cannot differ."""
    facts = watch.session.facts()
    usage = facts.usage or Usage()
    used = {name for call, name in watch.calls.items() if call not in denied and call not in watch.denied_calls}
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_creation_tokens": usage.cache_creation_tokens,
        "turns": facts.turns,
        "tools_used": sorted(used),
        "duration_ms": round(duration_s * 1000),
        "total_cost_usd": usage.cost_usd,
        "session_id": facts.session_id,
        "model": facts.model,
        "ended": _ending(facts),
        "partial": facts.usage is None or usage.partial,
    }


def _ending(facts: SessionFacts) -> str | None:
    result = facts.result
    if result is None:
        return None
    return "completed" if result.subtype == "success" and not result.is_error else result.subtype
