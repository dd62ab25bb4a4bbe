"""What can be said of a cassette before anything runs: what it holds, and what a replay will look for in vain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from youbencha.adapters import UsesGateway
from youbencha.gateway.cassette.contents import Contents, contents_of
from youbencha.trial.plan import Plan


class Foreseen(NamedTuple):
    holds: str
    lacks: tuple[str, ...] = ()


def foreseen(plan: Plan) -> Foreseen | None:
    """None: nothing will be answered from a cassette. Raises YouBenchaError if it cannot be.

    A request is known only when it is made: that nothing is said to be missing promises nothing.
    """
    way = plan.gateway
    if way is None or way.spec.cassette is None or way.cassette_dir is None or way.spec.cassette.mode == "record":
        return None
    if way.spec.cassette.mode == "auto" and not way.cassette_dir.is_dir():
        return Foreseen("nothing yet")
    held = contents_of(way.cassette_dir)
    return Foreseen(_told(held), tuple(_missing(held, plan)))


def _told(held: Contents) -> str:
    plural = "" if held.exchanges == 1 else "s"
    of = f" of {', '.join(held.models)}" if held.models else ""
    return f"{held.exchanges} exchange{plural}{of}" + (f" ({', '.join(held.apis)})" if held.apis else "")


def _missing(held: Contents, plan: Plan) -> Iterator[str]:
    assert plan.gateway is not None
    kind, model = plan.case.agent.type, plan.gateway.model
    provider = plan.adapter.gateway_provider(model, plan.env) if isinstance(plan.adapter, UsesGateway) else None
    if provider and not any(api.startswith(provider) for api in held.apis):
        yield f"anything of the API that {kind} speaks ({provider})"
    elif model and not any(_may_be(model, name) for name in held.models):
        yield f"anything of the model {model}"
    if held.outdated:
        yield f"answers that still fit: {held.outdated} of {held.exchanges} were recorded by an older youBencha"


def _may_be(named: str, recorded: str) -> bool:
    """A CLI has names of its own: `sonnet`, `anthropic/claude-sonnet-4-5` and `claude-sonnet-4-5` may be one."""
    bare = named.rpartition("/")[2].partition("[")[0].lower()
    return bare in recorded.lower() or recorded.lower() in bare
