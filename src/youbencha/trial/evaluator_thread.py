"""Run an evaluator of another package in a thread, so that whatever it does, the harness goes on."""

from __future__ import annotations

import asyncio
import inspect
import threading
from contextlib import suppress
from typing import Any

from youbencha.errors import YouBenchaError
from youbencha.evaluators.base import EvaluationContext, Evaluator
from youbencha.log.model import as_json
from youbencha.log.results import EvaluationResult

_GRACE_S = 5.0
"""For its own cleaning up, after it was cancelled."""


async def evaluate_in_thread(evaluator: Evaluator, context: EvaluationContext) -> EvaluationResult:
    """Evaluate with an event loop of its own. If this is cancelled, so is the evaluator; then it is abandoned."""
    here, inside = asyncio.get_running_loop(), asyncio.new_event_loop()
    ended: asyncio.Future[Any] = here.create_future()

    async def evaluate() -> Any:
        answer: Any = evaluator.evaluate(context)
        return await answer if inspect.isawaitable(answer) else answer

    def run() -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: inside) as runner:
                end = (ended.set_result, runner.run(evaluate()))
        except BaseException as error:  # noqa: BLE001 (SystemExit, too, must end only the evaluator)
            end = (ended.set_exception, error if isinstance(error, Exception) else _broken(f"raised {error!r}"))
        with suppress(RuntimeError):  # it was abandoned, and the harness has ended
            here.call_soon_threadsafe(lambda: ended.done() or end[0](end[1]))

    threading.Thread(target=run, name=context.name, daemon=True).start()
    try:
        return _checked(await asyncio.shield(ended))
    except asyncio.CancelledError:
        with suppress(RuntimeError):  # it has ended
            inside.call_soon_threadsafe(lambda: [task.cancel() for task in asyncio.all_tasks(inside)])
        await asyncio.wait({ended}, timeout=_GRACE_S)
        raise


def _checked(answer: Any) -> EvaluationResult:
    """The answer as it is written to the results, which not even its metrics may prevent."""
    if not isinstance(answer, EvaluationResult):
        raise _broken(f"returned {type(answer).__name__} instead of an EvaluationResult")
    try:
        return EvaluationResult.model_validate_json(as_json(answer))
    except (ValueError, TypeError) as error:
        raise _broken(f"returned a result that cannot be written: {error}") from error


def _broken(what: str) -> YouBenchaError:
    return YouBenchaError("EVALUATOR_BROKEN", f"The evaluator {what}.", hint="Contact the author of the package.")
