"""The options of `yb gateway`: what each is called, and what its help says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Listen = Annotated[str, typer.Option(metavar="HOST:PORT", help="Port 0 takes any free one.")]
Upstream = Annotated[
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
