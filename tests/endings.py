"""Runs that ended in some way, for tests of the verdict."""

from __future__ import annotations

from typing import Any

from youbencha.adapters.cli_agent.verdict import RunEnding
from youbencha.log.session import SessionFacts, SessionRecord
from youbencha.process import Exit, LimitHit, ProcessResult


def run_ending(
    exit_code: int | None = 0,
    *,
    facts: SessionFacts = SessionFacts(),  # noqa: B008  # it is frozen
    output: str = "",
    signal: str | None = None,
    breach: LimitHit | None = None,
    duration_s: float = 0.0,
    timed_out: bool = False,
    stopped: bool = False,
    truncated: bool = False,
    unfinished_line: bool = False,
    **how: Any,
) -> RunEnding:
    process = ProcessResult(
        exit=Exit(code=exit_code, signal=signal, lifetime_s=duration_s, breach=breach),
        output=output,
        printed=output,
        truncated=truncated,
        total_bytes=len(output),
        skipped_bytes=0,
        timed_out=timed_out,
        stopped=stopped,
        started_at=0.0,
        ended_at=duration_s,
        duration_s=duration_s,
        unfinished_line=unfinished_line,
    )
    return RunEnding(process=process, session=SessionRecord(facts=facts), **{"stream_expected": False, **how})
