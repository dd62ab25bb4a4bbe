"""Runs that ended in some way, for tests of the verdict."""

from __future__ import annotations

from typing import Any

from youbencha.adapters.cli_agent.verdict import RunEnding
from youbencha.log.session import SessionFacts, SessionRecord
from youbencha.process import Exit, LimitHit, OutputEnd, ProcessResult


def run_ending(
    exit_code: int | None = 0,
    *,
    facts: SessionFacts = SessionFacts(),  # noqa: B008  # it is frozen
    output: str = "",
    signal: str | None = None,
    limit_hit: LimitHit | None = None,
    duration_s: float = 0.0,
    timed_out: bool = False,
    stopped: bool = False,
    truncated: bool = False,
    unfinished_line: bool = False,
    **how: Any,
) -> RunEnding:
    process = ProcessResult(
        exit=Exit(code=exit_code, signal=signal, lifetime_s=duration_s, limit_hit=limit_hit),
        output=output,
        printed=output,
        end=OutputEnd("", 0) if truncated else None,
        total_bytes=len(output),
        timed_out=timed_out,
        stopped=stopped,
        started_at=0.0,
        duration_s=duration_s,
        unfinished_line=unfinished_line,
    )
    return RunEnding(process=process, session=SessionRecord(facts=facts), **{"stream_expected": False, **how})
