"""The gateway of one trial, running: a key for the agent, one for each judge, and the report at the end."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

from youbencha.events import EventSink, ModelCalled, Noted
from youbencha.gateway.access import GatewayAccess
from youbencha.gateway.budgets import Account
from youbencha.gateway.cassette import Cassette
from youbencha.gateway.keys import Grant
from youbencha.gateway.model import Call, Caps, Labels, Places
from youbencha.gateway.prices import Prices
from youbencha.gateway.routes import Provider
from youbencha.gateway.server import Gateway
from youbencha.gateway.upstreams import Upstream, same_for_all
from youbencha.log import Usage
from youbencha.process import Redactor
from youbencha.spec.gateway import GatewaySpec, Scope
from youbencha.trial.bundle import LITELLM_LOG
from youbencha.trial.gateway.deciding import GatewayPlan
from youbencha.trial.gateway.reporting import usage_in
from youbencha.workspace import RunDirectory, write_atomically

LEDGER_FILE = "gateway-ledger.jsonl"
_PATIENCE = 3
"""How often an agent may ask again once it was refused for good. Subagents each learn it for themselves."""


_FINAL = frozenset({"budget_exceeded", "call_too_dear", "price_unknown", "not_recorded"})
"""Refusals after which asking again leads nowhere."""
_MOST_MISMATCHES = 10
"""Kept: the first says why, the others follow from it."""


class Around(NamedTuple):
    """What the gateway is told of the trial."""

    agent: str
    directory: RunDirectory
    redactor: Redactor
    on_event: EventSink
    on_call: Callable[[Call], None]
    """Every call, the evaluators' too."""


@dataclass
class Seat:
    """An evaluator's way to a model, and what it used once it is done."""

    access: GatewayAccess
    usage: Usage | None = None


class TrialGateway:
    """Hands out keys, and remembers whose they are."""

    def __init__(self, gateway: Gateway, plan: GatewayPlan, around: Around) -> None:
        self.stop = asyncio.Event()
        """Set when the agent goes on asking although it was refused for good."""
        self._gateway = gateway
        self._plan = plan
        self._around = around
        self._places = _places(around)
        self._refusals = 0

    def issue_for_agent(self) -> GatewayAccess:
        spec, around = self._plan.spec, self._around
        return self._gateway.issue(
            Labels(key=around.agent, agent=around.agent, run=around.directory.path.name),
            caps=_tighter(_caps(spec, "trial"), _caps(spec, "agent")),
            per_call=_caps(spec, "call"),
            places=self._places,
            on_call=self._agent_called,
        )

    @property
    def ledger_failure(self) -> str | None:
        return self._gateway.ledger_failure

    @property
    def total(self) -> Account:
        """Of the whole run, its evaluators included."""
        return self._gateway.total

    async def end(self, access: GatewayAccess) -> Grant:
        """The key's requests are cut off, and counted."""
        grant = self._gateway.end(access.key)
        assert grant is not None, "a key is ended once"
        await self._gateway.settled(grant)
        return grant

    @asynccontextmanager
    async def open_for(self, name: str) -> AsyncIterator[Seat]:
        """For an evaluator. What it spends is its own, and counts in the run's total."""
        labels = Labels(key=name, agent=name, run=self._around.directory.path.name)
        access = self._gateway.issue(labels, per_call=_caps(self._plan.spec, "call"), places=self._places)
        seat = Seat(access)
        try:
            yield seat
        finally:
            grant = await self.end(access)
            if grant.tally.total.requests:
                seat.usage = usage_in(grant.tally.total)
            write_mismatches(grant, self._around.directory.artifacts / "evaluators" / name, self._around.redactor)

    def _agent_called(self, call: Call) -> None:
        tokens = call.tokens
        self._around.on_event(
            ModelCalled(
                model=call.model,
                status=call.status,
                input_tokens=tokens.input,
                output_tokens=tokens.output,
                cache_read_tokens=tokens.cache_read,
                cache_creation_tokens=tokens.cache_creation,
                cost_usd=None if call.cost_usd is None else float(call.cost_usd),
                partial=call.partial,
                error=call.error,
                duration_ms=call.duration_ms,
            )
        )
        if call.error in _FINAL:
            self._refusals += 1
            if self._refusals > _PATIENCE:
                self.stop.set()


def write_mismatches(grant: Grant, directory: Path, redactor: Redactor) -> tuple[str, ...]:
    """How each request that a replay could not answer differs from its nearest. Names of files in `directory`."""
    names = []
    for number, mismatch in enumerate(grant.mismatches[:_MOST_MISMATCHES], start=1):
        names.append(f"cassette-mismatch-{number}.diff")
        write_atomically(directory / names[-1], redactor.text(mismatch.text).encode("utf-8", "replace"))
    return tuple(names)


@asynccontextmanager
async def open_gateway(plan: GatewayPlan, around: Around) -> AsyncIterator[TrialGateway]:
    """For the length of a trial."""
    async with AsyncExitStack() as stack:
        upstreams = plan.upstreams
        if plan.type == "litellm":
            upstreams = await _litellm(plan, around, stack)
        cassette = None
        if plan.spec.cassette is not None and plan.cassette_dir is not None:
            cassette = Cassette(
                plan.cassette_dir,
                plan.spec.cassette.mode,
                redactor=around.redactor,
                timing=plan.spec.cassette.timing,
            )
        gateway = Gateway(
            upstreams=upstreams,
            prices=Prices(plan.spec.prices),
            ledger=around.directory.artifacts / LEDGER_FILE,
            cassette=cassette,
            caps=_caps(plan.spec, "total"),
            on_call=around.on_call,
        )
        await stack.enter_async_context(gateway)
        yield TrialGateway(gateway, plan, around)


async def _litellm(plan: GatewayPlan, around: Around, stack: AsyncExitStack) -> dict[Provider, Upstream]:
    from youbencha.gateway.litellm import LiteLLM, check_litellm

    spec = plan.spec.litellm
    if spec.url is not None:
        key = plan.secrets.get(spec.key_env) or os.environ.get(spec.key_env, "")
        await check_litellm(spec.url, key)
        return same_for_all(spec.url, key, is_litellm=True)
    around.on_event(Noted(text="starting LiteLLM"))
    running = LiteLLM(
        _litellm_program(spec.executable),
        tuple(plan.upstreams.values()),
        env={**os.environ, **plan.secrets},
        models=[plan.model] if plan.model else [],
        config_file=plan.litellm_config,
        startup_timeout_s=spec.startup_timeout_s,
        log_file=around.directory.artifacts / LITELLM_LOG,
    )
    await stack.enter_async_context(running)
    return same_for_all(running.url, running.master_key, is_litellm=True)


def _litellm_program(named: str | None) -> Path:
    from youbencha.gateway.litellm import find_litellm
    from youbencha.sandbox.toolbox import Toolbox

    kept = Toolbox().find("litellm", None)
    return find_litellm(named, os.environ, kept.executable if kept else None)


def _caps(spec: GatewaySpec, scope: Scope) -> Caps:
    usd, tokens = spec.caps[scope]
    return Caps(None if usd is None else Decimal(str(usd)), tokens)


def _tighter(one: Caps, other: Caps) -> Caps:
    """One trial is all that its agent does here."""
    return Caps(
        min((usd for usd in (one.usd, other.usd) if usd is not None), default=None),
        min((tokens for tokens in (one.tokens, other.tokens) if tokens is not None), default=None),
    )


def _places(around: Around) -> Places:
    named = {
        "workspace": around.directory.modified,
        "run": around.directory.path,
        "private": around.directory.private,
        "home": Path(os.environ.get("HOME") or Path.home()),
        "tmp": Path(tempfile.gettempdir()),
    }
    return Places(tuple(named.items()))
