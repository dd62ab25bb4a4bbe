"""The public price list, genai-prices, read from a small table in the user's cache directory.

Importing genai-prices takes 150 to 250 ms, nearly all of it for an HTTP client and pydantic models that no price needs.
So the first call that is priced after an install or an upgrade copies the prices of our providers into a JSON file,
named after the version of genai-prices; later runs read that file. Nothing is fetched.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import date
from decimal import Decimal
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from youbencha.errors import YouBenchaError
from youbencha.gateway.api import Provider
from youbencha.user_dirs import default_cache_dir

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice, TieredPrices

_FORMAT = 1
"""Of the table. To be raised when `_made_table` changes, so that no table of another format is read."""
_LIST_OF: Mapping[Provider, str] = {"anthropic": "anthropic", "openai": "openai", "gemini": "google"}
_VERSION = re.compile(
    r"""(?: [-@]\d{8}           # claude-opus-4-5-20251101
      | -\d{4}-\d{2}-\d{2}      # gpt-5-2025-08-07
      | -\d{2}-(?:\d{2}|\d{4})  # gemini-2.5-pro-preview-05-06
      | -\d{3}                  # gemini-2.0-flash-001
      | -latest | -preview | -exp | -customtools
    )$""",
    re.VERBOSE,
)
"""What may follow a model's name and mean the same model."""
_COMPACT_DATE = re.compile(r"-(20\d{6})(?=-|:|$)")


class Tier(NamedTuple):
    """A price for a million tokens, in a request with more than `above` tokens of input. The base price has -1."""

    above: int
    usd: Decimal


class ListedPrices(NamedTuple):
    """A model's prices by kind of token, in ascending tiers. Empty: that kind has no price of its own."""

    input: tuple[Tier, ...]
    output: tuple[Tier, ...]
    cache_read: tuple[Tier, ...]
    cache_write: tuple[Tier, ...]
    cache_write_1h: tuple[Tier, ...]


class _Model(NamedTuple):
    match: Mapping[str, Any]
    """The list's rule for the names of this model, see `_matches`."""
    prices: tuple[tuple[str, ListedPrices], ...]
    """Each with the date that it starts on; "" for one that was always valid."""

    def prices_on(self, day: str) -> ListedPrices | None:
        """The last that has started, else the first."""
        started = [prices for start, prices in self.prices if start <= day]
        return started[-1] if started else next((prices for _, prices in self.prices), None)


_Models = Mapping[str, Sequence[_Model]]
"""By the list's name of the provider."""


class PriceList:
    """Loaded at its first use, which blocks: code in an event loop calls `load` in a thread beforehand."""

    def __init__(self, cache_dir: Path | None = None) -> None:
        """The table is kept below `cache_dir`, by default the user's cache directory."""
        self._cache_dir = cache_dir
        self._loading = Lock()
        self._models: _Models | None = None
        self._model = lru_cache(maxsize=1024)(self._find_model)

    @property
    def is_loaded(self) -> bool:
        return self._models is not None

    def load(self) -> _Models:
        """Takes a few milliseconds, or a quarter of a second where the table has to be made first."""
        with self._loading:
            if self._models is None:
                self._models = _load(_table_file(self._cache_dir))
            return self._models

    def prices(self, provider: Provider, name: str, day: date) -> ListedPrices | None:
        """The prices of a model on that day. None for a name that is not on the list."""
        model = self._model(provider, name.lower())
        return model.prices_on(day.isoformat()) if model else None

    def _find_model(self, provider: Provider, name: str) -> _Model | None:
        """On the provider's own list, or else on another's: behind LiteLLM, one API serves the models of all."""
        models = self._models or self.load()
        for each in (provider, *(other for other in _LIST_OF if other != provider)):
            model = _first_match(models[_LIST_OF[each]], name)
            if model and _is_named(model, name):
                return model
        return None


@cache
def installed_version() -> str:
    """The version of genai-prices, found without importing it (importlib.metadata takes 10 to 60 ms)."""
    spec = find_spec("genai_prices")
    if spec and spec.origin:
        found = list(Path(spec.origin).parent.parent.glob("genai_prices-*.dist-info"))
        if len(found) == 1:
            return found[0].stem.partition("-")[2]
    from importlib.metadata import version

    return version("genai-prices")


# -- names -----------------------------------------------------------------------------------------------------


def _first_match(models: Sequence[_Model], name: str) -> _Model | None:
    """As genai-prices does it: the first model whose rule fits, and a compact date may be one with dashes."""
    spellings = dict.fromkeys((name, _COMPACT_DATE.sub(_with_dashes, name)))
    return next((model for each in spellings for model in models if _matches(model.match, each)), None)


def _with_dashes(compact: re.Match[str]) -> str:
    try:
        return f"-{date.fromisoformat(compact[1])}"
    except ValueError:  # eight digits that are not a date
        return compact[0]


def _is_named(model: _Model, name: str) -> bool:
    """Whether this is the model's name, with a version at most.

    The list's rules go by how names begin: `claude-opus-4-50` and `claude-3-haiku-ours` fit. That would be a guess.
    """
    while not _is_full_name(model, name):
        shorter = _VERSION.sub("", name)
        if shorter == name:
            return False
        name = shorter
    return True


def _is_full_name(model: _Model, name: str) -> bool:
    """A name that a rule spells out no longer fits when a letter is missing at either end."""
    return _matches(model.match, name) and not any(_matches(model.match, part) for part in (name[:-1], name[1:]))


def _matches(rule: Mapping[str, Any], name: str) -> bool:
    """Whether the name, in lower case, fits one of genai-prices' rules. A rule of an unknown kind fits no name."""
    ((kind, value),) = rule.items()
    match kind:
        case "equals":
            return bool(name == value.lower())
        case "starts_with":
            return name.startswith(value.lower())
        case "ends_with":
            return name.endswith(value.lower())
        case "contains":
            return value.lower() in name
        case "regex":
            return re.search(value, name) is not None
        case "or_":
            return any(_matches(each, name) for each in value)
        case "and_":
            return all(_matches(each, name) for each in value)
        case _:
            return False


# -- the table -------------------------------------------------------------------------------------------------


def _table_file(cache_dir: Path | None) -> Path | None:
    """None where the user has no home directory: then there is no place to keep it."""
    try:
        return (cache_dir or default_cache_dir()) / "prices" / f"genai-prices-{installed_version()}-{_FORMAT}.json"
    except RuntimeError:
        return None


def _load(file: Path | None) -> _Models:
    """Reads the table. One that is missing or damaged is made, and kept if possible."""
    if file:
        with suppress(OSError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            return _parsed(orjson.loads(file.read_bytes()))
    table = _made_table()
    if file:
        _save(file, orjson.dumps(table))
    return _parsed(table)


def _save(file: Path, data: bytes) -> None:
    """Does nothing where the directory cannot be written to: the table is then made in each process."""
    from youbencha.files import write_atomically

    with suppress(OSError, YouBenchaError):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, data)


def _parsed(table: Mapping[str, Any]) -> _Models:
    return {name: [_parsed_model(row) for row in table[name]] for name in _LIST_OF.values()}


def _parsed_model(row: Mapping[str, Any]) -> _Model:
    prices = ((str(each["from"]), _parsed_prices(each)) for each in row["prices"])
    return _Model(dict(row["match"]), tuple(prices))


def _parsed_prices(row: Mapping[str, Any]) -> ListedPrices:
    return ListedPrices(*(_parsed_tiers(row[kind]) for kind in ListedPrices._fields))


def _parsed_tiers(rows: Sequence[tuple[int, str]]) -> tuple[Tier, ...]:
    return tuple(Tier(int(above), Decimal(usd)) for above, usd in rows)


def _made_table() -> dict[str, Any]:
    from genai_prices.data_snapshot import get_snapshot

    providers = {each.id: each for each in get_snapshot().providers}
    return {name: [_model_row(model) for model in providers[name].models] for name in _LIST_OF.values()}


def _model_row(model: ModelInfo) -> dict[str, Any]:
    return {"match": asdict(model.match), "prices": _price_rows(model)}


def _price_rows(model: ModelInfo) -> list[dict[str, Any]]:
    """A model with prices that depend on anything but a date gets none: unknown is better than wrong."""
    from genai_prices.types import StartDateConstraint

    if not isinstance(model.prices, list):
        return [_price_row("", model.prices)]
    rows = []
    for each in model.prices:
        if isinstance(each.constraint, StartDateConstraint):
            rows.append(_price_row(each.constraint.start_date.isoformat(), each.prices))
        elif each.constraint is None:
            rows.append(_price_row("", each.prices))
        else:
            return []
    return rows


def _price_row(start: str, prices: ModelPrice) -> dict[str, Any]:
    return {"from": start} | {kind: _tier_rows(getattr(prices, f"{kind}_mtok")) for kind in ListedPrices._fields}


def _tier_rows(price: Decimal | TieredPrices | None) -> list[tuple[int, str]]:
    if price is None:
        return []
    if isinstance(price, Decimal):
        return [(-1, str(price))]
    return [(-1, str(price.base)), *((tier.start, str(tier.price)) for tier in price.tiers)]
