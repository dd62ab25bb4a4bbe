"""The records that say what went wrong or was odd in a run."""

from __future__ import annotations

from typing import Any

from youbencha.adapters.cli_agent import codes
from youbencha.adapters.cli_agent.kind import Kind
from youbencha.log import ErrorRecord
from youbencha.process import OUTPUT_LIMIT_BYTES


def problem(code: str, message: str, at: str, hint: str | None = None, **context: Any) -> ErrorRecord:
    return ErrorRecord(code=code, message=message, timestamp=at, hint=hint, context=context or None)


def truncated(kind: Kind, at: str) -> ErrorRecord:
    return problem(
        kind.code(codes.OUTPUT_TRUNCATED),
        f"The output was truncated: only its first 10MB ({OUTPUT_LIMIT_BYTES} bytes) were kept.",
        at,
        "The run itself was not affected. Tokens, cost and result were read from the whole stream as it came; "
        "messages and tool calls after the cut are not in the log.",
        limit_bytes=OUTPUT_LIMIT_BYTES,
    )


def malformed(kind: Kind, count: int, example: str | None, at: str) -> ErrorRecord:
    lines = "1 line of the output was" if count == 1 else f"{count} lines of the output were"
    return problem(
        kind.code(codes.MALFORMED_LINE),
        f"{lines} not a stream-json event and left out.",
        at,
        "Usually a hook, a wrapper script or a debug setting that prints to stdout; the raw log has every line.",
        lines=count,
        example=example,
    )


def plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
