"""Check, before a run spends anything, that the providers know the models that its plans configure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from youbencha.evaluators import get_evaluator
from youbencha.evaluators.base import UsesModel
from youbencha.gateway.upstreams import ModelUse
from youbencha.trial.gateway_plan import GatewayPlan
from youbencha.trial.plan import Plan


async def check_plans(plans: Iterable[tuple[str, Plan]]) -> None:
    """Raise `MODEL_UNUSABLE` if a provider does not know a model of these plans, each with the name of its agent.

    Only models that are requested from a provider through a gateway are checked.
    """
    await check_uses(use for user, plan in plans for use in _uses(user, plan))


async def check_gateways(gateways: Iterable[tuple[str, GatewayPlan]]) -> None:
    """The same for the gateways of agents."""
    await check_uses(use for user, gateway in gateways for use in _agents_use(user, gateway))


async def check_uses(uses: Iterable[ModelUse]) -> None:
    if uses := list(uses):
        from youbencha.gateway.model_check import check_models  # aiohttp takes 0.15 s to load

        await check_models(uses)


def _uses(user: str, plan: Plan) -> Iterator[ModelUse]:
    gateway = plan.gateway
    if gateway is None or not gateway.reaches_providers:
        return
    yield from _agents_use(user, gateway)
    for entry in plan.evaluators:
        evaluator = get_evaluator(entry.name)
        if not isinstance(evaluator, UsesModel):
            continue
        requested = evaluator.requested_model(entry.config, entry.config_dir, plan.case.agent, plan.env)
        if requested and (upstream := gateway.upstreams.get(requested[0])):
            yield ModelUse(upstream, requested[1], entry.name)


def _agents_use(user: str, gateway: GatewayPlan) -> Iterator[ModelUse]:
    upstream = gateway.upstreams.get(gateway.provider) if gateway.provider else None
    if gateway.reaches_providers and upstream and gateway.model and gateway.resolved is None:
        yield ModelUse(upstream, gateway.model, user)
