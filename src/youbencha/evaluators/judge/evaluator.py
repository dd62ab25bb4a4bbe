"""AgenticJudge: any agent as a judge.

The judge works on a copy of the tree that is thrown away, so it disturbs neither what is judged nor another evaluator.
What it says is read as scores, and declared thresholds decide: a judge that says "passed" with a score of 0 is
reported, not believed. Nothing in the judged tree may instruct the judge (see `copying.py` and `definition.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from youbencha.errors import ConfigError, Problem
from youbencha.evaluators.base import EvaluationContext
from youbencha.evaluators.result import finished
from youbencha.log import EvaluationResult

if TYPE_CHECKING:
    from youbencha.adapters.base import AgentAdapter
    from youbencha.evaluators.judge.checking import Checked
    from youbencha.spec import AgentSpec


def _installed(name: str) -> AgentAdapter:
    from youbencha.adapters import get_adapter

    return get_adapter(name)


class AgenticJudge:
    """Asks an agent whether assertions hold, as often as `votes` says. What it needs is imported when it judges."""

    name = "agentic-judge"
    description = "An agent looks at the result and scores your assertions from 0 to 1; your thresholds decide."

    def __init__(self, adapters: Callable[[str], AgentAdapter] = _installed) -> None:
        self._adapters = adapters

    def check_config(
        self, config: Mapping[str, Any], config_dir: Path, agent_type: str | None = None
    ) -> Sequence[Problem]:
        """`agent_type` is the test case's agent, which judges where there is no `type`. None: there is none."""
        return self._checked(config, config_dir, agent_type).problems

    def goes_around_gateway(
        self, config: Mapping[str, Any], config_dir: Path, agent: AgentSpec | None, env: Mapping[str, str]
    ) -> str | None:
        """Of `AsksModel`. A program of somebody's own need not ask any model."""
        from youbencha.adapters.base import needs_model
        from youbencha.evaluators.judge.seat import knows_gateway, seat

        checked = self._checked(config, config_dir, agent.type if agent else None)
        if checked.judge is None:
            return None
        taken = seat(checked.judge, checked.options, agent, self._adapters)
        known = knows_gateway(taken, agent.type if agent else None, {**env, **checked.judge.env})
        return None if known or not needs_model(taken.adapter) else taken.type

    async def evaluate(self, context: EvaluationContext) -> EvaluationResult:
        """Skipped where the agent itself failed; an error where no judge could be heard."""
        from youbencha.evaluators.judge.session import hold_session

        started = time.monotonic()
        checked = self._checked(context.config, context.config_dir, context.agent.type if context.agent else None)
        if checked.problems or checked.judge is None:
            raise ConfigError("EVALUATOR_CONFIG_INVALID", f"The configuration of {context.name}", checked.problems)
        if not checked.judge.judge_failed_runs and (reason := _not_worth_judging(context)):
            return finished(context, started, "skipped", reason)
        return await hold_session(context, checked, self._adapters, started)

    def _checked(self, config: Mapping[str, Any], config_dir: Path, agent_type: str | None) -> Checked:
        from youbencha.evaluators.judge.checking import check

        return check(config, config_dir, agent_type, self._adapters)


def _not_worth_judging(context: EvaluationContext) -> str | None:
    """It cannot pass any more, and a judge costs money."""
    status = context.log.execution.status if context.log else "success"
    if status == "success":
        return None
    how = "ran out of time" if status == "timeout" else "failed"
    return f"Not judged, because the agent {how}. Set judge_failed_runs: true to have it judged all the same."
