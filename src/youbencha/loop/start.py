"""Begin a loop, or continue one from its files."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from youbencha.errors import YouBenchaError
from youbencha.gateway.ledger import read_ledger
from youbencha.loop.directory import LoopDirectory
from youbencha.loop.outcome import interrupted, state_after_crash
from youbencha.store.layout import LEDGER_FILE
from youbencha.store.loops import LoopHistory, LoopState
from youbencha.text import iso_time

if TYPE_CHECKING:
    from youbencha.loop.plan import LoopPlan


def new_history(plan: LoopPlan, loop_id: str) -> LoopHistory:
    """The state of a loop that begins."""
    state = LoopState(
        loop_id=loop_id,
        config_file=str(plan.config_file) if plan.config_file else None,
        options=plan.options,
        started_at=iso_time(time.time()),
        objective=plan.objective,
    )
    return LoopHistory(state, ())


def load_history(directory: LoopDirectory) -> LoopHistory:
    """Load a loop, to continue it. Raises YouBenchaError if that is not possible; nothing is changed."""
    history = directory.load()
    if history.state.outcome in ("completed", "cancelled"):
        raise YouBenchaError(
            "LOOP_HAS_ENDED",
            f"The loop {directory.loop_id} has already ended: {history.state.outcome}.",
            hint="Start a new one: `ralph run` without --continue.",
        )
    return history


def go_on(directory: LoopDirectory, history: LoopHistory, plan: LoopPlan) -> LoopHistory:
    """Complete the journal, and record the iteration that ran when the loop was killed, if one did.

    If the loop had ended, its failures are forgotten: the user wants another attempt. Its limits hold.
    """
    state, records = history
    if state.last is not None and all(each.iteration != state.last.iteration for each in records):
        directory.append(state.last)  # the harness died between the state and the journal
        records = (*records, state.last)
    if state.running is not None:
        record = interrupted(state, plan.backend.name, ledger_entries(directory))
        state = state_after_crash(state, record)
        directory.save(state)
        directory.append(record)
        records = (*records, record)
    if state.outcome is not None:
        forgotten = ("consecutive_failures", "step_failures", "escalation", "usage_limits", "repeats")
        state = state.model_copy(update={"outcome": None, "reason": None, **dict.fromkeys(forgotten, 0)})
    return LoopHistory(state.model_copy(update={"objective": plan.objective, "options": plan.options}), records)


def ledger_entries(directory: LoopDirectory) -> Iterator[dict[str, Any]]:
    """What went through the gateways of a loop."""
    for ledger in sorted(directory.path.glob(f"backends/*/artifacts/{LEDGER_FILE}*")):
        with suppress(OSError):  # an agent could have replaced it
            yield from read_ledger(ledger)
