"""A call through the gateway: as a line of the ledger, and while it is in progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import NamedTuple

from youbencha.gateway.budget import Reservation, Spend
from youbencha.gateway.metering import Meter, Metered
from youbencha.gateway.prices import Prices
from youbencha.gateway.wires import Action, RequestSize, Route, WireName
from youbencha.usage import Tokens


class Labels(NamedTuple):
    """The owner of a call, for the ledger. `key` is the virtual key's name, never the key."""

    key: str
    agent: str | None = None
    run: str | None = None


class Call(NamedTuple):
    """One request, from its arrival to its end: a line of the ledger."""

    id: str
    at: float
    """When it arrived, in seconds since the epoch."""
    labels: Labels
    method: str
    path: str
    wire: WireName | None
    requested_model: str | None
    model: str | None
    """As the answer names it, else as the request does."""
    status: int | None
    """What the client got; None if it disconnected before."""
    tokens: Tokens
    cost_usd: Decimal | None
    """None if the price or the tokens are unknown."""
    partial: bool
    """The counts are a lower bound: the answer was cut off."""
    stream: bool = False
    error: str | None = None
    """The error code: `budget_exceeded`, `client_gone`, `upstream_gone`, `rate_limited` …"""
    upstream_status: int | None = None
    """None if the gateway answered instead of the provider."""
    retry_after_s: float | None = None
    duration_ms: float = 0.0
    first_byte_ms: float | None = None
    replayed: bool = False
    billed: bool = True
    """It requests an answer of a model. Counting tokens and listing models costs nothing."""
    dispatched: bool = False
    """It was sent to the provider."""
    silent_ms: float = 0.0
    """How long nothing had come from the provider when it ended."""
    request: int | None = None
    """Identifies the request's body in this process."""
    offers_tools: bool = False
    """The model may call tools."""
    calls_tool: bool = False
    """The answer calls one of the agent's."""
    finished: bool = False
    """The answer says that it is finished. Not in the ledger, nor are the five above."""


MAX_NAME_CHARS = 200
"""The longest model name that is written anywhere, because the client chooses it."""


class PendingCall:
    """A call in progress, filled in by the proxy and settled once."""

    def __init__(self, call_id: str, labels: Labels, method: str, path: str, route: Route | None) -> None:
        self.id = call_id
        self.labels = labels
        self.method = method
        self.path = path[:MAX_NAME_CHARS].encode("utf-8", "replace").decode()  # it may be any bytes
        self.route = route
        self.size = RequestSize(model=None, stream=False, max_output=None, max_input=0)
        self.arrived = time.time()
        self.meter: Meter | None = None
        self.reservation: Reservation | None = None
        self.status: int | None = None
        self.error: str | None = None
        self.dispatched = False
        """The request was sent to the provider, and may cost something even without an answer."""
        self.upstream_status: int | None = None
        self.headers: Mapping[str, str] = {}
        """The headers of the answer to the client."""
        self.retry_after_s: float | None = None
        self.first_byte_ms: float | None = None
        self.last_byte_ms = 0.0
        """When the last part of the answer arrived; before that, when the request was sent."""
        self.request: int | None = None
        self.offers_tools = False
        self.replayed = False
        self.finish: Callable[[], None] = lambda: None
        """Settle the call and write its ledger line, once; before the client has its complete answer."""
        self._started = time.perf_counter()

    @property
    def billed(self) -> bool:
        return self.route is not None and self.route.action is Action.GENERATE

    @property
    def may_cost(self) -> bool:
        """Whether a provider answers it, or did when it was recorded. Errors are free."""
        if not self.billed:
            return False
        if self.replayed or self.upstream_status is not None:
            return self.status is not None and self.status < 300
        return self.dispatched

    def elapsed_ms(self) -> float:
        return (time.perf_counter() - self._started) * 1000

    def sent(self) -> None:
        """Note that it is sent to the provider now."""
        self.dispatched = True
        self.last_byte_ms = self.elapsed_ms()

    def received(self) -> None:
        """Note that a part of the answer has arrived."""
        self.last_byte_ms = self.elapsed_ms()
        if self.first_byte_ms is None:
            self.first_byte_ms = self.last_byte_ms

    def note_end(self) -> None:
        """Note whether an answer that has ended is complete: a provider may end a stream without its last event."""
        if self.error is None and self.may_cost:
            metered = self.metered()
            self.error = None if metered.ended or metered.error else "ended_early"

    def metered(self) -> Metered:
        return self.meter.result() if self.meter is not None and self.may_cost else Metered()

    def as_partial(self) -> Call:
        """Return what is known before there is an answer."""
        return self._call(Metered(), None, None)

    def settle(self, prices: Prices) -> Call:
        """Settle the reservation, and return the call for the ledger."""
        metered = self.metered()
        model = (metered.model or self.size.model or "")[:MAX_NAME_CHARS] or None
        cost = self._cost(prices, metered, model)
        if self.reservation is not None:
            if self.may_cost:
                spend = Spend(cost, sum(count or 0 for count in metered.tokens))
                self.reservation.settle(spend, unseen=self._unseen(prices, metered, model))
            else:
                self.reservation.release()
            self.reservation = None
        return self._call(metered, model, cost)

    def _cost(self, prices: Prices, metered: Metered, model: str | None) -> Decimal | None:
        if metered.tokens == Tokens() or self.route is None:
            return None
        provider = self.route.provider
        tokens, hour, extras = metered.tokens, metered.cache_creation_1h, metered.extras
        names = self._names(model)
        costs = (prices.cost(provider, name, tokens, cache_creation_1h=hour, extras=extras) for name in names)
        return next((cost for cost in costs if cost is not None), None)

    def _unseen(self, prices: Prices, metered: Metered, model: str | None) -> Spend:
        """What a call that was cut off may have cost in addition to what was seen; caps include it.

        This is all that the request allows: a model may think without output, or continue after a disconnect.
        """
        if metered.complete or self.route is None:
            return Spend(Decimal(0), 0)
        seen = metered.tokens
        hidden = self.size._replace(
            max_input=self.size.max_input if seen.input is None or self.size.server_tool_uses else 0,
            max_output=max(0, self.size.worst_output - (seen.output or 0)),
        )
        provider = self.route.provider
        costs = (prices.worst_case(provider, name, hidden) for name in self._names(model))
        return Spend(next((cost for cost in costs if cost is not None), None), hidden.worst_tokens)

    def _names(self, answered: str | None) -> Iterable[str | None]:
        """The names to look for in the price list. The answer's may be another gateway's alias."""
        return dict.fromkeys((answered, self.size.model))

    def _call(self, metered: Metered, model: str | None, cost: Decimal | None) -> Call:
        duration_ms = self.elapsed_ms()
        return Call(
            id=self.id,
            at=self.arrived,
            labels=self.labels,
            method=self.method,
            path=self.path,
            wire=self.route.wire.name if self.route else None,
            requested_model=(self.size.model or "")[:MAX_NAME_CHARS] or None,
            model=model,
            status=self.status,
            tokens=metered.tokens,
            cost_usd=cost,
            partial=self.may_cost and not metered.complete,
            stream=self.size.stream,
            error=self.error or metered.error,
            upstream_status=self.upstream_status,
            retry_after_s=self.retry_after_s,
            duration_ms=duration_ms,
            first_byte_ms=self.first_byte_ms,
            replayed=self.replayed,
            billed=self.billed,
            dispatched=self.dispatched,
            silent_ms=duration_ms - self.last_byte_ms,
            request=self.request,
            offers_tools=self.offers_tools,
            calls_tool=metered.calls_tool,
            finished=metered.finished,
        )
