"""The gateway that a plan asks for, and LiteLLM behind it if need be: started, and ended with the trial."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from decimal import Decimal
from pathlib import Path

from youbencha.events import EventSink, Noted
from youbencha.gateway.cassette import Cassette
from youbencha.gateway.model import Call, Caps, Places
from youbencha.gateway.prices import Prices
from youbencha.gateway.routes import Provider
from youbencha.gateway.server import Gateway
from youbencha.gateway.upstreams import Upstream, same_for_all
from youbencha.process import Redactor
from youbencha.sandbox.base import Sandbox
from youbencha.spec.gateway import GatewaySpec, Scope
from youbencha.trial.bundle import LITELLM_LOG
from youbencha.trial.gateway.deciding import GatewayPlan
from youbencha.workspace import RunDirectory

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
    from youbencha.gateway.litellm import LiteLLM, check_litellm

    spec = plan.spec.litellm
    if spec.url is not None:
        key = plan.secrets.get(spec.key_env) or os.environ.get(spec.key_env, "")
        await check_litellm(spec.url, key)
        return same_for_all(spec.url, key, is_litellm=True)
    on_event(Noted(text="starting LiteLLM"))
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
    from youbencha.gateway.litellm import find_litellm
    from youbencha.sandbox.toolbox import Toolbox

    kept = Toolbox().find("litellm", None)
    return find_litellm(named, os.environ, kept.executable if kept else None)
