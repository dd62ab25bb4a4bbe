"""Run an evaluator of another package, which may contain anything."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from youbencha.errors import Problem, YouBenchaError
from youbencha.evaluators.base import EvaluationContext, Evaluator, EvaluatorBase
from youbencha.log.model import as_json
from youbencha.store.bundle import EvaluationResult

_TIMEOUT_MS = 600_000
_GRACE_S = 10.0
"""The time that a cancelled evaluator has to clean up."""

_ABILITIES = (
    *("needs_expected", "uses_model", "check_environment", "is_advisory", "uses_agent_state"),
    *("bypasses_gateway", "requested_model"),
)
"""The parts of `EvaluatorBase` that another package can provide."""


class ExternalEvaluator(EvaluatorBase[BaseModel]):
    """An evaluator of another package. It works in a thread, for at most the `timeout` in its configuration."""

    config_model = BaseModel
    time_limit_s = None

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self.name, self.description = evaluator.name, evaluator.description
        for ability in _ABILITIES:
            if hasattr(evaluator, ability):
                setattr(self, ability, getattr(evaluator, ability))

    def check_config(
        self, config: Mapping[str, Any], config_dir: Path, *, agent_type: str | None = None
    ) -> Sequence[Problem]:
        return self._evaluator.check_config(config, config_dir, agent_type=agent_type)

    async def evaluate(self, context: EvaluationContext) -> EvaluationResult:
        configured = context.config.get("timeout")
        limit_s = (configured if isinstance(configured, int) else _TIMEOUT_MS) / 1000
        try:
            async with asyncio.timeout(limit_s) as limit:
                return await self._evaluate_in_thread(context)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise YouBenchaError(
                "EVALUATOR_TIMEOUT",
                f"The evaluator did not finish within {limit_s:g} s.",
                hint="Give it more time: `timeout` in its `config`, in milliseconds.",
            ) from error

    async def _evaluate_in_thread(self, context: EvaluationContext) -> EvaluationResult:
        """Let it work in a thread, so that nothing it does stops the harness.

        If this is cancelled, so is the evaluator; then its thread is abandoned.
        """
        loop, own_loop = asyncio.get_running_loop(), asyncio.new_event_loop()
        ended: asyncio.Future[EvaluationResult] = loop.create_future()

        def run() -> None:
            settle: Callable[[], None]
            try:
                with asyncio.Runner(loop_factory=lambda: own_loop) as runner:
                    settle = partial(ended.set_result, runner.run(self._answer(context)))
            except BaseException as error:  # noqa: BLE001 (even SystemExit must end only the evaluator)
                failure = error if isinstance(error, Exception) else RuntimeError(f"raised {error!r}")
                settle = partial(ended.set_exception, failure)
            with suppress(RuntimeError):  # it was abandoned, and the harness has ended
                loop.call_soon_threadsafe(lambda: None if ended.done() else settle())

        threading.Thread(target=run, name=context.name, daemon=True).start()
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            with suppress(RuntimeError):  # it has ended
                own_loop.call_soon_threadsafe(lambda: [task.cancel() for task in asyncio.all_tasks(own_loop)])
            await asyncio.wait({ended}, timeout=_GRACE_S)
            raise

    async def _answer(self, context: EvaluationContext) -> EvaluationResult:
        answer: Any = self._evaluator.evaluate(context)
        answer = await answer if inspect.isawaitable(answer) else answer
        if not isinstance(answer, EvaluationResult):
            kind = "None" if answer is None else type(answer).__name__
            raise TypeError(f"evaluate returned {kind} instead of an EvaluationResult")
        return EvaluationResult.model_validate_json(as_json(answer))  # what cannot be written is an error
