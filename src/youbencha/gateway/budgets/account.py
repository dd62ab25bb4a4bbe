"""Accounts: what was spent, what is set aside for calls under way, and who has to wait.

A call is let through while something of every cap is left, counting the worst case of each call that is under way. So
the sum can pass a cap by one call's worst case at most, however many ask at once. One event loop, no locks: nothing
here awaits between looking and setting aside.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

from youbencha.gateway.budgets.amounts import NOTHING, Amount, Spend, Worst, known, unsure_of
from youbencha.gateway.budgets.refused import BudgetSpent, CallTooDear, PriceUnknown
from youbencha.gateway.model import NO_CAPS, Caps


class _Waiter(NamedTuple):
    account: Account
    worst: Worst
    turn: asyncio.Future[Reservation]


class Account:
    """Of a key, an agent, a run: what its parents have is spent with it."""

    def __init__(
        self, name: str, caps: Caps = NO_CAPS, *, per_call: Caps = NO_CAPS, parent: Account | None = None
    ) -> None:
        self.name, self.caps, self.per_call, self.parent = name, caps, per_call, parent
        self.exceeded = False
        """A request of this account was refused, for a cap of its own or of a parent."""
        self._spent = self._unsure = self._reserved = Amount()
        # One queue for the whole family, since a parent's caps make its children wait for each other.
        self._waiting: list[_Waiter] = parent._waiting if parent else []

    @property
    def is_capped(self) -> bool:
        """Whether any cap, its own or a parent's, has to be kept."""
        return any(cap is not None for each in self._family() for cap in (*each.caps, *each.per_call))

    @property
    def needs_price(self) -> bool:
        """Whether a cap in dollars, its own or a parent's, has to be kept."""
        return any(each.caps.usd is not None or each.per_call.usd is not None for each in self._family())

    @property
    def spent_usd(self) -> Decimal:
        return self._spent.usd

    @property
    def spent_tokens(self) -> int:
        return self._spent.tokens

    @property
    def unsure_usd(self) -> Decimal:
        """What calls may have cost beyond what was seen of them."""
        return self._unsure.usd

    @property
    def unsure_tokens(self) -> int:
        return self._unsure.tokens

    @property
    def reserved_usd(self) -> Decimal:
        """The worst case of all calls under way."""
        return self._reserved.usd

    @property
    def reserved_tokens(self) -> int:
        return self._reserved.tokens

    async def reserve(self, worst: Worst, *, model: str | None = None) -> Reservation:
        """Sets the worst case aside, once that can be done; `model` is for the message if it cannot.

        Waits while only calls under way are in the way; who came first goes first. Raises a `BudgetRefusal`.
        """
        self._check_call(worst, model)
        if self._free():
            return self._take(worst)
        waiter = _Waiter(self, worst, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        try:
            return await waiter.turn
        except asyncio.CancelledError:
            _forget(waiter)
            raise

    def _family(self) -> Iterator[Account]:
        """Itself, its parent, and so on."""
        account: Account | None = self
        while account:
            yield account
            account = account.parent

    def _check_call(self, worst: Worst, model: str | None) -> None:
        """What no waiting can change."""
        for account in self._family():
            if worst.usd is None and (account.caps.usd is not None or account.per_call.usd is not None):
                raise PriceUnknown(account.name, model)
            if reached := worst.beyond(account.per_call):
                self._mark_exceeded(account)
                raise CallTooDear(account.name, *reached)

    def _free(self) -> bool:
        """Whether a call may go now. Raises if no call may ever again."""
        for account in self._family():
            if reached := account._gone().reaches(account.caps):
                self._mark_exceeded(account)
                raise BudgetSpent(account.name, *reached)
        return not any(each._gone().plus(each._reserved).reaches(each.caps) for each in self._family())

    def _gone(self) -> Amount:
        return self._spent.plus(self._unsure)

    def _mark_exceeded(self, refusing: Account) -> None:
        for account in self._family():
            account.exceeded = True
            if account is refusing:
                return

    def _take(self, worst: Worst) -> Reservation:
        for account in self._family():
            account._reserved = account._reserved.plus(known(worst))
        return Reservation(self, worst)

    def _give_back(self, worst: Worst, spend: Spend, unsure: Amount) -> None:
        for account in self._family():
            account._reserved = account._reserved.minus(known(worst))
            account._spent = account._spent.plus(known(spend))
            account._unsure = account._unsure.plus(unsure)
        self._call_next()

    def _call_next(self) -> None:
        """Everybody who may go now goes, in their order; after it, nobody waits without need."""
        for waiter in list(self._waiting):
            if waiter.turn.done():  # cancelled, and not yet gone
                continue
            try:
                if waiter.account._free():
                    waiter.turn.set_result(waiter.account._take(waiter.worst))
            except BudgetSpent as refusal:
                waiter.turn.set_exception(refusal)
        self._waiting[:] = [waiter for waiter in self._waiting if not waiter.turn.done()]


class Reservation:
    """Set aside for one call. Ends with `settle`, or with `release`."""

    def __init__(self, account: Account, worst: Worst) -> None:
        self._account, self._worst = account, worst
        self._open = True

    def settle(self, spend: Spend, *, unsure: Spend = NOTHING) -> None:
        """The call took `spend`, and may have taken `unsure` beyond it. Once only."""
        if not self._open:
            raise RuntimeError(f"this call of {self._account.name} is accounted for already")
        self._open = False
        self._account._give_back(self._worst, spend, unsure_of(self._worst, spend, unsure))

    def release(self) -> None:
        """The call took nothing. Does nothing after `settle`, so it may stand in a `finally`."""
        if self._open:
            self._open = False
            self._account._give_back(self._worst, NOTHING, Amount())


def _forget(waiter: _Waiter) -> None:
    """Who waited is gone; the turn may have come in the same moment."""
    if waiter in waiter.account._waiting:
        waiter.account._waiting.remove(waiter)
    if not waiter.turn.cancelled() and waiter.turn.exception() is None:
        waiter.turn.result().release()
