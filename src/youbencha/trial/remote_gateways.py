"""Let a trial on another machine use the gateway of the driver, which keeps the real keys, budgets and ledgers.

On the driver:  async with lend(plan, host, agent=…, attempt=…, artifacts=…, on_event=…) as ticket: …
On the node:    host.gateways = RemoteGateways(ticket);  await run_trial(portable(plan), host, …)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from youbencha.adapters import get_adapter
from youbencha.adapters.cli_agent.environment import is_model_credential
from youbencha.errors import YouBenchaError
from youbencha.events import EventSink, WarningRaised
from youbencha.process.redact import MIN_SECRET_CHARS, secret_values
from youbencha.spec.gateway import LiteLLMSpec, UpstreamSpecs
from youbencha.trial.context import Host
from youbencha.trial.gateway_session import Ticket, open_keys
from youbencha.trial.plan import Plan

if TYPE_CHECKING:
    pass

_KEPT = "kept-by-the-driver"
"""A value in place of a secret. The variable stays set, because some agents choose a model by the keys they find."""


@asynccontextmanager
async def lend(
    plan: Plan, host: Host, *, agent: str, attempt: str, artifacts: Path, on_event: EventSink
) -> AsyncIterator[Ticket | None]:
    """Lend the host's shared gateway to one attempt on another machine, until the end of the block.

    None if the plan has no gateway. `agent` names the agent whose budget pays for it, `attempt` the attempt in the
    ledger. The ledger is written to `artifacts` here, also of a node that is lost in the middle. Requests are events
    here, not on the node, and so are secrets that the agent needs itself. Raises YouBenchaError if the attempt can only
    run where its cassette is.
    """
    if names := sent_secrets(portable(plan)):
        message = f"Secrets sent to the node, because the agent itself needs them: {', '.join(names)}"
        on_event(WarningRaised(code="SECRETS_SENT", message=message))
    if plan.gateway is None:
        yield None
        return
    if plan.gateway.spec.cassette is not None:
        raise YouBenchaError(
            "CASSETTE_REMOTE_IMPOSSIBLE",
            f"{plan.name} records or replays a cassette, which works only in the process of the run.",
            hint="Run it without an executor, or remove `gateway.cassette`.",
        )
    async with AsyncExitStack() as opened:
        keys = await open_keys(
            plan.gateway, host, agent=agent, run=attempt, artifacts=artifacts, on_event=on_event, opened=opened
        )
        await keys.gateway.ready()
        with keys.gateway.tickets.lending(keys) as token:
            yield Ticket(keys.gateway.url, token)


def portable(plan: Plan) -> Plan:
    """The plan for another machine: without upstreams, their keys, and other secrets that only the gateway needs.

    Without a gateway, the agent needs its secrets itself: they stay (see `sent_secrets`).
    """
    if plan.gateway is None:
        return plan
    spec = plan.gateway.spec.model_copy(
        update={"upstreams": UpstreamSpecs(), "secrets_file": None, "litellm": LiteLLMSpec()}
    )
    agent = plan.case.agent.model_copy(update={"env": _without_secrets(plan.case.agent.env, plan)})
    return replace(
        plan,
        case=plan.case.model_copy(update={"agent": agent, "gateway": None}),
        env=_without_secrets(plan.env, plan),
        gateway=replace(plan.gateway, spec=spec, upstreams={}, secrets={}, litellm_config=None),
    )


def sent_secrets(plan: Plan) -> tuple[str, ...]:
    """The variables of a portable plan whose values are secrets: those that the agent itself needs."""
    return tuple(name for name, value in plan.env.items() if value != _KEPT and secret_values({name: value}))


def has_gateway_secret(plan: Plan, value: str) -> bool:
    """Whether a secret of the plan's gateway is in the value of a variable, as in `Bearer KEY`."""
    if plan.gateway is None:
        return False
    secrets = {*plan.gateway.secrets.values(), *(upstream.key for upstream in plan.gateway.upstreams.values())}
    return any(secret == value.strip() or (len(secret) >= MIN_SECRET_CHARS and secret in value) for secret in secrets)


def _without_secrets(env: Mapping[str, str], plan: Plan) -> dict[str, str]:
    """An agent's variables without credentials of models, which no agent behind a gateway gets, and the gateway's."""
    own = get_adapter(plan.case.agent.type).credentials_in(env)

    def is_kept(name: str, value: str) -> bool:
        is_credential = is_model_credential(name) or name in own
        return has_gateway_secret(plan, value) or (is_credential and bool(secret_values({name: value})))

    return {name: _KEPT if is_kept(name, value) else value for name, value in env.items()}
