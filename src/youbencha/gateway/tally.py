"""What one key's calls come to."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from youbencha.gateway.model import Call
from youbencha.log.tokens import Tokens, add_all

PROVIDER_IS_BUSY = frozenset({429, 529})


class ModelTally(NamedTuple):
    requests: int = 0
    tokens: Tokens = Tokens()
    cost_usd: Decimal | None = None
    unpriced: int = 0
    """Answers with tokens whose price is not known."""
    partial: bool = False

    def plus(self, call: Call) -> ModelTally:
        counted = call.tokens != Tokens()
        known = [cost for cost in (self.cost_usd, call.cost_usd) if cost is not None]
        return ModelTally(
            requests=self.requests + 1,
            tokens=add_all((self.tokens, call.tokens)),
            cost_usd=sum(known, Decimal(0)) if known else None,
            unpriced=self.unpriced + (counted and call.cost_usd is None),
            partial=self.partial or call.partial,
        )


class Tally:
    """Grows with every call that ends."""

    def __init__(self) -> None:
        self.total = ModelTally()
        """Of the calls that ask a model for an answer."""
        self.models: dict[str, ModelTally] = {}
        self.paid_usd: Decimal | None = Decimal(0)
        """What was not replayed; None once a price is missing."""
        self.requests = 0
        self.failed = 0
        self.rate_limited = 0
        self.refused = 0
        self.refusal: str | None = None
        """What the first refusal by a budget said."""
        self.circuit_refusals = 0
        self.no_price: str | None = None
        """What the first refusal for want of a price said."""
        self.replayed = 0
        self.unmatched = 0
        self.provider_wait_s = 0.0
        self._waiting_since: float | None = None

    def arrived(self, now: float) -> None:
        """A request is here: whoever was told to wait has done so."""
        if self._waiting_since is not None:
            self.provider_wait_s += max(0.0, now - self._waiting_since)
            self._waiting_since = None

    def refused_because(self, reason: str, message: str) -> None:
        """The words of a refusal, which a call does not hold."""
        if reason in ("budget_exceeded", "call_too_dear"):
            self.refusal = self.refusal or message
        elif reason == "price_unknown":
            self.no_price = self.no_price or message

    def ended(self, call: Call, now: float) -> None:
        self.requests += 1
        self.failed += call.error is not None
        self.replayed += call.replayed
        if call.upstream_status in PROVIDER_IS_BUSY:
            self.rate_limited += 1
            self._waiting_since = now
        if call.billed and (call.partial or (call.status is not None and call.status < 300)):
            self.total = self.total.plus(call)
            if not call.replayed and self.paid_usd is not None:
                self.paid_usd = None if call.cost_usd is None else self.paid_usd + call.cost_usd
            name = call.model or "unknown"
            self.models[name] = self.models.get(name, ModelTally()).plus(call)
        match call.error:
            case "budget_exceeded" | "call_too_dear":
                self.refused += 1
            case "circuit_open":
                self.circuit_refusals += 1
            case "not_recorded":
                self.unmatched += 1
            case _:
                pass
