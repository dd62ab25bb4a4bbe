"""Budgets that trials share: that of each agent, and that of the run."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from youbencha.gateway.budget import NO_CAPS, Account, Caps
from youbencha.spec.gateway import GatewaySpec, Scope
from youbencha.trial.gateway_plan import GatewayPlan

RUN_ACCOUNT = "run"


def agent_account(agent: str) -> str:
    return f"all trials of {agent}"


class Budgets:
    """What the trials of a run spend together. Where their plans differ, the lowest cap counts.

    An agent is known by a name that the caller chooses: one type of agent may take part in several configurations.
    """

    def __init__(self, plans: Iterable[tuple[str, GatewayPlan]], *, total_usd: float | None = None) -> None:
        """Each plan with the name of its agent. `total_usd`: a further cap on all of them together."""
        specs: dict[str, list[GatewaySpec]] = {}
        for name, plan in plans:
            specs.setdefault(name, []).append(plan.spec)
        total = _lowest((each for some in specs.values() for each in some), "total")
        if total_usd is not None:
            most = Decimal(str(total_usd))
            total = total._replace(usd=most if total.usd is None else min(total.usd, most))
        self.total = Account(RUN_ACCOUNT, total)
        """All agents and evaluators."""
        self._agents = {name: self._account(name, _lowest(some, "agent")) for name, some in specs.items()}

    def agent(self, name: str) -> Account:
        """All trials of an agent. What it spends also counts in the total."""
        return self._agents.setdefault(name, self._account(name, NO_CAPS))

    def _account(self, agent: str, caps: Caps) -> Account:
        return Account(agent_account(agent), caps, parent=self.total)


def caps_of(spec: GatewaySpec, scope: Scope) -> Caps:
    usd, tokens = spec.caps[scope]
    return Caps(None if usd is None else Decimal(str(usd)), tokens)


def _lowest(specs: Iterable[GatewaySpec], scope: Scope) -> Caps:
    caps = [caps_of(spec, scope) for spec in specs]
    return Caps(
        min((each.usd for each in caps if each.usd is not None), default=None),
        min((each.tokens for each in caps if each.tokens is not None), default=None),
    )
