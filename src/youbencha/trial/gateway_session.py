"""The gateway that a plan asks for, and LiteLLM behind it if need be: started, and ended with the trial."""

from __future__ import annotations

import asyncio
import os
import stat
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import orjson

from youbencha.events import EventSink, ModelCalled, ProgressNote
from youbencha.files import write_atomically
from youbencha.gateway.api import GatewayAccess, Provider
from youbencha.gateway.budget import Caps
from youbencha.gateway.call import Call, Labels
from youbencha.gateway.cassette.cassette import Cassette
from youbencha.gateway.cassette.placeholders import Places
from youbencha.gateway.keys import VirtualKey
from youbencha.gateway.ledger import entry_of
from youbencha.gateway.prices import Prices
from youbencha.gateway.server import Gateway
from youbencha.gateway.upstreams import Upstream, same_for_all
from youbencha.log import GatewayReport, Usage
from youbencha.process import Redactor
from youbencha.sandbox.base import GATEWAY_PORT, ForwardedPort, Sandbox
from youbencha.sandbox.local import HOST
from youbencha.spec.gateway import GatewaySpec, Scope
from youbencha.trial.gateway_plan import GatewayPlan
from youbencha.trial.gateway_report import report_of, usage_in
from youbencha.trial.results import LITELLM_LOG
from youbencha.workspace import RunDirectory
from youbencha.workspace.trees import remove_tree

LEDGER_FILE = "gateway-ledger.jsonl"


@asynccontextmanager
async def started_gateway(
    plan: GatewayPlan,
    directory: RunDirectory,
    redactor: Redactor,
    *,
    on_call: Callable[[Call], None],
    on_event: EventSink,
) -> AsyncIterator[Gateway]:
    async with AsyncExitStack() as stack:
        upstreams = plan.upstreams
        if plan.type == "litellm":
            upstreams = await _litellm(plan, directory.artifacts / LITELLM_LOG, on_event, stack)
        gateway = Gateway(
            upstreams=upstreams,
            prices=Prices(plan.spec.prices),
            ledger=directory.artifacts / LEDGER_FILE,
            cassette=_cassette(plan, redactor),
            caps=caps_of(plan.spec, "total"),
            on_call=on_call,
        )
        yield await stack.enter_async_context(gateway)


def caps_of(spec: GatewaySpec, scope: Scope) -> Caps:
    usd, tokens = spec.caps[scope]
    return Caps(None if usd is None else Decimal(str(usd)), tokens)


def caps_of_agent(spec: GatewaySpec) -> Caps:
    """One trial is all that its agent does here: the tighter cap counts."""
    both = (caps_of(spec, "trial"), caps_of(spec, "agent"))
    return Caps(
        min((caps.usd for caps in both if caps.usd is not None), default=None),
        min((caps.tokens for caps in both if caps.tokens is not None), default=None),
    )


def places_in(directory: RunDirectory, sandbox: Sandbox) -> Places:
    """What a cassette has names of its own for, as the agent sees it."""
    env = sandbox.environment(os.environ)
    named = {
        "workspace": Path(sandbox.inside(directory.modified)),
        "run": directory.path,
        "private": directory.private,
        "temp": directory.scratch,
        "home": Path(env.get("HOME") or Path.home()),
        "tmp": Path(env.get("TMPDIR") or tempfile.gettempdir()),
    }
    return Places(tuple(named.items()))


def _cassette(plan: GatewayPlan, redactor: Redactor) -> Cassette | None:
    spec = plan.spec.cassette
    if spec is None or plan.cassette_dir is None:
        return None
    return Cassette(plan.cassette_dir, spec.mode, redactor=redactor, timing=spec.timing)


async def _litellm(
    plan: GatewayPlan, log_file: Path, on_event: EventSink, stack: AsyncExitStack
) -> dict[Provider, Upstream]:
    from youbencha.gateway.litellm.process import LiteLLM, check_litellm

    spec = plan.spec.litellm
    if spec.url is not None:
        key = plan.secrets.get(spec.key_env) or os.environ.get(spec.key_env, "")
        await check_litellm(spec.url, key)
        return same_for_all(spec.url, key, is_litellm=True)
    on_event(ProgressNote(text="starting LiteLLM"))
    running = LiteLLM(
        _litellm_program(spec.executable),
        tuple(plan.upstreams.values()),
        env={**os.environ, **plan.secrets},
        models=[plan.model] if plan.model else [],
        config_file=plan.litellm_config,
        startup_timeout_s=spec.startup_timeout_s,
        log_file=log_file,
    )
    await stack.enter_async_context(running)
    return same_for_all(running.url, running.master_key, is_litellm=True)


def _litellm_program(named: str | None) -> Path:
    from youbencha.gateway.litellm.process import find_litellm
    from youbencha.sandbox.toolbox.toolbox import Toolbox

    kept = Toolbox().find("litellm", None)
    return find_litellm(named, os.environ, kept.executable if kept else None)


# One trial's way to its model: a key for the agent, one for each judge, and what went that way.

_FINAL = frozenset({"budget_exceeded", "call_too_dear", "price_unknown", "not_recorded"})
"""Refusals after which asking again leads nowhere."""

_PATIENCE = 3
"""How often an agent may ask again all the same. Subagents each learn it for themselves."""

_MOST_MISMATCHES = 10
"""Kept: the first says why, the others follow from it."""


@dataclass
class EvaluatorAccess:
    """An evaluator's way to a model, and what it used once it is done."""

    access: GatewayAccess
    usage: Usage | None = None


async def open_trial_gateway(
    plan: GatewayPlan,
    directory: RunDirectory,
    agent: str,
    sandbox: Sandbox,
    on_event: EventSink,
    opened: AsyncExitStack,
) -> TrialGateway:
    """Open until its `close`, or until `opened` is closed."""
    lines: list[bytes] = []
    redactor = Redactor.for_env(os.environ, plan.secrets)
    running = AsyncExitStack()
    opened.push_async_callback(running.aclose)
    gateway = await running.enter_async_context(
        started_gateway(
            plan,
            directory,
            redactor,
            on_call=lambda call: lines.append(orjson.dumps(entry_of(call)) + b"\n"),
            on_event=on_event,
        )
    )
    forwarded = sandbox.forward_port(GATEWAY_PORT)
    if forwarded is not None:
        await gateway.listen_on(forwarded.socket)
    places = places_in(directory, sandbox)
    return TrialGateway(plan, directory, gateway, running, agent, places, forwarded, on_event, redactor, lines)


class TrialGateway:
    def __init__(
        self,
        plan: GatewayPlan,
        directory: RunDirectory,
        gateway: Gateway,
        running: AsyncExitStack,
        agent: str,
        places: Places,
        forwarded: ForwardedPort | None,
        on_event: EventSink,
        redactor: Redactor,
        lines: list[bytes],
    ) -> None:
        self.stop = asyncio.Event()
        """Set when the agent goes on asking although it was refused for good."""
        self._plan = plan
        self._directory = directory
        self._gateway = gateway
        self._running = running
        self._on_event = on_event
        self._redactor = redactor
        self._lines = lines
        """What the ledger holds, as far as it is ours: the agent can reach the file."""
        self._refusals = 0
        self._grant: VirtualKey | None = None
        self._mismatches: tuple[str, ...] = ()
        issued = gateway.issue(
            Labels(key=agent, agent=agent, run=directory.path.name),
            caps=caps_of_agent(plan.spec),
            per_call=caps_of(plan.spec, "call"),
            places=places,
            on_call=self._agent_called,
            peers=None if forwarded is None else frozenset({str(forwarded.socket)}),
        )
        self.access = issued if forwarded is None else issued._replace(url=f"http://{forwarded.address}")

    @property
    def secrets(self) -> Mapping[str, str]:
        """What must be in nothing that is written."""
        return {**self._plan.secrets, "GATEWAY_VIRTUAL_KEY": self.access.key}

    async def expose_in(self, sandbox: Sandbox, access: GatewayAccess) -> GatewayAccess:
        """The same key, as it is used from inside another sandbox."""
        forwarded = sandbox.forward_port(GATEWAY_PORT)
        if forwarded is None:
            return access
        await self._gateway.listen_on(forwarded.socket)
        return access._replace(url=f"http://{forwarded.address}")

    # -- the agent ---------------------------------------------------------------------------------------------

    async def end_agent(self) -> None:
        self._grant = await self._end(self.access)

    def report(self) -> GatewayReport:
        """Once the agent is gone, and the artifacts are ours again."""
        assert self._grant is not None
        self._mismatches = self._write_mismatches(self._grant, self._directory.artifacts)
        prices = self._gateway.prices.source
        return report_of(self._plan, self._grant, ledger=LEDGER_FILE, prices=prices, mismatches=self._mismatches)

    def findings(self) -> Iterator[tuple[str, str]]:
        """What a person should know: codes and messages."""
        assert self._grant is not None
        if self._mismatches:
            summary = self._redactor.text(self._grant.mismatches[0].summary)
            yield "CASSETTE_MISMATCH", f"{summary} (in full: artifacts/{self._mismatches[0]})"
        if self._grant.not_recorded is not None:
            yield "CASSETTE_INCOMPLETE", f"not every answer could be recorded: {self._grant.not_recorded}"

    def _agent_called(self, call: Call) -> None:
        self._on_event(_told(call))
        if call.error in _FINAL:
            self._refusals += 1
            if self._refusals > _PATIENCE:
                self.stop.set()

    # -- its evaluators ----------------------------------------------------------------------------------------

    @asynccontextmanager
    async def key_for(self, name: str) -> AsyncIterator[EvaluatorAccess]:
        """For an evaluator. What it spends is its own, and counts in the run's total."""
        labels = Labels(key=name, agent=name, run=self._directory.path.name)
        per_call = caps_of(self._plan.spec, "call")
        access = EvaluatorAccess(
            self._gateway.issue(labels, per_call=per_call, places=places_in(self._directory, HOST))
        )
        try:
            yield access
        finally:
            grant = await self._end(access.access)
            if grant.tally.total.requests:
                access.usage = usage_in(grant.tally.total)
            self._write_mismatches(grant, self._directory.artifacts / "evaluators" / name)

    # -- the end -----------------------------------------------------------------------------------------------

    async def close(self) -> list[tuple[str, str]]:
        """Nobody asks any more. The ledger is then what we wrote; what a person should know is told as before."""
        failure, spent_by_others = self._gateway.ledger_failure, self._is_spent_by_others()
        await self._running.aclose()
        found = []
        if spent_by_others:
            found.append(("BUDGET_EXCEEDED", "the run's total budget was spent by its evaluators, after the agent"))
        if failure is not None:
            found.append(("LEDGER_INCOMPLETE", f"the gateway's ledger could not be written in full: {failure}"))
        elif self._restore_ledger():
            told = "the gateway's ledger was changed while the agent ran; it was written anew"
            found.append(("WORKSPACE_TAMPERED", told))
        return found

    async def _end(self, access: GatewayAccess) -> VirtualKey:
        """The key's requests are cut off, and counted."""
        grant = self._gateway.end(access.key)
        assert grant is not None, "a key is ended once"
        await self._gateway.settled(grant)
        return grant

    def _is_spent_by_others(self) -> bool:
        mine = self._grant is not None and self._grant.account.exceeded
        return self._gateway.total.exceeded and not mine

    def _restore_ledger(self) -> bool:
        """Whether what is there was not what we wrote. It may be anything: a directory, a link, a file without end."""
        path = self._directory.artifacts / LEDGER_FILE
        whole = b"".join(self._lines)
        is_file = stat.S_ISREG(path.lstat().st_mode) if os.path.lexists(path) else False
        if is_file and path.stat().st_size == len(whole) and path.read_bytes() == whole:
            return False
        remove_tree(path)
        write_atomically(path, whole)
        return True

    def _write_mismatches(self, grant: VirtualKey, directory: Path) -> tuple[str, ...]:
        """How each request that a replay could not answer differs from its nearest. Names of files in `directory`."""
        names = []
        for number, mismatch in enumerate(grant.mismatches[:_MOST_MISMATCHES], start=1):
            names.append(f"cassette-mismatch-{number}.diff")
            write_atomically(directory / names[-1], self._redactor.text(mismatch.text).encode("utf-8", "replace"))
        return tuple(names)


def _told(call: Call) -> ModelCalled:
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
    )
