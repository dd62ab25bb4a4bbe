"""Gateways and budgets: for one trial, or for all trials of a run, which share them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from youbencha.events import EventSink, ProgressNote
from youbencha.gateway.access import Provider
from youbencha.gateway.budget import NO_CAPS, Account, Caps
from youbencha.gateway.gateway import Gateway
from youbencha.gateway.ledger import Ledger
from youbencha.gateway.prices import Prices
from youbencha.gateway.upstreams import Upstream, same_for_all
from youbencha.process import Redactor
from youbencha.sandbox.toolbox.toolbox import Toolbox
from youbencha.spec.gateway import GatewaySpec, Scope
from youbencha.trial.gateway_plan import GatewayPlan
from youbencha.user_dirs import toolbox_dir

if TYPE_CHECKING:
    from youbencha.gateway.cassette.cassette import Cassette
    from youbencha.gateway.litellm.process import LiteLLM

LOOPBACK = "127.0.0.1"
RUN_ACCOUNT = "run"


class SharedGateways:
    """The gateways and budgets of a run. LiteLLM is started once for all trials with the same plan."""

    def __init__(self, budgets: Budgets, log_dir: Path, listen: str) -> None:
        """LiteLLM's logs are written to `log_dir`. The gateways listen on the address `listen`."""
        self.budgets = budgets
        self._log_dir = log_dir
        self._listen = listen
        self._opened = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._gateways: list[tuple[object, Gateway]] = []

    async def gateway(self, plan: GatewayPlan, env: Mapping[str, str], on_event: EventSink) -> Gateway:
        """Return the gateway for a plan without a cassette, opening it if it is the first of its kind."""
        kind = _kind(plan)
        async with self._opening:
            for known, gateway in self._gateways:
                if known == kind and gateway.failure is None:
                    return gateway
            litellm_log = _new_litellm_log(self._log_dir)
            opening = open_gateway(plan, env, litellm_log=litellm_log, on_event=on_event, listen=self._listen)
            gateway = await self._opened.enter_async_context(opening)
            self._gateways.append((kind, gateway))
            return gateway

    async def aclose(self) -> None:
        await self._opened.aclose()


def _new_litellm_log(log_dir: Path) -> Path:
    """Return a new log file for LiteLLM. There may be others already: LiteLLM was restarted, or the run is resumed."""
    names = (log_dir / f"litellm-{number}.log" for number in itertools.count(1))
    return next(path for path in names if not path.exists())


def _kind(plan: GatewayPlan) -> object:
    """What plans must have in common to share a gateway. LiteLLM's configuration depends on provider and model, too."""
    shared = (plan.spec.prices, dict(plan.upstreams))
    if plan.type == "builtin":
        return shared
    return (*shared, plan.provider, plan.model, plan.secrets, plan.spec.litellm, plan.litellm_config)


@asynccontextmanager
async def open_gateway(
    plan: GatewayPlan,
    env: Mapping[str, str],
    *,
    litellm_log: Path,
    ledger: Ledger | None = None,
    on_event: EventSink,
    listen: str = LOOPBACK,
) -> AsyncIterator[Gateway]:
    """Open a gateway for one trial or many, with LiteLLM behind it if planned.

    `ledger` is for requests that belong to no trial, such as those with an unknown key.
    """
    async with AsyncExitStack() as stack:
        upstreams, litellm = plan.upstreams, None
        if plan.type == "litellm" and plan.spec.litellm.url is not None:
            upstreams = await _connect_litellm(plan, plan.spec.litellm.url, env)
        elif plan.type == "litellm":
            litellm = await stack.enter_async_context(_make_litellm(plan, litellm_log, on_event, env))
            key, secrets = litellm.master_key, tuple(plan.secrets.values())
            upstreams = same_for_all(litellm.url, key, is_litellm=True, secrets=secrets)
        gateway = Gateway(
            upstreams=upstreams,
            prices=Prices(plan.spec.prices),
            ledger=ledger,
            cassette=_cassette(plan, env),
            host=listen,
        )
        await stack.enter_async_context(gateway)
        if litellm is not None:
            watching = asyncio.create_task(_fail_when_litellm_ends(litellm, gateway))
            stack.callback(watching.cancel)
        yield gateway


async def _fail_when_litellm_ends(litellm: LiteLLM, gateway: Gateway) -> None:
    gateway.fail(await litellm.wait())


def _cassette(plan: GatewayPlan, env: Mapping[str, str]) -> Cassette | None:
    spec = plan.spec.cassette
    if spec is None or plan.cassette_dir is None:
        return None
    from youbencha.gateway.cassette.cassette import Cassette  # takes 30 ms to load, and few runs need it

    redactor = Redactor.for_env(env, plan.secrets)
    return Cassette(plan.cassette_dir, spec.mode, redactor=redactor, timing=spec.timing)


async def _connect_litellm(plan: GatewayPlan, url: str, env: Mapping[str, str]) -> dict[Provider, Upstream]:
    from youbencha.gateway.litellm.process import check_litellm

    key = plan.secrets.get(plan.spec.litellm.key_env) or env.get(plan.spec.litellm.key_env, "")
    await check_litellm(url, key)
    return same_for_all(url, key, is_litellm=True, secrets=tuple(plan.secrets.values()))


def _make_litellm(plan: GatewayPlan, log_file: Path, on_event: EventSink, env: Mapping[str, str]) -> LiteLLM:
    from youbencha.gateway.litellm.process import LiteLLM

    spec = plan.spec.litellm
    on_event(ProgressNote(text="starting LiteLLM"))
    return LiteLLM(
        _litellm_program(spec.executable, env),
        tuple(plan.upstreams.values()),
        env={**env, **plan.secrets},
        models=[plan.model] if plan.model else [],
        config_file=plan.litellm_config,
        startup_timeout_s=spec.startup_timeout_s,
        log_file=log_file,
    )


def _litellm_program(configured: str | None, env: Mapping[str, str]) -> Path:
    from youbencha.gateway.litellm.process import find_litellm

    installed = Toolbox(toolbox_dir(env)).find("litellm", None)
    return find_litellm(configured, env, installed.executable if installed else None)


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
        total = _lowest((spec for listed in specs.values() for spec in listed), "total")
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


def select_caps(spec: GatewaySpec, scope: Scope) -> Caps:
    usd, tokens = spec.caps[scope]
    return Caps(None if usd is None else Decimal(str(usd)), tokens)


def _lowest(specs: Iterable[GatewaySpec], scope: Scope) -> Caps:
    caps = [select_caps(spec, scope) for spec in specs]
    return Caps(
        min((cap.usd for cap in caps if cap.usd is not None), default=None),
        min((cap.tokens for cap in caps if cap.tokens is not None), default=None),
    )
