"""Give a trial its gateway, opened for it or shared: a key for the agent, and one for each evaluator."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from youbencha.events import EventSink, ModelCalled
from youbencha.files import write_atomically
from youbencha.gateway.api import GatewayAccess
from youbencha.gateway.budget import NO_CAPS, Account, Caps
from youbencha.gateway.call import Call, Labels
from youbencha.gateway.cassette.placeholders import Places
from youbencha.gateway.gateway import Gateway
from youbencha.gateway.keys import KeyScope, VirtualKey
from youbencha.gateway.ledger import LEDGER_FILE, Ledger
from youbencha.log.model import Usage
from youbencha.log.results import GatewayReport
from youbencha.process import Redactor
from youbencha.sandbox.base import GATEWAY_PORT, Sandbox
from youbencha.sandbox.local import HOST
from youbencha.trial.budgets import Budgets, caps_of
from youbencha.trial.context import Host
from youbencha.trial.gateway_plan import GatewayPlan
from youbencha.trial.gateway_report import report_of, usage_in
from youbencha.trial.gateways import open_gateway
from youbencha.trial.results import LITELLM_LOG
from youbencha.workspace import RunDirectory

_FINAL = frozenset({"budget_exceeded", "call_over_cap", "price_unknown", "not_metered", "not_recorded"})
"""Refusals that a retry cannot change."""

_MAX_FINAL_REFUSALS = 3
"""More than one, because each subagent makes its own requests."""

_MAX_MISMATCH_FILES = 10
"""The first shows the cause; the others are usually consequences."""


async def open_trial_gateway(
    plan: GatewayPlan,
    directory: RunDirectory,
    on_event: EventSink,
    opened: AsyncExitStack,
    host: Host,
    budget: str,
) -> TrialGateway:
    """Open a trial's gateway until its `close`, or until `opened` is closed. `issue_key` then lets the agent use it.

    It is a shared one, if the host's trials share theirs and this one has no cassette. `budget` names the agent whose
    budget pays for it.
    """
    running = AsyncExitStack()
    opened.push_async_callback(running.aclose)
    artifacts = directory.artifacts
    ledger = running.enter_context(Ledger(artifacts / LEDGER_FILE, keep_copy=True))
    if host.gateways is not None and plan.spec.cassette is None:
        gateway = await host.gateways.gateway(plan, host, on_event)
    else:
        new = open_gateway(plan, host, litellm_log=artifacts / LITELLM_LOG, ledger=ledger, on_event=on_event)
        gateway = await running.enter_async_context(new)
    budgets = host.gateways.budgets if host.gateways else Budgets([(budget, plan)])
    account = budgets.agent(budget)
    return TrialGateway(gateway, plan, directory, ledger, running, on_event, host.env, account, budgets.total)


def _scope_of(plan: GatewayPlan) -> KeyScope | None:
    """What the agent's key is for: the provider of its API, and the models of the test case, if it lists some; else,
    through LiteLLM, that provider's models and its own."""
    if plan.spec.models:
        return KeyScope(plan.provider, tuple(name.lower() for name in plan.spec.models))
    if plan.provider is None or plan.type != "litellm":
        return KeyScope(plan.provider) if plan.provider else None
    from youbencha.gateway.litellm.config import patterns_of

    own = (plan.model or "").lower()
    names = (name for name, _ in patterns_of(plan.provider))
    return KeyScope(plan.provider, (*names, own, own.partition("/")[2]))


def _places_in(directory: RunDirectory, sandbox: Sandbox, harness_env: Mapping[str, str]) -> Places:
    """Directories that a cassette replaces with placeholders, as the agent sees them."""
    env = sandbox.environment(harness_env)
    paths = {
        "workspace": Path(sandbox.inside(directory.modified)),
        "run": directory.path,
        "private": directory.private,
        "temp": directory.scratch,
        "home": Path(env.get("HOME") or Path.home()),
        "tmp": Path(env.get("TMPDIR") or tempfile.gettempdir()),
    }
    return Places(tuple(paths.items()))


@dataclass
class EvaluatorAccess:
    """An evaluator's key, and what it used once it is done."""

    access: GatewayAccess
    usage: Usage | None = None


class TrialGateway:
    """The keys of one trial, its ledger, and what went through the gateway with them."""

    access: GatewayAccess
    """The agent's."""

    def __init__(
        self,
        gateway: Gateway,
        plan: GatewayPlan,
        directory: RunDirectory,
        ledger: Ledger,
        running: AsyncExitStack,
        on_event: EventSink,
        env: Mapping[str, str],
        account: Account,
        total: Account,
    ) -> None:
        """`running` closes what belongs to the trial: its ledger, and the gateway if it is not shared.

        `account` pays for the agent; `total`, which is the run's, for evaluators.
        """
        self.stop = asyncio.Event()
        """Set when the agent cannot continue: its requests are refused for good, or the gateway has failed."""
        self._gateway = gateway
        self._plan = plan
        self._directory = directory
        self._ledger = ledger
        self._running = running
        self._on_event = on_event
        self._env = env
        self._account = account
        self._total = total
        self._redactor = Redactor.for_env(env, plan.secrets)
        self._refusals = 0
        self._issued: list[GatewayAccess] = []
        self._exposed: set[Path] = set()
        self._key: VirtualKey | None = None
        self._evaluators_exceeded = False
        self._mismatches: tuple[str, ...] = ()
        running.callback(gateway.on_failure(self.stop.set))
        running.push_async_callback(self._end_keys)

    async def issue_key(self, agent: str, sandbox: Sandbox) -> None:
        """Issue the agent's key, which is valid in its sandbox only. `agent` is its name in the ledger.

        After `end_agent`, another can be issued, for the agent's next session.
        """
        if self._key is not None:
            self._forget_ended()
        forwarded = sandbox.forward_port(GATEWAY_PORT)
        issued = self._issue(
            agent,
            self._account,
            caps=caps_of(self._plan.spec, "trial"),
            places=_places_in(self._directory, sandbox, self._env),
            on_call=self._agent_called,
            peers=None if forwarded is None else frozenset({str(forwarded.socket)}),
            scope=_scope_of(self._plan),
        )
        self.access = await self.expose_in(sandbox, issued)

    @property
    def secrets(self) -> Mapping[str, str]:
        """Values to redact in everything that is written."""
        keys = {f"GATEWAY_VIRTUAL_KEY_{number}": each.key for number, each in enumerate(self._issued)}
        return {**self._plan.secrets, **keys}

    @property
    def budget_is_spent(self) -> bool:
        """Whether a budget that the agent shares with others has refused one of its requests."""
        return self._key is not None and self._key.totals.refused_by == self._total.name

    async def expose_in(self, sandbox: Sandbox, access: GatewayAccess) -> GatewayAccess:
        """Make the gateway reachable in a sandbox; return the key with its address there."""
        forwarded = sandbox.forward_port(GATEWAY_PORT)
        if forwarded is None:
            return access
        if forwarded.socket not in self._exposed:
            await self._gateway.listen_on(forwarded.socket)
            self._running.callback(self._gateway.stop_listening, forwarded.socket)
            self._exposed.add(forwarded.socket)
        return access._replace(url=f"http://{forwarded.address}")

    async def end_agent(self) -> None:
        """End the agent's key. May be called again if it was cancelled.

        Raises YouBenchaError if the gateway has failed: nothing was measured then.
        """
        if self._key is None:
            self._key = self._end(self.access)
        await self._gateway.settled(self._key)
        if self._gateway.failure is not None:
            raise self._gateway.failure

    def report(self) -> GatewayReport:
        """Report the agent's requests, once the agent has ended and the run directory is reclaimed."""
        assert self._key is not None
        self._mismatches = self._write_mismatches(self._key, self._directory.artifacts)
        prices = self._gateway.prices.source
        return report_of(self._plan, self._key, ledger=LEDGER_FILE, prices=prices, mismatches=self._mismatches)

    def findings(self) -> Iterator[tuple[str, str]]:
        """Codes and messages of warnings."""
        assert self._key is not None
        if self._mismatches:
            summary = self._redactor.text(self._key.mismatches[0].summary)
            yield "CASSETTE_MISMATCH", f"{summary} (full diff: artifacts/{self._mismatches[0]})"
        if self._key.cassette and (why := self._key.cassette.doubts()):
            yield "CASSETTE_INCOMPLETE", f"a replay may fail: {why}"

    def _forget_ended(self) -> None:
        """Forget the agent's last key and its refusals."""
        self._gateway.forget(self.access.key)
        self._issued = [each for each in self._issued if each.key != self.access.key]
        self._key, self._refusals, self._mismatches = None, 0, ()
        if self._gateway.failure is None:
            self.stop.clear()

    def _agent_called(self, call: Call) -> None:
        self._on_event(_event_of(call))
        if call.error in _FINAL:
            self._refusals += 1
            if self._refusals > _MAX_FINAL_REFUSALS:
                self.stop.set()

    @asynccontextmanager
    async def key_for(self, name: str) -> AsyncIterator[EvaluatorAccess]:
        """Issue a key for an evaluator. Its usage is not the agent's, but counts against the total budget."""
        access = EvaluatorAccess(self._issue(name, self._total, places=_places_in(self._directory, HOST, self._env)))
        try:
            yield access
        finally:
            key = self._end(access.access)
            await self._gateway.settled(key)
            if key.totals.total.requests:
                access.usage = usage_in(key.totals.total)
            self._evaluators_exceeded |= key.account.exceeded and self._total.exceeded
            self._write_mismatches(key, self._directory.artifacts / "evaluators" / name)

    async def close(self) -> list[tuple[str, str]]:
        """Close what belongs to this trial only, and restore its ledger if it was changed. Returns warnings."""
        spent_by_agent = self._key is not None and self._key.account.exceeded
        await self._running.aclose()
        warnings = []
        if self._evaluators_exceeded and not spent_by_agent:
            warnings.append(("BUDGET_EXCEEDED", "the evaluators exceeded the run's total budget"))
        if self._ledger.failure is not None:
            message = f"the gateway's ledger is incomplete: {self._ledger.failure}"
            warnings.append(("LEDGER_INCOMPLETE", message))
        elif self._ledger.restore():
            message = "the gateway's ledger was changed while the agent ran; it was restored"
            warnings.append(("WORKSPACE_TAMPERED", message))
        return warnings

    def _issue(
        self,
        name: str,
        account: Account,
        *,
        places: Places,
        caps: Caps = NO_CAPS,
        on_call: Callable[[Call], None] | None = None,
        peers: frozenset[str] | None = None,
        scope: KeyScope | None = None,
    ) -> GatewayAccess:
        access = self._gateway.issue(
            Labels(key=name, agent=name, run=self._directory.name),
            caps=caps,
            per_call=caps_of(self._plan.spec, "call"),
            parent=account,
            ledger=self._ledger,
            places=places,
            on_call=on_call,
            peers=peers,
            scope=scope,
        )
        self._issued.append(access)
        return access

    async def _end_keys(self) -> None:
        """End the keys that are still valid, as after an interrupt, and forget all: the gateway may go on."""
        for access in self._issued:
            if (key := self._gateway.end(access.key)) is not None:
                await self._gateway.settled(key)
            self._gateway.forget(access.key)

    def _end(self, access: GatewayAccess) -> VirtualKey:
        """End a key. Its requests are cut off; they are counted when they have settled."""
        key = self._gateway.end(access.key)
        assert key is not None, "a key is ended once"
        return key

    def _write_mismatches(self, key: VirtualKey, directory: Path) -> tuple[str, ...]:
        """Write how each unmatched request differs from the nearest recorded one; return the files' names."""
        names = []
        for number, mismatch in enumerate(key.mismatches[:_MAX_MISMATCH_FILES], start=1):
            names.append(f"cassette-mismatch-{number}.diff")
            write_atomically(directory / names[-1], self._redactor.text(mismatch.text).encode("utf-8", "replace"))
        return tuple(names)


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
