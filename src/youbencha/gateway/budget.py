"""Budgets in dollars and tokens: the worst case of a call is reserved before it is sent, and settled when it has ended.

A call may start if every cap has something left after the worst cases of all calls in progress. So concurrent calls
exceed a cap by at most one call's worst case in total. No locks are needed: everything runs in one event loop, and
nothing awaits between the check and the reservation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from decimal import Decimal
from typing import ClassVar, Literal, NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.gateway.refusals import Reason


class Caps(NamedTuple):
    """How much may be spent. None: no limit."""

    usd: Decimal | None = None
    tokens: int | None = None
    """All four kinds together."""


NO_CAPS = Caps()
Kind = Literal["usd", "tokens"]


class WorstCase(NamedTuple):
    """The most that one call may use."""

    usd: Decimal | None
    """None if the price is unknown."""
    tokens: int

    def over(self, caps: Caps) -> CapReached | None:
        """Return the cap for a single call that this exceeds, if any. Every call exceeds a cap of 0."""
        if caps.usd is not None and self.usd is not None and (self.usd > caps.usd or not caps.usd):
            return CapReached("usd", caps.usd, self.usd)
        if caps.tokens is not None and (self.tokens > caps.tokens or not caps.tokens):
            return CapReached("tokens", caps.tokens, self.tokens)
        return None


class Spend(NamedTuple):
    """What one call used."""

    usd: Decimal | None
    """None if unknown."""
    tokens: int


class CapReached(NamedTuple):
    """A cap, and the amount that reaches it."""

    kind: Kind
    cap: Decimal | int
    amount: Decimal | int

    def described(self) -> str:
        return f"{_formatted(self.kind, self.amount)} of {_formatted(self.kind, self.cap)}"


class _Amount(NamedTuple):
    usd: Decimal = Decimal(0)
    tokens: int = 0

    def plus(self, other: _Amount) -> _Amount:
        return _Amount(self.usd + other.usd, self.tokens + other.tokens)

    def minus(self, other: _Amount) -> _Amount:
        return _Amount(self.usd - other.usd, self.tokens - other.tokens)

    def reaches(self, caps: Caps) -> CapReached | None:
        """Return the cap that is used up, if any."""
        if caps.usd is not None and self.usd >= caps.usd:
            return CapReached("usd", caps.usd, self.usd)
        if caps.tokens is not None and self.tokens >= caps.tokens:
            return CapReached("tokens", caps.tokens, self.tokens)
        return None

    def exceeds(self, caps: Caps) -> bool:
        over_usd = caps.usd is not None and self.usd > caps.usd
        return over_usd or (caps.tokens is not None and self.tokens > caps.tokens)


_NOTHING = Spend(Decimal(0), 0)


def _known(some: WorstCase | Spend) -> _Amount:
    """The known amount. A negative one counts as 0, because no call may add to a budget."""
    return _Amount(max(some.usd or Decimal(0), Decimal(0)), max(some.tokens, 0))


def _unseen(worst: WorstCase, spend: Spend, more: Spend) -> _Amount:
    """What a call may have used beyond `spend`: `more`, or the rest of its worst case if the dollars are unknown."""
    stated = _known(more)
    if stated.usd or (spend.usd is not None and more.usd is not None):
        return stated
    return stated._replace(usd=_known(worst).minus(_known(spend)).usd.max(0))


class BudgetRefusal(YouBenchaError):
    """Why a call is not sent. It is final: the same call is refused again."""

    reason: ClassVar[Reason]
    """The code for the ledger and the client."""

    def __init__(self, account: str, message: str) -> None:
        super().__init__(self.reason.upper(), message, context={"account": account})
        self.account = account


class BudgetSpent(BudgetRefusal):
    """A cap is used up."""

    reason = "budget_exceeded"

    def __init__(self, account: str, kind: Kind, cap: Decimal | int, spent: Decimal | int) -> None:
        used = f"{_formatted(kind, spent)} of {_formatted(kind, cap)}"
        super().__init__(account, f"the budget is spent: {used} for {account}. Raise it to continue.")
        self.kind, self.cap, self.spent = kind, cap, spent


class CallOverCap(BudgetRefusal):
    """The worst case of this call exceeds the cap for a single call."""

    reason = "call_over_cap"

    def __init__(self, account: str, kind: Kind, cap: Decimal | int, worst: Decimal | int) -> None:
        setting = {"usd": "budget_per_call_usd", "tokens": "tokens_per_call"}[kind]
        super().__init__(
            account,
            f"this call may take up to {_formatted(kind, worst)}, and a call of {account} may take"
            f" {_formatted(kind, cap)}. Limit the length of its answer, shorten what is sent, or raise"
            f" gateway.{setting}.",
        )
        self.kind, self.cap, self.worst = kind, cap, worst


class PriceUnknown(BudgetRefusal):
    """There is a cap in dollars, which cannot be enforced without a price."""

    reason = "price_unknown"

    def __init__(self, account: str, model: str | None) -> None:
        named = f"the model {model}" if model else "a model that the request does not name"
        super().__init__(
            account,
            f"{account} has a budget in dollars, and the price of {named} is not known. Add it to gateway.prices"
            " (`yb gateway --price`), or set the budget in tokens.",
        )
        self.model = model


def _formatted(kind: Kind, amount: Decimal | int) -> str:
    if kind == "tokens":
        return f"{amount:,} tokens"
    exact = f"{amount:f}"
    return f"${exact.rstrip('0').rstrip('.') if '.' in exact else exact}"


class _Waiter(NamedTuple):
    account: Account
    worst: WorstCase
    reservation: asyncio.Future[Reservation]


class Account:
    """What a key, an agent or a run has spent and reserved. It counts against the caps of all its parents too."""

    def __init__(
        self, name: str, caps: Caps = NO_CAPS, *, per_call: Caps = NO_CAPS, parent: Account | None = None
    ) -> None:
        self.name, self.caps, self.per_call, self.parent = name, caps, per_call, parent
        self.exceeded = False
        """A request of this account went beyond its own cap or a parent's, or was refused because of it."""
        self._spent = self._unseen = self._reserved = _Amount()
        # One queue for the whole tree of accounts: because of a parent's caps, its children wait for each other.
        self._waiting: list[_Waiter] = parent._waiting if parent else []

    @property
    def is_capped(self) -> bool:
        """Whether there is any cap, its own or a parent's."""
        return any(cap is not None for parent in self.with_parents() for cap in (*parent.caps, *parent.per_call))

    @property
    def needs_price(self) -> bool:
        """Whether there is a cap in dollars, its own or a parent's."""
        return any(parent.caps.usd is not None or parent.per_call.usd is not None for parent in self.with_parents())

    @property
    def spent_usd(self) -> Decimal:
        return self._spent.usd

    @property
    def spent_tokens(self) -> int:
        return self._spent.tokens

    @property
    def unseen_usd(self) -> Decimal:
        """What calls that were cut off may have cost in addition to what was seen."""
        return self._unseen.usd

    @property
    def unseen_tokens(self) -> int:
        return self._unseen.tokens

    @property
    def reserved_usd(self) -> Decimal:
        """The worst case of all calls in progress."""
        return self._reserved.usd

    @property
    def reserved_tokens(self) -> int:
        return self._reserved.tokens

    @property
    def exhausted(self) -> CapReached | None:
        """The cap that is used up, its own or a parent's: no further call may start."""
        return next(filter(None, (parent._used().reaches(parent.caps) for parent in self.with_parents())), None)

    def charge(self, spend: Spend) -> None:
        """Count what was spent in another process, before a run was resumed."""
        for account in self.with_parents():
            account._spent = account._spent.plus(_known(spend))

    async def reserve(self, worst: WorstCase, *, model: str | None = None) -> Reservation:
        """Reserve the worst case of a call, or raise a `BudgetRefusal`; `model` is for its message.

        Waits, first come first served, while only the reservations of other calls are in the way.
        """
        self._check_call(worst, model)
        if self._may_start():
            return self._take(worst)
        waiter = _Waiter(self, worst, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        try:
            return await waiter.reservation
        except asyncio.CancelledError:
            _cancel(waiter)
            raise

    def with_parents(self) -> Iterator[Account]:
        """Yield this account, its parent, and so on."""
        account: Account | None = self
        while account:
            yield account
            account = account.parent

    def _check_call(self, worst: WorstCase, model: str | None) -> None:
        """Refuse a call that could never start, however long it waits."""
        for account in self.with_parents():
            if worst.usd is None and (account.caps.usd is not None or account.per_call.usd is not None):
                raise PriceUnknown(account.name, model)
            if reached := worst.over(account.per_call):
                self._mark_exceeded(account)
                raise CallOverCap(account.name, *reached)

    def _may_start(self) -> bool:
        """Whether a call may start now. Raises `BudgetSpent` if no further call may."""
        for account in self.with_parents():
            if reached := account._used().reaches(account.caps):
                self._mark_exceeded(account)
                raise BudgetSpent(account.name, *reached)
        return not any(parent._used().plus(parent._reserved).reaches(parent.caps) for parent in self.with_parents())

    def _used(self) -> _Amount:
        return self._spent.plus(self._unseen)

    def _mark_exceeded(self, refusing: Account) -> None:
        for account in self.with_parents():
            account.exceeded = True
            if account is refusing:
                return

    def _take(self, worst: WorstCase) -> Reservation:
        for account in self.with_parents():
            account._reserved = account._reserved.plus(_known(worst))
        return Reservation(self, worst)

    def _give_back(self, worst: WorstCase, spend: Spend, unseen: _Amount) -> None:
        for account in self.with_parents():
            account._reserved = account._reserved.minus(_known(worst))
            account._spent = account._spent.plus(_known(spend))
            account._unseen = account._unseen.plus(unseen)
            if account._used().exceeds(account.caps) or _known(spend).plus(unseen).exceeds(account.per_call):
                self._mark_exceeded(account)
        self._serve_waiting()

    def _serve_waiting(self) -> None:
        """Start the waiting calls that may start now, in order, and refuse those that never may."""
        for waiter in list(self._waiting):
            if waiter.reservation.done():  # cancelled, and not yet removed
                continue
            try:
                if waiter.account._may_start():
                    waiter.reservation.set_result(waiter.account._take(waiter.worst))
            except BudgetSpent as refusal:
                waiter.reservation.set_exception(refusal)
        self._waiting[:] = [waiter for waiter in self._waiting if not waiter.reservation.done()]


class Reservation:
    """The amount set aside for one call, until `settle` or `release`."""

    def __init__(self, account: Account, worst: WorstCase) -> None:
        self._account, self._worst = account, worst
        self._open = True

    def settle(self, spend: Spend, *, unseen: Spend = _NOTHING) -> None:
        """Replace the reservation by `spend`, and by `unseen`, which the call may have used in addition. Only once."""
        if not self._open:
            raise RuntimeError(f"this call of {self._account.name} is already settled")
        self._open = False
        self._account._give_back(self._worst, spend, _unseen(self._worst, spend, unseen))

    def release(self) -> None:
        """Release the reservation of a call that used nothing. Do nothing after `settle`, for use in `finally`."""
        if self._open:
            self._open = False
            self._account._give_back(self._worst, _NOTHING, _Amount())


def _cancel(waiter: _Waiter) -> None:
    """Remove a cancelled call from the queue; it may have got its reservation at the same moment."""
    if waiter in waiter.account._waiting:
        waiter.account._waiting.remove(waiter)
    if not waiter.reservation.cancelled() and waiter.reservation.exception() is None:
        waiter.reservation.result().release()
