"""A replay asks nobody and costs nothing. What would do so all the same is refused before anything runs."""

from __future__ import annotations

from collections.abc import Mapping

from youbencha.evaluators import get_evaluator
from youbencha.evaluators.base import AsksModel
from youbencha.spec import Loaded, TestCase
from youbencha.trial.gateway.deciding import GatewayPlan

_HINT = "give it an agent that goes through the gateway (docs/gateway.md says which), or leave it out"


def refuse_to_ask(loaded: Loaded[TestCase], way: GatewayPlan | None, env: Mapping[str, str]) -> None:
    """`env` is the agent's. Raises ConfigError that names every evaluator whose model would be a real one."""
    if way is None or way.spec.cassette is None or way.spec.cassette.mode != "replay":
        return
    problems = []
    for each in loaded.evaluators:
        evaluator = get_evaluator(each.name)
        if isinstance(evaluator, AsksModel) and (
            who := evaluator.goes_around_gateway(each.config, each.config_dir, loaded.case.agent, env)
        ):
            message = (
                f"would ask a model by itself, though this is a replay: {who} does not go through the gateway here"
            )
            problems.append(each.problem(message, _HINT))
    if problems:
        raise loaded.source.error(problems)
