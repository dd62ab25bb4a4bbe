"""The gateway as one trial uses it: keys for the agent and for evaluators, budgets, ledger, and a report."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.events import EventSink, ModelCalled
from youbencha.files import write_atomically
from youbencha.gateway.access import GatewayAccess
from youbencha.gateway.budget import NO_CAPS, Account
from youbencha.gateway.call import Call, Labels
from youbencha.gateway.cassette.matching import Places
from youbencha.gateway.cassette.mismatch import Mismatch
from youbencha.gateway.gateway import Gateway
from youbencha.gateway.keys import EndedKey, KeyRole, KeyScope, KeyWarning, ModelTotals, TrialKeys, VirtualKey
from youbencha.gateway.ledger import Ledger
from youbencha.gateway.witness import Witness
from youbencha.log.model import Usage, YouBenchaLog, build_usage
from youbencha.process import Redactor
from youbencha.sandbox.base import GATEWAY_PORT, Sandbox
from youbencha.sandbox.local import HOST
from youbencha.store.bundle import BudgetReport, CassetteReport, GatewayReport, ModelUse, UsageDifference
from youbencha.store.layout import LEDGER_FILE
from youbencha.trial.context import Host
from youbencha.trial.gateway_plan import GatewayPlan
from youbencha.trial.gateways import RUN_ACCOUNT, Budgets, SharedGateways, open_gateway, select_caps
from youbencha.trial.results import LITELLM_LOG
from youbencha.usage import Tokens
from youbencha.workspace import RunDirectory

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

    It is that of the driver, if this host is a node. `budget` names the agent whose budget pays for it.
    """
    secrets = plan.secrets
    keys: TrialKeys
    if isinstance(host.gateways, RemoteGateways):
        keys = await host.gateways.open_keys(opened)
        secrets = {**secrets, **host.gateways.secrets}
    else:
        keys = await open_keys(
            plan,
            host,
            agent=budget,
            run=directory.name,
            artifacts=directory.artifacts,
            on_event=on_event,
            opened=opened,
        )
    return TrialGateway(keys, secrets, directory, host.env)


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
    """The gateway as a trial uses it: keys, where sandboxes reach it, and what went through it."""

    access: GatewayAccess
    """The agent's."""

    def __init__(
        self, keys: TrialKeys, secrets: Mapping[str, str], directory: RunDirectory, env: Mapping[str, str]
    ) -> None:
        self.stop = keys.stop
        """Set when the agent cannot continue: its requests are refused for good, or the gateway is gone."""
        self._keys = keys
        self._secrets = secrets
        self._directory = directory
        self._env = env
        self._redactor = Redactor.for_env(env, secrets)
        self._issued: list[GatewayAccess] = []
        self._exposed: set[Path] = set()
        self._agent: EndedKey | None = None
        self._evaluators_exceeded = False
        self._mismatches: tuple[str, ...] = ()

    async def issue_key(self, agent: str, sandbox: Sandbox) -> None:
        """Issue the agent's key, which is valid in its sandbox only. `agent` is its name in the ledger.

        After `end_agent`, another can be issued, for the agent's next session.
        """
        if self._agent is not None:
            self._issued = [each for each in self._issued if each.key != self.access.key]
            self._agent, self._mismatches = None, ()
        forwarded = sandbox.forward_port(GATEWAY_PORT)
        issued = await self._keys.issue(
            "agent",
            agent,
            places=_places_in(self._directory, sandbox, self._env),
            peers=None if forwarded is None else frozenset({str(forwarded.socket)}),
        )
        self._issued.append(issued)
        self.access = await self.expose_in(sandbox, issued)

    @property
    def secrets(self) -> Mapping[str, str]:
        """Values to redact in everything that is written."""
        keys = {f"GATEWAY_VIRTUAL_KEY_{number}": each.key for number, each in enumerate(self._issued)}
        return {**self._secrets, **keys}

    @property
    def budget_is_spent(self) -> bool:
        """Whether a budget that the agent shares with others has refused one of its requests."""
        budget = self._agent.report.budget if self._agent else None
        return budget is not None and budget.refused_by == RUN_ACCOUNT

    async def expose_in(self, sandbox: Sandbox, access: GatewayAccess) -> GatewayAccess:
        """Make the gateway reachable in a sandbox; return the key with its address there."""
        forwarded = sandbox.forward_port(GATEWAY_PORT)
        if forwarded is None:
            return access
        if forwarded.socket not in self._exposed:
            await self._keys.listen_on(forwarded.socket)
            self._exposed.add(forwarded.socket)
        return access._replace(url=f"http://{forwarded.address}")

    async def end_agent(self) -> None:
        """End the agent's key. May be called again if it was cancelled.

        Raises YouBenchaError if the gateway has failed: nothing was measured then.
        """
        if self._agent is None:
            self._agent = await self._keys.end(self.access.key)

    def report(self) -> GatewayReport:
        """Report the agent's requests, once the agent has ended and the run directory is reclaimed."""
        assert self._agent is not None
        report = self._agent.report
        self._mismatches = self._write_mismatches(self._agent.mismatches, self._directory.artifacts)
        if report.cassette is None:
            return report
        cassette = report.cassette.model_copy(update={"mismatches": self._mismatches})
        return report.model_copy(update={"cassette": cassette})

    def findings(self) -> Iterator[KeyWarning]:
        """Warnings about the agent's requests."""
        assert self._agent is not None
        if self._mismatches:
            summary = self._redactor.text(self._agent.mismatches[0].summary)
            yield KeyWarning("CASSETTE_MISMATCH", f"{summary} (full diff: artifacts/{self._mismatches[0]})")
        if why := self._agent.cassette_doubts:
            yield KeyWarning("CASSETTE_INCOMPLETE", f"A replay may fail: {why}")

    @asynccontextmanager
    async def key_for(self, name: str) -> AsyncIterator[EvaluatorAccess]:
        """Issue a key for an evaluator. Its usage is not the agent's, but counts against the total budget."""
        places = _places_in(self._directory, HOST, self._env)
        access = EvaluatorAccess(await self._keys.issue("evaluator", name, places=places))
        self._issued.append(access.access)
        try:
            yield access
        finally:
            ended = await self._keys.end(access.access.key)
            if ended.report.models:
                access.usage = ended.report.usage
            self._evaluators_exceeded |= ended.total_exceeded
            self._write_mismatches(ended.mismatches, self._directory.artifacts / "evaluators" / name)

    async def close(self) -> list[KeyWarning]:
        """Close what belongs to this trial only. Returns warnings."""
        budget = self._agent.report.budget if self._agent else None
        spent_by_agent = budget is not None and budget.exceeded
        warnings = await self._keys.close()
        if self._evaluators_exceeded and not spent_by_agent:
            return [KeyWarning("BUDGET_EXCEEDED", "The evaluators exceeded the run's total budget."), *warnings]
        return warnings

    def _write_mismatches(self, mismatches: Sequence[Mismatch], directory: Path) -> tuple[str, ...]:
        """Write how each unmatched request differs from what was recorded; return the files' names."""
        names = []
        for number, mismatch in enumerate(mismatches[:_MAX_MISMATCH_FILES], start=1):
            names.append(f"cassette-mismatch-{number}.diff")
            write_atomically(directory / names[-1], self._redactor.text(mismatch.text).encode("utf-8", "replace"))
        return tuple(names)


if TYPE_CHECKING:
    from youbencha.gateway.heads import RequestHeads

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
        gateway = await shared.gateway(plan, host.env, on_event)
    else:
        new = open_gateway(plan, host.env, litellm_log=artifacts / LITELLM_LOG, ledger=ledger, on_event=on_event)
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
            raise YouBenchaError("TRIAL_CLOSED", "The trial has finished, so it gets no further keys.")
        is_agent = role == "agent"
        if is_agent:
            await self._forget_agent()
        access = self.gateway.issue(
            Labels(key=name, agent=name, run=self._run),
            caps=select_caps(self._plan.spec, "trial") if is_agent else NO_CAPS,
            per_call=select_caps(self._plan.spec, "call"),
            parent=self._account if is_agent else self._total,
            ledger=self._ledger,
            places=places,
            on_call=self._agent_called if is_agent else None,
            peers=peers,
            scope=_key_scope(self._plan) if is_agent else None,
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
        report = build_report(self._plan, ended, ledger=LEDGER_FILE, prices=self.gateway.prices.source)
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
                message = f"The gateway's ledger is incomplete: {self._ledger.failure}"
                self._warnings.append(KeyWarning("LEDGER_INCOMPLETE", message))
        return self._warnings

    async def _end(self, key: str) -> VirtualKey:
        """End a key. Its requests are cut off; they are counted when they have settled."""
        if self._valid.pop(key, None) is not None:
            ended = self.gateway.end(key)
            assert ended is not None, "a key is ended once"
            self._ended[key] = ended
        if key not in self._ended:
            raise YouBenchaError("KEY_NOT_ISSUED", "This key was not issued for this trial.")
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
        """End the keys that are still valid, as after an interrupt, and forget all: the gateway may continue."""
        for key in tuple(self._valid):
            await self._end(key)
        for key in self._ended:
            self.gateway.forget(key)

    def _agent_called(self, call: Call) -> None:
        self._on_event(_call_event(call))
        if call.error in _FINAL:
            self._refusals += 1
            if self._refusals > _MAX_FINAL_REFUSALS:
                self.stop.set()


def _new_heads(places: Places) -> RequestHeads:
    from youbencha.gateway.heads import RequestHeads

    return RequestHeads(places)


def _key_scope(plan: GatewayPlan) -> KeyScope | None:
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


def _call_event(call: Call) -> ModelCalled:
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


class Ticket(NamedTuple):
    """Lets one attempt use the driver's gateway, until the driver ends it. Plain data: it can be pickled."""

    url: str
    """The gateway's URL."""
    token: str
    """The token for its control routes. It is written to no file, and no agent gets it."""

    def __repr__(self) -> str:
        return f"Ticket(url={self.url!r}, token=…)"


class RemoteGateways:
    """The driver's gateway, for the `gateways` of a node's host. For one attempt, as its ticket."""

    def __init__(self, ticket: Ticket) -> None:
        self._ticket = ticket

    @property
    def secrets(self) -> Mapping[str, str]:
        """Values to redact."""
        return {"GATEWAY_TICKET_TOKEN": self._ticket.token}

    async def open_keys(self, opened: AsyncExitStack) -> TrialKeys:
        """Open the keys of the attempt until `opened` is closed."""
        from youbencha.gateway.remote import RemoteKeys  # it loads aiohttp

        return await opened.enter_async_context(RemoteKeys(*self._ticket))


_TOLERANCE = 100
"""Tokens: some agents count tokens themselves, and not exactly as the provider does."""

_COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens")


def usage_in(totals: ModelTotals) -> Usage:
    """The usage: 0 without a request. A missing price makes the cost unknown."""
    if totals.requests == 0:
        return build_usage(Tokens(0, 0, 0, 0), 0.0, partial=False, cost_source="gateway")
    cost = None if totals.unpriced or totals.cost_usd is None else float(totals.cost_usd)
    return build_usage(totals.tokens, cost, partial=totals.partial, cost_source="gateway")


def build_report(plan: GatewayPlan, key: VirtualKey, *, ledger: str, prices: str) -> GatewayReport:
    totals, calls = key.totals, key.witness.record()
    return GatewayReport(
        type=plan.type,
        ledger=ledger,
        requests=totals.requests,
        failed=totals.failed,
        rate_limited=totals.rate_limited,
        refused=totals.refused,
        provider_wait_ms=round(totals.provider_wait_s * 1000),
        circuit_opened=totals.circuit_refusals > 0,
        provider_failure=calls.failure,
        provider_silent_ms=calls.silent_ms,
        ended_in_tool=calls.in_tool,
        unusable_model=key.witness.unusable_model(),
        unpriced=totals.no_price,
        usage=usage_in(totals.total),
        prices=prices,
        paid_usd=None if totals.paid_usd is None else float(totals.paid_usd),
        models={
            name: ModelUse(requests=of_model.requests, usage=usage_in(of_model))
            for name, of_model in sorted(totals.models.items())
        },
        budget=_budget(key),
        cassette=_cassette(plan, key),
    )


def reconciled(log: YouBenchaLog, report: GatewayReport) -> tuple[YouBenchaLog, GatewayReport]:
    """Put the gateway's count into the log, unless it is 0 and the agent's is not, and the agent's into the report."""
    log = log.without_claims(("model", "usage"))
    difference = _difference(report.usage, log.usage)
    compared = report.model_copy(update={"reported": log.usage, "difference": difference})
    model = log.model_info
    if model.name == "unknown" and (name := main_model(report)):
        model = model.model_copy(update={"name": name})
    usage = log.usage if outside_gateway(report.usage, log.usage) else report.usage
    return log.model_copy(update={"usage": usage, "model_info": model}), compared


def outside_gateway(metered: Usage | None, reported: Usage | None) -> bool:
    """Whether the agent reports tokens, and none went through the gateway: its calls went elsewhere."""
    return metered is not None and not any(metered.tokens) and reported is not None and any(reported.tokens)


def tokens_outside_gateway(difference: UsageDifference | None) -> int:
    """Return how many tokens the agent reports beyond those that went through the gateway."""
    counts = [] if difference is None else [difference.input_tokens, difference.output_tokens]
    beyond = sum(-count for count in counts if count is not None and count < 0)
    return beyond if beyond > _TOLERANCE else 0


def main_model(report: GatewayReport) -> str | None:
    """Return the model with the most output: agents also use smaller models for side requests."""
    written = {name: use.usage.output_tokens or 0 for name, use in report.models.items()}
    return max(written, key=lambda name: written[name], default=None)


def _difference(metered: Usage | None, reported: Usage | None) -> UsageDifference | None:
    if metered is None or reported is None:
        return None
    counts = {name: _less(getattr(metered, name), getattr(reported, name)) for name in _COUNTS}
    cost = None
    if metered.cost_usd is not None and reported.cost_usd is not None:
        cost = round(metered.cost_usd - reported.cost_usd, 10)
    return UsageDifference(**counts, cost_usd=cost)


def _less(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one - other


def _budget(key: VirtualKey) -> BudgetReport | None:
    account = key.account
    capped = [parent for parent in account.with_parents() if _is_capped(parent)]
    if not capped:
        return None
    usd = min((account.caps.usd for account in capped if account.caps.usd is not None), default=None)
    tokens = min((account.caps.tokens for account in capped if account.caps.tokens is not None), default=None)
    return BudgetReport(
        cap_usd=None if usd is None else float(usd),
        cap_tokens=tokens,
        spent_usd=float(account.spent_usd),
        spent_tokens=account.spent_tokens,
        unsure_usd=float(account.unseen_usd),
        unsure_tokens=account.unseen_tokens,
        exceeded=account.exceeded,
        reason=key.totals.refusal,
        refused_by=key.totals.refused_by,
    )


def _is_capped(account: Account) -> bool:
    return any(value is not None for value in (*account.caps, *account.per_call))


def _cassette(plan: GatewayPlan, key: VirtualKey) -> CassetteReport | None:
    if plan.spec.cassette is None or key.cassette is None:
        return None
    return CassetteReport(
        dir=str(plan.cassette_dir),
        mode=plan.spec.cassette.mode,
        replayed=key.totals.replayed,
        recorded=key.cassette.recorded,
        unmatched=key.totals.unmatched,
    )
