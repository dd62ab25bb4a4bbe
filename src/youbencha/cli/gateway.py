"""`yb gateway`: the gateway by itself, until Ctrl-C."""

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
    """Meter, cap, record and replay what agents ask of their models: one gateway, virtual keys.

    Prints one line of JSON when it is ready, with its URL and the keys; then a line on stderr for each request.

    Example: `yb gateway --key alice=2.5 --key bob --ledger calls.jsonl`
    """
    from youbencha.cli.gateway_options import dollars_given, keys_given, prices_given, secrets_given, upstreams_given
    from youbencha.cli.options import cassette_given

    address = address_given(listen)
    keys, prices = keys_given(key or []), prices_given(price or [])
    most = None if budget_total is None else dollars_given("--budget-total", budget_total, budget_total)
    tape = cassette_given(record, replay, cassette)
    env = {**os.environ, **(secrets_given(secrets) if secrets else {})}
    upstreams = {} if replay is not None else upstreams_given(upstream or [], upstream_key_env or [], env)
    redactor = _redactor(env, upstreams)

    from youbencha.cli.gateway_serving import ServeOptions, serve
    from youbencha.gateway.budget import Caps
    from youbencha.gateway.cassette.cassette import Cassette
    from youbencha.gateway.prices import Prices

    plan = ServeOptions(
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
    """Return a redactor that knows the real keys. Virtual ones are recognised by their form."""
    from youbencha.cli.gateway_options import NO_KEY
    from youbencha.process import Redactor

    real = {f"{name}_KEY": upstream.key for name, upstream in upstreams.items() if upstream.key != NO_KEY}
    return Redactor.for_env(env, real)


# -- options and their help ----------------------------------------------------------------------------------

Listen = Annotated[str, typer.Option(metavar="HOST:PORT", help="Port 0 takes any free one.")]

UpstreamOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[API=]URL",
        help="Where requests are sent on to, for all APIs or for one: anthropic=URL, openai=URL, gemini=URL. "
        "Without it: as ANTHROPIC_BASE_URL, OPENAI_BASE_URL, GOOGLE_GEMINI_BASE_URL say, else to the providers.",
    ),
]

UpstreamKeyEnv = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[API=]NAME",
        help="The variable that holds the real key, if it is not ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY.",
    ),
]

Secrets = Annotated[
    Path | None,
    typer.Option(help="A file of NAME=VALUE lines with the real keys, readable by you alone.", show_default=False),
]

Key = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME[=USD]",
        help="A virtual key, and how much may be spent with it; may be repeated. Without any: one named default.",
    ),
]

BudgetTotal = Annotated[str | None, typer.Option(metavar="USD", help="How much may be spent with all keys together.")]

TokensTotal = Annotated[
    int | None, typer.Option(metavar="N", min=0, help="How many tokens may be used with all keys together.")
]

Price = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODEL=IN/OUT[/READ/WRITE]",
        help="Dollars for a million tokens (cache reads and writes too), over the price list; may be repeated. "
        "* in a model's name stands for any text.",
    ),
]

Ledger = Annotated[
    Path | None, typer.Option(help="Where a line of JSON is added for each request.", show_default=False)
]

Record = Annotated[Path | None, typer.Option(metavar="DIR", help="Keep all answers in a cassette.", show_default=False)]

Replay = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Answer from a cassette, and ask nobody.", show_default=False),
]

Cassette = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Answer from a cassette; ask and keep the rest.", show_default=False),
]

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No line for each request, and no summary.")]
