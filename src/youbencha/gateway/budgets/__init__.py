"""Money and tokens: set aside before a call is sent, and accounted for after it."""

from youbencha.gateway.budgets.account import Account, Reservation
from youbencha.gateway.budgets.amounts import Spend, Worst
from youbencha.gateway.budgets.refused import BudgetRefusal, BudgetSpent, CallTooDear, PriceUnknown

__all__ = [
    "Account",
    "BudgetRefusal",
    "BudgetSpent",
    "CallTooDear",
    "PriceUnknown",
    "Reservation",
    "Spend",
    "Worst",
]
