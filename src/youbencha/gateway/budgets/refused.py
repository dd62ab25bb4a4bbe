"""Why a call is not sent. Each of these is final: asking again does not help."""

from __future__ import annotations

from decimal import Decimal
from typing import ClassVar

from youbencha.errors import YouBenchaError
from youbencha.gateway.budgets.amounts import Kind
from youbencha.gateway.refusals import Reason


class BudgetRefusal(YouBenchaError):
    reason: ClassVar[Reason]
    """In one word, for the ledger and the wire."""

    def __init__(self, account: str, message: str) -> None:
        super().__init__(self.reason.upper(), message, context={"account": account})
        self.account = account


class BudgetSpent(BudgetRefusal):
    reason = "budget_exceeded"

    def __init__(self, account: str, kind: Kind, cap: Decimal | int, spent: Decimal | int) -> None:
        used = f"{_in_words(kind, spent)} of {_in_words(kind, cap)}"
        super().__init__(account, f"the budget is spent: {used} for {account}. Raise it to go on.")
        self.kind, self.cap, self.spent = kind, cap, spent


class CallTooDear(BudgetRefusal):
    reason = "call_too_dear"

    def __init__(self, account: str, kind: Kind, cap: Decimal | int, worst: Decimal | int) -> None:
        setting = {"usd": "budget_per_call_usd", "tokens": "tokens_per_call"}[kind]
        super().__init__(
            account,
            f"this call may take up to {_in_words(kind, worst)}, and a call of {account} may take"
            f" {_in_words(kind, cap)}. Limit the length of its answer, shorten what is sent, or raise"
            f" gateway.{setting}.",
        )
        self.kind, self.cap, self.worst = kind, cap, worst


class PriceUnknown(BudgetRefusal):
    """A cap that cannot be kept is not accepted."""

    reason = "price_unknown"

    def __init__(self, account: str, model: str | None) -> None:
        named = f"the model {model}" if model else "a model that the request does not name"
        super().__init__(
            account,
            f"{account} has a budget in dollars, and the price of {named} is not known. Add it to gateway.prices"
            " (`yb gateway --price`), or set the budget in tokens.",
        )
        self.model = model


def _in_words(kind: Kind, amount: Decimal | int) -> str:
    if kind == "tokens":
        return f"{amount:,} tokens"
    exact = f"{amount:f}"
    return f"${exact.rstrip('0').rstrip('.') if '.' in exact else exact}"
