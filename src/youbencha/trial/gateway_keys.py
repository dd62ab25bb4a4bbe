"""The keys of a trial at a gateway of this process: caps, scope, account and ledger of each."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from youbencha.errors import YouBenchaError
from youbencha.events import EventSink, ModelCalled
from youbencha.gateway.budget import NO_CAPS
from youbencha.gateway.call import Call, Labels
from youbencha.gateway.keys import EndedKey, KeyRole, KeyScope, KeyWarning, VirtualKey
from youbencha.gateway.ledger import Ledger
from youbencha.gateway.witness import Witness
from youbencha.store.layout import LEDGER_FILE
from youbencha.trial.budgets import Budgets, caps_of
from youbencha.trial.gateway_report import report_of
from youbencha.trial.gateways import SharedGateways, open_gateway
from youbencha.trial.results import LITELLM_LOG

if TYPE_CHECKING:
    from youbencha.gateway.access import GatewayAccess
    from youbencha.gateway.cassette.matching import Places
    from youbencha.gateway.gateway import Gateway
    from youbencha.gateway.heads import RequestHeads
    from youbencha.trial.context import Host
    from youbencha.trial.gateway_plan import GatewayPlan

_FINAL = frozenset({"budget_exceeded", "call_over_cap", "price_unknown", "not_metered", "not_recorded"})
"""Refusals that a retry cannot change."""

_MAX_FINAL_REFUSALS = 3
"""More than one, because each subagent makes its own requests."""


async def open_keys(
    plan: GatewayPlan,
    host: Host,
    *,
    agent: str,
    run: str,
    artifacts: Path,
    on_event: EventSink,
    opened: AsyncExitStack,
) -> GatewayKeys:
    """Open the gateway and the ledger of a trial until its keys are closed, or until `opened` is.

    It is a shared gateway, if the host's trials share theirs and this one has no cassette. `agent` names the agent
    whose budget pays for it, `run` the trial in the ledger, which is written to `artifacts`.
    """
    shared = host.gateways
    assert shared is None or isinstance(shared, SharedGateways)
    running = AsyncExitStack()
    opened.push_async_callback(running.aclose)
    ledger = running.enter_context(Ledger(artifacts / LEDGER_FILE))
    if shared is not None and plan.spec.cassette is None:
        gateway = await shared.gateway(plan, host, on_event)
    else:
        new = open_gateway(plan, host, litellm_log=artifacts / LITELLM_LOG, ledger=ledger, on_event=on_event)
        gateway = await running.enter_async_context(new)
    budgets = shared.budgets if shared else Budgets([(agent, plan)])
    return GatewayKeys(gateway, plan, budgets, agent, run, ledger, running, on_event)


class GatewayKeys:
    """Keys at a gateway of this process. Implements `TrialKeys`, and `LentKeys` for trials on other machines."""

    def __init__(
        self,
        gateway: Gateway,
        plan: GatewayPlan,
        budgets: Budgets,
        agent: str,
        run: str,
        ledger: Ledger,
        running: AsyncExitStack,
        on_event: EventSink,
    ) -> None:
        """`running` closes what belongs to the trial: its ledger, and the gateway if it is not shared."""
        self.gateway = gateway
        self.stop = asyncio.Event()
        self._plan = plan
        self._account = budgets.agent(agent)
        """Pays for the agent."""
        self._total = budgets.total
        """Pays for evaluators."""
        self._run = run
        self._ledger = ledger
        self._running = running
        self._on_event = on_event
        self._agent: GatewayAccess | None = None
        self._refusals = 0
        self._valid: dict[str, GatewayAccess] = {}
        self._ended: dict[str, VirtualKey] = {}
        self._warnings: list[KeyWarning] | None = None
        running.callback(gateway.on_failure(self.stop.set))
        running.push_async_callback(self._end_all)

    @property
    def agent_is_busy(self) -> bool:
        return self._agent is not None and self._agent.is_busy()

    async def issue(
        self, role: KeyRole, name: str, *, places: Places | None = None, peers: frozenset[str] | None = None
    ) -> GatewayAccess:
        if self._warnings is not None:
            raise YouBenchaError("TRIAL_CLOSED", "The trial has ended: it gets no further keys")
        is_agent = role == "agent"
        if is_agent:
            await self._forget_agent()
        access = self.gateway.issue(
            Labels(key=name, agent=name, run=self._run),
            caps=caps_of(self._plan.spec, "trial") if is_agent else NO_CAPS,
            per_call=caps_of(self._plan.spec, "call"),
            parent=self._account if is_agent else self._total,
            ledger=self._ledger,
            places=places,
            on_call=self._agent_called if is_agent else None,
            peers=peers,
            scope=_scope_of(self._plan) if is_agent else None,
            heads=_new_heads(places) if is_agent and places else None,
            witness=Witness(self._plan.model, self._plan.resolved or ()) if is_agent else None,
        )
        self._valid[access.key] = access
        if is_agent:
            self._agent = access
        return access

    async def end(self, key: str) -> EndedKey:
        ended = await self._end(key)
        if self.gateway.failure is not None:
            raise self.gateway.failure
        report = report_of(self._plan, ended, ledger=LEDGER_FILE, prices=self.gateway.prices.source)
        if ended.heads is not None:
            asked = await asyncio.to_thread(ended.heads.fingerprints)
            report = report.model_copy(update={"request_fingerprints": asked})
        return EndedKey(
            report=report,
            total_exceeded=ended.account.exceeded and self._total.exceeded,
            mismatches=tuple(ended.mismatches),
            cassette_doubts=ended.cassette.doubts() if ended.cassette else None,
        )

    async def listen_on(self, socket: Path) -> None:
        await self.gateway.listen_on(socket)
        self._running.callback(self.gateway.stop_listening, socket)

    async def close(self) -> list[KeyWarning]:
        """End the keys, and close the ledger. May be called again."""
        if self._warnings is None:
            self._warnings = []
            await self._running.aclose()
            if self._ledger.failure is not None:
                message = f"the gateway's ledger is incomplete: {self._ledger.failure}"
                self._warnings.append(KeyWarning("LEDGER_INCOMPLETE", message))
        return self._warnings

    async def _end(self, key: str) -> VirtualKey:
        """End a key. Its requests are cut off; they are counted when they have settled."""
        if self._valid.pop(key, None) is not None:
            ended = self.gateway.end(key)
            assert ended is not None, "a key is ended once"
            self._ended[key] = ended
        if key not in self._ended:
            raise YouBenchaError("KEY_NOT_ISSUED", "this key was not issued for this trial")
        await self.gateway.settled(self._ended[key])
        return self._ended[key]

    async def _forget_agent(self) -> None:
        """Forget the agent's last key and its refusals."""
        if self._agent is None:
            return
        await self._end(self._agent.key)
        self.gateway.forget(self._agent.key)
        del self._ended[self._agent.key]
        self._agent, self._refusals = None, 0
        if self.gateway.failure is None:
            self.stop.clear()

    async def _end_all(self) -> None:
        """End the keys that are still valid, as after an interrupt, and forget all: the gateway may go on."""
        for key in tuple(self._valid):
            await self._end(key)
        for key in self._ended:
            self.gateway.forget(key)

    def _agent_called(self, call: Call) -> None:
        self._on_event(_event_of(call))
        if call.error in _FINAL:
            self._refusals += 1
            if self._refusals > _MAX_FINAL_REFUSALS:
                self.stop.set()


def _new_heads(places: Places) -> RequestHeads:
    from youbencha.gateway.heads import RequestHeads

    return RequestHeads(places)


def _scope_of(plan: GatewayPlan) -> KeyScope | None:
    """What the agent's key is for: the provider of its API, and the models of the test case, if it lists some; else,
    through LiteLLM, that provider's models and its own."""
    if plan.spec.models:
        return KeyScope(plan.provider, tuple(name.lower() for name in plan.spec.models))
    if plan.provider is None or plan.type != "litellm":
        return KeyScope(plan.provider) if plan.provider else None
    from youbencha.gateway.litellm.config import model_patterns

    own = (plan.model or "").lower()
    names = (name for name, _ in model_patterns(plan.provider))
    return KeyScope(plan.provider, (*names, own, own.partition("/")[2]))


def _event_of(call: Call) -> ModelCalled:
    return ModelCalled(
        model=call.model,
        status=call.status,
        input_tokens=call.tokens.input,
        output_tokens=call.tokens.output,
        cache_read_tokens=call.tokens.cache_read,
        cache_creation_tokens=call.tokens.cache_creation,
        cost_usd=None if call.cost_usd is None else float(call.cost_usd),
        partial=call.partial,
        error=call.error,
        duration_ms=call.duration_ms,
        retry_after_s=call.retry_after_s,
    )
