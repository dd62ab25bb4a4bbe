"""When a webhook is tried again, and how long to wait before."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

_WORTH_ANOTHER_TRY = frozenset({408, 425, 429})
"""Besides 5xx: the server was busy or broken. Any other refusal would only be repeated."""


@dataclass(frozen=True)
class RetryPolicy:
    waits_s: tuple[float, ...] = (1.0, 2.0)
    """Before the second attempt, the third, and so on."""
    longest_wait_s: float = 30.0
    """However long the server asks us to wait."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def wait_s(self, failures: int, asked_s: float | None) -> float | None:
        """How long to wait after that many failures; None: it was the last attempt."""
        if failures > len(self.waits_s):
            return None
        return max(self.waits_s[failures - 1], min(asked_s or 0.0, self.longest_wait_s))


def may_pass(status: int) -> bool:
    """Whether the same request may be answered otherwise in a moment."""
    return status in _WORTH_ANOTHER_TRY or status >= 500


def asked_wait_s(retry_after: str | None) -> float | None:
    """`Retry-After`: seconds, or a date."""
    text = (retry_after or "").strip()
    if text.isdecimal() and text.isascii():
        return float(text[:9])  # a longer one is for ever, too
    if not text:
        return None
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
