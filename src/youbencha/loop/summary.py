"""Summarize a loop: `summary.md` for people, `summary.json` for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from youbencha.text import count, duration, one_line, plural, usd

if TYPE_CHECKING:
    from youbencha.loop.directory import LoopDirectory
    from youbencha.loop.model import IterationRecord, LoopState

_COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens", "files_changed")


def write_summary(directory: LoopDirectory, state: LoopState, records: Sequence[IterationRecord]) -> None:
    directory.write("summary.json", json.dumps(summary_of(state, records), indent=2) + "\n")
    directory.write("summary.md", render_summary(state, records))


def summary_of(state: LoopState, records: Sequence[IterationRecord]) -> dict[str, Any]:
    """The totals and the records. A total is null if no iteration reported it."""
    return {
        "loop_id": state.loop_id,
        "outcome": state.outcome,
        "reason": state.reason,
        "started_at": state.started_at,
        "elapsed_ms": state.elapsed_ms,
        "iterations": len(records),
        **{name: _total(records, name) for name in _COUNTS},
        "cost_usd": state.cost_usd,
        "partial": any(record.partial or record.cost_usd is None for record in records),
        "records": [record.model_dump(mode="json") for record in records],
    }


def render_summary(state: LoopState, records: Sequence[IterationRecord]) -> str:
    totals = summary_of(state, records)
    partly_known = totals["partial"] and state.cost_usd is not None
    tokens = f"{count(totals['input_tokens'])} in, {count(totals['output_tokens'])} out"
    lines = [
        f"# Loop {state.loop_id}: {(state.outcome or 'running').replace('_', ' ')}",
        "",
        f"{_escaped(state.reason or '')}",
        "",
        f"- {plural(len(records), 'iteration')} in {duration(state.elapsed_ms)}",
        f"- tokens: {tokens}",
        f"- cost: {usd(state.cost_usd)}{' (some of it is unknown)' if partly_known else ''}",
        "",
        "| # | outcome | agent | time | tokens in | tokens out | cost | files changed | gates |",
        "|--:|---|---|--:|--:|--:|--:|--:|---|",
        *(_row(record) for record in records),
    ]
    return "\n".join([*lines, *_reasons(records)]) + "\n"


def _row(record: IterationRecord) -> str:
    agent = " · ".join(filter(None, (record.hat, record.backend, record.model)))
    gates = ", ".join(f"{gate.name} {gate.status}" for gate in record.gates)
    cells = (
        str(record.iteration),
        f"{record.outcome}{', says done' if record.claimed_done else ''}",
        agent,
        duration(record.duration_ms),
        count(record.input_tokens),
        count(record.output_tokens),
        usd(record.cost_usd),
        "?" if record.files_changed is None else str(record.files_changed),
        gates,
    )
    return f"| {' | '.join(map(_escaped, cells))} |"


def _reasons(records: Sequence[IterationRecord]) -> Iterator[str]:
    failed = [record for record in records if record.reason]
    if failed:
        yield ""
    for record in failed:
        yield f"- iteration {record.iteration}: {_escaped(one_line(record.reason or '', 500))}"


def _total(records: Sequence[IterationRecord], name: str) -> int | None:
    known = [value for record in records if (value := getattr(record, name)) is not None]
    return sum(known) if known else None


def _escaped(text: str) -> str:
    """Text of an agent must not end a cell, or be markup."""
    return one_line(text, 500).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("`", "'")
