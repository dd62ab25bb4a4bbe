"""The keys, budgets and prices that `yb gateway` is given. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from youbencha.errors import YouBenchaError

if TYPE_CHECKING:
    from youbencha.gateway.model import Caps
    from youbencha.spec.gateway import ModelPrice

DEFAULT_KEY = "default"
_KEY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LIKE_A_KEY = re.compile(r"(?:sk|pk|rk)[-_]|AIza|eyJ")
_DOLLARS = re.compile(r"\d{1,12}(?:\.\d{1,12})?|\.\d{1,12}", re.ASCII)


def keys_given(written: Sequence[str]) -> dict[str, Caps]:
    """`--key NAME[=BUDGET_USD]`, in the order of the command line."""
    from youbencha.gateway.model import Caps

    found: dict[str, Caps] = {}
    for each in written or [DEFAULT_KEY]:
        name, equals, budget = each.partition("=")
        if _LIKE_A_KEY.match(name):  # not shown: it would be in every line, and in the ledger
            raise _wrong("KEY", "--key takes a name, and this looks like a key", "Name it as you like: --key alice=2.5")
        if not _KEY_NAME.fullmatch(name):
            raise _wrong("KEY", f"--key {each}: not a name", "Letters, digits, `.`, `_` and `-`, at most 64 of them.")
        if name in found:
            raise _wrong("KEY", f"--key {name} is given twice", "Each key has a name of its own.")
        found[name] = Caps(usd=dollars_given("--key", each, budget) if equals else None)
    return found


def dollars_given(option: str, written: str, amount: str) -> Decimal:
    if not _DOLLARS.fullmatch(amount):
        raise _wrong("BUDGET", f"{option} {written}: not an amount of dollars", "Write it as 2 or 0.25.")
    return Decimal(amount)


def prices_given(written: Sequence[str]) -> dict[str, ModelPrice]:
    """`--price MODEL=IN/OUT[/CACHE_READ/CACHE_WRITE]`. A model's name may hold `=` and `/` itself."""
    from youbencha.spec.gateway import ModelPrice

    found: dict[str, ModelPrice] = {}
    for each in written:
        model, _, amounts = each.rpartition("=")
        parts = amounts.split("/")
        if not model or len(parts) not in (2, 4) or not all(map(_DOLLARS.fullmatch, parts)):
            hint = "Write MODEL=IN/OUT or MODEL=IN/OUT/CACHE_READ/CACHE_WRITE, in dollars for a million tokens."
            raise _wrong("PRICE", f"--price {each}: not a price", hint)
        if model in found:
            raise _wrong("PRICE", f"--price {model} is given twice", "One price for each model.")
        names = ("input", "output", "cache_read", "cache_write")
        found[model] = ModelPrice(**dict(zip(names, map(float, parts), strict=False)))
    return found


def _wrong(what: str, message: str, hint: str) -> YouBenchaError:
    return YouBenchaError(f"{what}_INVALID", message, hint=hint)
