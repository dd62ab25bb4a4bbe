"""Decide what follows when a trial could not be run: the policy for errors of the harness, as tables.

What follows from an agent's outcome is decided by `trial/outcome.py`.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from enum import Enum

from youbencha.errors import ConfigError, YouBenchaError


class Consequence(Enum):
    RETRY = "retry"
    """Another attempt may succeed."""
    SKIP = "skip"
    """No trial of this orchestrator on this task can be run until something is changed."""
    STOP = "stop"
    """No trial of the run can."""


_STOP = frozenset(
    {
        "ARTIFACTS_NOT_WRITABLE",
        "INSTRUCTIONS_ABOVE_WORKSPACE",
        "LEDGER_NOT_WRITABLE",
        "RESULTS_NOT_WRITABLE",
        "WORKSPACE_NOT_WRITABLE",
        "SANDBOX_ENGINE_DENIED",
        "SANDBOX_ENGINE_REMOTE",
        "GIT_NOT_FOUND",
    }
)

STOP_IF_REPEATED = frozenset({"SANDBOX_NO_ENGINE"})
"""It may come back within the time of all attempts; if not, the run is stopped."""

AFFECTS_ALL_TASKS = frozenset({"MODEL_UNUSABLE"})
"""Failures that the orchestrator would repeat on every task."""

_SKIP_ENDINGS = (
    "_AUTH_FAILED",
    "_BROKEN",
    "_CANNOT_RUN",
    "_DENIED",
    "_HOSTILE",
    "_IMPOSSIBLE",
    "_INVALID",
    "_INVALID_CONFIG",
    "_KEY_MISSING",
    "_KEY_REFUSED",
    "_MISMATCH",
    "_NOT_FOUND",
    "_NOT_INSTALLED",
    "_NO_MODEL",
    "_UNKNOWN",
    "_UNSUPPORTED",
    "_UNUSABLE",
)
"""Of codes: something is missing or configured wrongly."""

_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})


def consequence_of(error: Exception) -> Consequence:
    """What follows from an error before, or around, the agent's own work."""
    if any(isinstance(each, OSError) and each.errno in _DISK_FULL for each in _chain(error)):
        return Consequence.STOP
    if isinstance(error, ConfigError):
        return Consequence.SKIP
    if isinstance(error, YouBenchaError):
        if error.code in _STOP:
            return Consequence.STOP
        if error.code.endswith(_SKIP_ENDINGS):
            return Consequence.SKIP
    return Consequence.RETRY


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
