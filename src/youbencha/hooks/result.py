"""How a hook's end is told."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from youbencha.errors import YouBenchaError
from youbencha.log import EvaluationError, HookResult, iso_time
from youbencha.process import Redactor


@dataclass(frozen=True, kw_only=True)
class Done:
    """What a hook says of itself when it has done its work."""

    message: str
    metadata: Mapping[str, Any] = field(default_factory=dict)


class HookFailed(YouBenchaError):
    """The hook ran and did not succeed; `metadata` says how far it came."""

    def __init__(self, code: str, message: str, *, hint: str | None = None, metadata: Mapping[str, Any]) -> None:
        super().__init__(code, message, hint=hint)
        self.metadata = metadata


class Stopwatch:
    """Runs from the moment it is made; makes the result when the hook is through."""

    def __init__(self, hook: str) -> None:
        self._hook = hook
        self._at = time.time()
        self._started = time.monotonic()

    def success(self, done: Done) -> HookResult:
        return HookResult(
            hook=self._hook,
            status="success",
            message=done.message,
            duration_ms=self._duration_ms(),
            timestamp=iso_time(self._at),
            metadata=dict(done.metadata),
        )

    def failure(self, error: Exception, redactor: Redactor) -> HookResult:
        told = error if isinstance(error, YouBenchaError) else _unforeseen(error)
        message = redactor.text(told.message)
        return HookResult(
            hook=self._hook,
            status="failed",
            message=message,
            duration_ms=self._duration_ms(),
            timestamp=iso_time(self._at),
            metadata=dict(told.metadata) if isinstance(told, HookFailed) else {},
            error=EvaluationError(message=message, code=told.code, hint=told.hint),
        )

    def _duration_ms(self) -> int:
        return round((time.monotonic() - self._started) * 1000)


def _unforeseen(error: Exception) -> YouBenchaError:
    reason = f"{error.strerror}: {error.filename}" if isinstance(error, OSError) and error.filename else str(error)
    return YouBenchaError("HOOK_FAILED", " ".join(f"{type(error).__name__}: {reason}".split()))
