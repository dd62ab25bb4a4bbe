"""What a cassette holds, for people who want to know before they replay it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from youbencha.gateway.asked import asked_of
from youbencha.gateway.cassette.cassette import Cassette
from youbencha.gateway.cassette.shelf import Exchange


class Contents(NamedTuple):
    exchanges: int
    models: tuple[str, ...]
    """As requests name them."""
    apis: tuple[str, ...]
    outdated: int
    """Exchanges that no request is the same as any more: other requests were the same when they were recorded."""


def contents_of(directory: Path) -> Contents:
    """Raises YouBenchaError for what cannot be replayed: nothing there, or files that are none of ours."""
    shelf = Cassette(directory, "replay").shelf
    held = [shelf.read(file) for file in shelf.files()]
    return Contents(
        exchanges=len(held),
        models=tuple(sorted({model for each in held if (model := _model(each))})),
        apis=tuple(sorted({each.wire for each in held if each.wire})),
        outdated=sum(each.outdated for each in held),
    )


def _model(exchange: Exchange) -> str | None:
    return asked_of(exchange.wire, exchange.path, exchange.body, 0).model if exchange.wire else None
