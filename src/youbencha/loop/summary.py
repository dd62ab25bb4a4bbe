"""Summarize a loop: `summary.md` for people, `summary.json` for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from youbencha.loop.directory import LoopDirectory
from youbencha.report.document import Block, Column, Heading, NoteList, Paragraph, Table
from youbencha.report.markdown import render_markdown
from youbencha.store.loops import IterationRecord, LoopState
from youbencha.text import format_count, format_duration, format_usd, plural
from youbencha.transcript.lines import OWN_FIGURES

_COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens", "cost_usd")


class TotalUsage(NamedTuple):
    """The total usage of several iterations. None: no iteration reported it."""

    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int | None
    cache_creation_tokens: int | None
    cost_usd: float | None
    partial: bool
    """More was used than could be counted."""
    own_figures: bool
    """Part of it was counted by agents themselves, and not by the gateway."""


def total_usage(records: Sequence[IterationRecord]) -> TotalUsage:
    """Add up the usage of these iterations."""
    return TotalUsage(
        **{name: _total(records, name) for name in _COUNTS},
        partial=any(record.partial or record.cost_usd is None for record in records),
        own_figures=any(record.usage_source in OWN_FIGURES for record in records),
    )


def write_summary(directory: LoopDirectory, state: LoopState, records: Sequence[IterationRecord]) -> None:
    directory.write("summary.json", json.dumps(summary_data(state, records), indent=2) + "\n")
    directory.write("summary.md", render_summary(state, records))


def summary_data(state: LoopState, records: Sequence[IterationRecord]) -> dict[str, Any]:
    """Return the totals and the records. A total is null if no iteration reported it."""
    totals = total_usage(records)
    return {
        "loop_id": state.loop_id,
        "outcome": state.outcome,
        "reason": state.reason,
        "started_at": state.started_at,
        "elapsed_ms": state.elapsed_ms,
        "iterations": len(records),
        **totals._asdict(),
        "files_changed": _total(records, "files_changed"),
        "by_agent": [
            {"agent": agent, "iterations": len(own), **total_usage(own)._asdict()}
            for agent, own in _by_agent(records).items()
        ],
        "records": [record.model_dump(mode="json") for record in records],
    }


def render_summary(state: LoopState, records: Sequence[IterationRecord]) -> str:
    totals = total_usage(records)
    figures = [
        f"{plural(len(records), 'iteration')} in {format_duration(state.elapsed_ms)}",
        f"tokens: {_tokens(totals)}",
        f"cost: {_cost(totals)}",
        *_agents(records),
    ]
    blocks: list[Block] = [Heading(f"Loop {state.loop_id}: {(state.outcome or 'running').replace('_', ' ')}", 1)]
    blocks += [Paragraph(state.reason)] if state.reason else []
    blocks += [NoteList(figures), Table(_COLUMNS, [_row(record) for record in records])]
    reasons = [(record.iteration, text) for record in records if (text := record.reason or record.refusal)]
    blocks += [NoteList([f"iteration {iteration}: {text}" for iteration, text in reasons])] if reasons else []
    if totals.own_figures:
        blocks.append(Paragraph("(own): the agent's own figures, which the gateway has not counted."))
    return render_markdown(blocks)


_COLUMNS = (
    Column("#", number=True),
    Column("Outcome"),
    Column("Agent"),
    *(Column(title, number=True) for title in ("Time", "Tokens in", "Tokens out", "Cost", "Files changed")),
    Column("Gates"),
)


def _row(record: IterationRecord) -> tuple[str, ...]:
    return (
        str(record.iteration),
        f"{record.outcome}{_verdict(record)}",
        " · ".join(filter(None, (record.hat, record.backend, record.model))),
        format_duration(record.duration_ms),
        format_count(record.input_tokens),
        format_count(record.output_tokens),
        f"{format_usd(record.cost_usd)}{' (own)' if record.usage_source in OWN_FIGURES else ''}",
        "?" if record.files_changed is None else str(record.files_changed),
        ", ".join(f"{gate.name} {gate.status}" for gate in record.gates),
    )


def _verdict(record: IterationRecord) -> str:
    if record.refusal is not None:
        return ", not accepted as done"
    return ", says done" if record.claimed_done else ""


def _agents(records: Sequence[IterationRecord]) -> Iterator[str]:
    """Yield a line about the usage of each backend and model, if there were several."""
    by_agent = _by_agent(records)
    if len(by_agent) > 1:
        for agent, own in by_agent.items():
            used = total_usage(own)
            figures = f"{plural(len(own), 'iteration')}, {_tokens(used)}, {_cost(used)}"
            yield f"{agent}: {figures}"


def _by_agent(records: Sequence[IterationRecord]) -> dict[str, list[IterationRecord]]:
    by_agent: dict[str, list[IterationRecord]] = {}
    for record in records:
        by_agent.setdefault(" ".join(filter(None, (record.backend, record.model))), []).append(record)
    return by_agent


def _tokens(totals: TotalUsage) -> str:
    return f"{format_count(totals.input_tokens)} in, {format_count(totals.output_tokens)} out"


def _cost(totals: TotalUsage) -> str:
    partial = " (some of it is unknown)" if totals.partial and totals.cost_usd is not None else ""
    return f"{format_usd(totals.cost_usd)}{' (own)' if totals.own_figures else ''}{partial}"


def _total(records: Sequence[IterationRecord], name: str) -> Any:
    known = [value for record in records if (value := getattr(record, name)) is not None]
    return sum(known) if known else None
