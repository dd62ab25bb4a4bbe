"""`yb gateway`: the gateway by itself, until Ctrl-C."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from youbencha.cli import gateway_options as options
from youbencha.cli.serving import address_given, serve_until_stopped

if TYPE_CHECKING:
    from youbencha.gateway.routes import Provider
    from youbencha.gateway.upstreams import Upstream
    from youbencha.process import Redactor


def gateway(
    listen: options.Listen = "127.0.0.1:0",
    upstream: options.Upstream = None,
    upstream_key_env: options.UpstreamKeyEnv = None,
    secrets: options.Secrets = None,
    key: options.Key = None,
    budget_total: options.BudgetTotal = None,
    tokens_total: options.TokensTotal = None,
    price: options.Price = None,
    ledger: options.Ledger = None,
    record: options.Record = None,
    replay: options.Replay = None,
    cassette: options.Cassette = None,
    quiet: options.Quiet = False,
) -> None:
    """Meter, cap, record and replay what agents ask of their models: one gateway, virtual keys.

    Prints one line of JSON when it is ready, with its URL and the keys; then a line on stderr for each request.

    Example: `yb gateway --key alice=2.5 --key bob --ledger calls.jsonl`
    """
    from youbencha.cli.gateway_keys import dollars_given, keys_given, prices_given
    from youbencha.cli.gateway_upstreams import secrets_given, upstreams_given
    from youbencha.cli.model_options import cassette_given

    address = address_given(listen)
    keys, prices = keys_given(key or []), prices_given(price or [])
    most = None if budget_total is None else dollars_given("--budget-total", budget_total, budget_total)
    tape = cassette_given(record, replay, cassette)
    env = {**os.environ, **(secrets_given(secrets) if secrets else {})}
    upstreams = {} if replay is not None else upstreams_given(upstream or [], upstream_key_env or [], env)
    redactor = _redactor(env, upstreams)

    from youbencha.cli.gateway_serving import Plan, serve
    from youbencha.gateway.cassette import Cassette
    from youbencha.gateway.model import Caps
    from youbencha.gateway.prices import Prices

    plan = Plan(
        address=address,
        upstreams=upstreams,
        keys=keys,
        total=Caps(most, tokens_total),
        prices=Prices(prices),
        ledger=ledger,
        cassette=Cassette(Path(tape.dir), tape.mode, redactor=redactor) if tape else None,
        redactor=redactor,
        quiet=quiet,
    )
    serve_until_stopped(lambda stop: serve(plan, stop))


def _redactor(env: Mapping[str, str], upstreams: Mapping[Provider, Upstream]) -> Redactor:
    """Knows the real keys, by whatever names. Virtual ones have a shape that is known anyway."""
    from youbencha.cli.gateway_upstreams import NO_KEY
    from youbencha.process import Redactor

    real = {f"{name}_KEY": upstream.key for name, upstream in upstreams.items() if upstream.key != NO_KEY}
    return Redactor.for_env(env, real)
