"""`yb gateway`: serve the gateway on its own, until Ctrl-C."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from youbencha.cli.serving import address_given, serve_until_stopped

if TYPE_CHECKING:
    from youbencha.gateway.api import Provider
    from youbencha.gateway.upstreams import Upstream
    from youbencha.process import Redactor


def gateway(
    listen: Listen = "127.0.0.1:0",
    upstream: UpstreamOption = None,
    upstream_key_env: UpstreamKeyEnv = None,
    secrets: Secrets = None,
    key: Key = None,
    budget_total: BudgetTotal = None,
    tokens_total: TokensTotal = None,
    price: Price = None,
    ledger: Ledger = None,
    record: Record = None,
    replay: Replay = None,
    cassette: Cassette = None,
    quiet: Quiet = False,
) -> None:
    """Serve a gateway that meters, caps, records and replays the requests of agents to their models.

    When ready, it prints its URL and its virtual keys as one line of JSON; then a line on stderr for each request.

    Example: `yb gateway --key alice=2.5 --key bob --ledger calls.jsonl`
    """
    from youbencha.cli.gateway_options import load_secrets, parse_dollars, parse_keys, parse_prices, parse_upstreams
    from youbencha.cli.options import cassette_given

    address = address_given(listen)
    keys, prices = parse_keys(key or []), parse_prices(price or [])
    total_usd = None if budget_total is None else parse_dollars("--budget-total", budget_total, budget_total)
    cassette_spec = cassette_given(record, replay, cassette)
    env = {**os.environ, **(load_secrets(secrets) if secrets else {})}
    upstreams = {} if replay is not None else parse_upstreams(upstream or [], upstream_key_env or [], env)
    redactor = _redactor(env, upstreams)

    from youbencha.cli.gateway_serving import ServeOptions, serve
    from youbencha.gateway.budget import Caps
    from youbencha.gateway.cassette.cassette import Cassette
    from youbencha.gateway.prices import Prices

    options = ServeOptions(
        address=address,
        upstreams=upstreams,
        keys=keys,
        total=Caps(total_usd, tokens_total),
        prices=Prices(prices),
        ledger=ledger,
        cassette=Cassette(Path(cassette_spec.dir), cassette_spec.mode, redactor=redactor) if cassette_spec else None,
        redactor=redactor,
        quiet=quiet,
    )
    serve_until_stopped(lambda stop: serve(options, stop))


def _redactor(env: Mapping[str, str], upstreams: Mapping[Provider, Upstream]) -> Redactor:
    """Return a redactor of the real keys. Virtual keys are always recognised by their prefix."""
    from youbencha.cli.gateway_options import NO_KEY
    from youbencha.process import Redactor

    real = {f"{name}_KEY": upstream.key for name, upstream in upstreams.items() if upstream.key != NO_KEY}
    return Redactor.for_env(env, real)


Listen = Annotated[str, typer.Option(metavar="HOST:PORT", help="Address to listen on. Port 0 picks a free port.")]

UpstreamOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[API=]URL",
        help="Server to forward requests to, for all APIs or for one: anthropic=URL, openai=URL, gemini=URL. "
        "Default: ANTHROPIC_BASE_URL, OPENAI_BASE_URL, GOOGLE_GEMINI_BASE_URL, or else the providers.",
    ),
]

UpstreamKeyEnv = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[API=]NAME",
        help="Variable with the real key, if not ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY.",
    ),
]

Secrets = Annotated[
    Path | None, typer.Option(help="File of NAME=VALUE lines with the real keys. Only you may have read access.")
]

Key = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME[=USD]",
        help="Name of a virtual key, and its budget. Can be repeated. Default: one key named default.",
    ),
]

BudgetTotal = Annotated[str | None, typer.Option(metavar="USD", help="Budget of all keys together.")]
TokensTotal = Annotated[int | None, typer.Option(metavar="N", min=0, help="Token limit of all keys together.")]

Price = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODEL=IN/OUT[/READ/WRITE]",
        help="Price of a model in dollars per million tokens; overrides the price list. Can be repeated. "
        "* in a model's name matches any text.",
    ),
]

Ledger = Annotated[Path | None, typer.Option(help="File to append a line of JSON to for each request.")]
Record = Annotated[Path | None, typer.Option(metavar="DIR", help="Record all answers into a cassette.")]
Replay = Annotated[Path | None, typer.Option(metavar="DIR", help="Answer from a cassette only.")]

Cassette = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Answer from a cassette; forward and record what it does not contain."),
]

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no line for each request, and no summary.")]
