"""Oddities of the process itself that a person should know of, though they failed nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from youbencha.adapters.cli_agent import codes
from youbencha.adapters.cli_agent.kind import AgentKind, error_record
from youbencha.adapters.cli_agent.normalize import has_code
from youbencha.log import ErrorRecord
from youbencha.process import ProcessResult


def process_warnings(
    kind: AgentKind, done: ProcessResult, cli: Path, at: str, *, errors: tuple[ErrorRecord, ...] = ()
) -> Iterator[ErrorRecord]:
    """`errors` are told already."""
    # Claude Code 2.0.62 starts itself once more in the background to look at its ripgrep, and does not wait for it.
    left = sorted(program for program in done.exit.leftovers if program != str(cli.resolve()))
    if left:
        processes = f"{len(left)} process{'' if len(left) == 1 else 'es'}"
        yield error_record(
            kind.code(codes.LEFT_PROCESSES),
            f"{kind.title} ended but left {processes} running; they were ended too.",
            at,
            "Usually a server started in the background: nothing that runs on after the agent is measured.",
            count=len(left),
            programs=left,
        )
    if done.exit.breach and not has_code(errors, kind.code(codes.SANDBOX_LIMIT)):
        yield error_record(
            kind.code(codes.SANDBOX_LIMIT),
            f"{kind.title} ran into a limit of its sandbox: {done.exit.breach}.",
            at,
            "What it did not finish may be due to that. Raise the limit under `sandbox`, or give a smaller task.",
            limit=str(done.exit.breach),
        )
    if done.exit.guard_lost:
        yield error_record(
            kind.code(codes.GUARD_LOST),
            "The process that watches over the agent was killed; the agent was ended with it.",
            at,
            "Look for what kills processes here: the agent itself, or a system that runs out of memory.",
        )
    if done.log_error:
        yield error_record(
            kind.code(codes.LOG_INCOMPLETE),
            f"The terminal log could not be written to its end: {done.log_error}",
            at,
            "Make room on disk.",
        )
    if done.skipped_bytes:
        yield error_record(
            kind.code(codes.OUTPUT_SKIPPED),
            f"{done.skipped_bytes} bytes of output came faster than they could be read, and were dropped.",
            at,
            bytes=done.skipped_bytes,
        )
