"""What all evaluators do to hand in what they found."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from youbencha.evaluators.base import EvaluationContext

if TYPE_CHECKING:
    from youbencha.log import Artifact, AssertionResult, EvaluationResult, EvaluationStatus, Usage


def finished(
    context: EvaluationContext,
    started: float,
    status: EvaluationStatus,
    message: str,
    *,
    metrics: Mapping[str, Any] | None = None,
    assertions: Sequence[AssertionResult] = (),
    artifacts: Sequence[Artifact] = (),
    usage: Usage | None = None,
) -> EvaluationResult:
    """The result, under the name that the person gave. `started` is what `time.monotonic()` said then."""
    from youbencha.log import EvaluationResult, iso_time

    return EvaluationResult(
        evaluator=context.name,
        status=status,
        message=message,
        metrics=dict(metrics or {}),
        duration_ms=round((time.monotonic() - started) * 1000),
        timestamp=iso_time(time.time()),
        assertions=tuple(assertions),
        artifacts=tuple(artifacts),
        usage=usage,
    )


def artifacts_root(context: EvaluationContext) -> Path:
    """The run's directory of artifacts; an evaluator's own is `evaluators/NAME` in it."""
    return context.artifacts_dir.parent.parent


def artifact(context: EvaluationContext, kind: str, path: Path, description: str) -> Artifact:
    """A file to name in a result, where every path is relative to the run's directory of artifacts."""
    from youbencha.log import Artifact

    relative = os.path.relpath(path, artifacts_root(context))
    return Artifact(type=kind, path=Path(relative).as_posix(), description=description)


def printable(path: str) -> str:
    """A path for a result. Bytes that are no UTF-8 are shown as `\\xff`: JSON has no other way to hold them."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def counted(number: int, thing: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
