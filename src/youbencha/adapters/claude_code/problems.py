"""The records that say what went wrong or was odd in a run."""

from __future__ import annotations

import math
from typing import Any

from youbencha.adapters.claude_code import codes
from youbencha.log import ErrorRecord, iso_time
from youbencha.process import OUTPUT_LIMIT_BYTES


def problem(code: str, message: str, at: str, hint: str | None = None, **context: Any) -> ErrorRecord:
    return ErrorRecord(code=code, message=message, timestamp=at, hint=hint, context=context or None)


def truncated(at: str) -> ErrorRecord:
    return problem(
        codes.OUTPUT_TRUNCATED,
        f"The output was truncated: only its first 10MB ({OUTPUT_LIMIT_BYTES} bytes) were kept.",
        at,
        "The run itself was not affected. Tokens, cost and result were read from the whole stream as it came; "
        "messages and tool calls after the cut are not in the log.",
        limit_bytes=OUTPUT_LIMIT_BYTES,
    )


def malformed(count: int, example: str | None, at: str) -> ErrorRecord:
    lines = "1 line of the output was" if count == 1 else f"{count} lines of the output were"
    return problem(
        codes.MALFORMED_LINE,
        f"{lines} not a stream-json event and left out.",
        at,
        "Usually a hook, a wrapper script or a debug setting that prints to stdout; the raw log has every line.",
        lines=count,
        example=example,
    )


def moment_of(seconds: float | None) -> str | None:
    """An epoch time as our files write it; None for one that no calendar holds."""
    if seconds is None or not math.isfinite(seconds):
        return None
    try:
        return iso_time(seconds)
    except (OverflowError, ValueError, OSError):
        return None


def plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
