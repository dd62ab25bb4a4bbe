"""Let a trial on another machine use the gateway of the driver, which keeps plan, budgets, ledger and real keys.

On the driver:  async with lend(plan, host, agent=…, attempt=…, ledger=…, on_event=…) as ticket: …
On the node:    host.gateways = RemoteGateways(ticket);  await run_trial(portable_plan, host, …)
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from youbencha.events import EventSink
from youbencha.trial.context import Host
from youbencha.trial.plan import Plan


class Ticket(NamedTuple):
    """Lets one attempt use the driver's gateway, until the driver ends it. Plain data: it can be pickled."""

    url: str
    token: str

    def __repr__(self) -> str:
        return f"Ticket(url={self.url!r}, token=…)"


class RemoteGateways:
    """The driver's gateway, for the `gateways` of a node's host."""

    def __init__(self, ticket: Ticket) -> None:
        self._ticket = ticket


@asynccontextmanager
async def lend(
    plan: Plan, host: Host, *, agent: str, attempt: str, ledger: Path, on_event: EventSink
) -> AsyncIterator[Ticket | None]:
    """Lend the host's shared gateway to one attempt on another machine, until the end of the block.

    None if the plan has no gateway. `agent` is the name of the agent whose budget pays for it, `attempt` the name of
    the attempt, `ledger` the file for its requests, best where the results will be: `artifacts/gateway-ledger.jsonl`.
    What a node that was lost has spent is in it. Calls are events here, not on the node.
    """
    raise NotImplementedError
    yield None


def portable(plan: Plan) -> Plan:
    """The plan for another machine: without upstreams, their keys, and other secrets that only the gateway needs."""
    raise NotImplementedError


def sent_secrets(plan: Plan) -> tuple[str, ...]:
    """The variables of the agent with secrets that a portable plan still has, because the agent has no gateway."""
    raise NotImplementedError
