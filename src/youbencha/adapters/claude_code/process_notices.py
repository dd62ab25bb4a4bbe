"""Oddities of the process itself that a person should know of, though they failed nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from youbencha.adapters.claude_code.codes import GUARD_LOST, LEFT_PROCESSES, LOG_INCOMPLETE, OUTPUT_SKIPPED
from youbencha.adapters.claude_code.problems import problem
from youbencha.log import ErrorRecord
from youbencha.process import ProcessResult


def process_warnings(done: ProcessResult, cli: Path, at: str) -> Iterator[ErrorRecord]:
    # 2.0.62 starts itself once more in the background to look at its ripgrep, and does not wait for it.
    left = sorted(program for program in done.exit.leftovers if program != str(cli.resolve()))
    if left:
        processes = f"{len(left)} process{'' if len(left) == 1 else 'es'}"
        yield problem(
            LEFT_PROCESSES,
            f"Claude Code ended but left {processes} running; they were ended too.",
            at,
            "Usually a server started in the background: nothing that runs on after the agent is measured.",
            count=len(left),
            programs=left,
        )
    if done.exit.guard_lost:
        yield problem(
            GUARD_LOST,
            "The process that watches over the agent was killed; the agent was ended with it.",
            at,
            "Look for what kills processes here: the agent itself, or a system that runs out of memory.",
        )
    if done.log_error:
        yield problem(
            LOG_INCOMPLETE,
            f"The terminal log could not be written to its end: {done.log_error}",
            at,
            "Make room on disk.",
        )
    if done.skipped_bytes:
        yield problem(
            OUTPUT_SKIPPED,
            f"{done.skipped_bytes} bytes of output came faster than they could be read, and were dropped.",
            at,
            bytes=done.skipped_bytes,
        )
