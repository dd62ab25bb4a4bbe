"""The public price list, genai-prices, read from a small table in the user's cache directory.

Importing genai-prices takes 150 to 250 ms, nearly all of it for an HTTP client and pydantic models that prices do not
need. So the first priced call after an install or an upgrade copies the prices of our providers into a JSON file, named
after the version of genai-prices; later runs read that file. Nothing is downloaded.
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

from youbencha.files import replace_file
from youbencha.gateway.api import Provider
from youbencha.user_dirs import Cache, default_cache_dir

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice, TieredPrices

_FORMAT = 3
"""The version of the table's format. Increase it when `_make_table` changes."""
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
"""Suffixes of a model's name that mean the same model."""
_COMPACT_DATE = re.compile(r"-(20\d{6})(?=-|:|$)")


class Tier(NamedTuple):
    """A price for a million tokens, in a request with more than `above` tokens of input. The base price has -1."""

    above: int
    usd: Decimal


class ListedPrices(NamedTuple):
    """A model's prices by kind of token, in ascending tiers. Empty if a kind has no separate price."""

    input: tuple[Tier, ...]
    output: tuple[Tier, ...]
    cache_read: tuple[Tier, ...]
    cache_write: tuple[Tier, ...]
    cache_write_1h: tuple[Tier, ...]
    extras: Mapping[str, Decimal]
    """By the names in `EXTRAS`, as far as they are listed."""


TOKEN_KINDS = ListedPrices._fields[:-1]
EXTRAS: Mapping[str, str] = {
    **{f"{way}_{kind}": "mtok" for way in ("input", "output") for kind in ("audio", "image", "video")},
    "web_searches": "kcount",
    "storage_searches": "kcount",
}
"""Tokens that are not text, and searches by the provider: genai-prices' names, and the unit of their price."""


class _Model(NamedTuple):
    match: Mapping[str, Any]
    """The list's rule for the names of this model, see `_matches`."""
    prices: tuple[tuple[str, ListedPrices], ...]
    """Each with its start date; "" if it was always valid."""
    window: int | None
    """The most tokens of a request and its answer, if listed."""

    def prices_on(self, day: str) -> ListedPrices | None:
        """Return the last prices that have started, else the first."""
        started = [prices for start, prices in self.prices if start <= day]
        return started[-1] if started else next((prices for _, prices in self.prices), None)


_Models = Mapping[str, Sequence[_Model]]
"""By the list's name of the provider."""


class PriceList:
    """The price list, loaded on first use. That blocks, so code in an event loop first calls `load` in a thread."""

    def __init__(self, cache: Cache | None = None) -> None:
        """The table is stored in `cache`, by default the user's."""
        self._cache = cache or _users_cache()
        self._loading = Lock()
        self._models: _Models | None = None
        self._model = lru_cache(maxsize=1024)(self._find_model)

    @property
    def is_loaded(self) -> bool:
        return self._models is not None

    def load(self) -> _Models:
        """Load the list. This takes a few milliseconds, or a quarter of a second if the table must be created."""
        with self._loading:
            if self._models is None:
                self._models = _load(self._cache)
            return self._models

    def prices(self, provider: Provider, name: str, day: date) -> ListedPrices | None:
        """Return the prices of a model on that day. None if the name is not in the list."""
        model = self._model(provider, name.lower())
        return model.prices_on(day.isoformat()) if model else None

    def window(self, provider: Provider, name: str) -> int | None:
        """Return the size of a model's context window, in tokens. None if it is not in the list."""
        model = self._model(provider, name.lower())
        return model.window if model else None

    def _find_model(self, provider: Provider, name: str) -> _Model | None:
        """Search the provider's list, then the others: with LiteLLM, one API serves the models of all."""
        models = self._models or self.load()
        for each in (provider, *(other for other in _LIST_OF if other != provider)):
            model = _first_match(models[_LIST_OF[each]], name)
            if model and _is_named(model, name):
                return model
        return None


@cache
def installed_version() -> str:
    """Return the version of genai-prices without importing it (importlib.metadata takes 10 to 60 ms)."""
    spec = find_spec("genai_prices")
    if spec and spec.origin:
        found = list(Path(spec.origin).parent.parent.glob("genai_prices-*.dist-info"))
        if len(found) == 1:
            return found[0].stem.partition("-")[2]
    from importlib.metadata import version

    return version("genai-prices")


def _first_match(models: Sequence[_Model], name: str) -> _Model | None:
    """Return the first model whose rule fits, as genai-prices does. A date in the name may have dashes or not."""
    spellings = dict.fromkeys((name, _COMPACT_DATE.sub(_with_dashes, name)))
    return next((model for each in spellings for model in models if _matches(model.match, each)), None)


def _with_dashes(compact: re.Match[str]) -> str:
    try:
        return f"-{date.fromisoformat(compact[1])}"
    except ValueError:  # eight digits that are not a date
        return compact[0]


def _is_named(model: _Model, name: str) -> bool:
    """Whether this is exactly the model's name, except for a version.

    The list's rules match prefixes, so `claude-opus-4-50` and `claude-3-haiku-ours` would fit; their price is unknown.
    """
    while not _is_full_name(model, name):
        shorter = _VERSION.sub("", name)
        if shorter == name:
            return False
        name = shorter
    return True


def _is_full_name(model: _Model, name: str) -> bool:
    """Whether a rule matches the whole name: then it does not match without the first or last letter."""
    return _matches(model.match, name) and not any(_matches(model.match, part) for part in (name[:-1], name[1:]))


def _matches(rule: Mapping[str, Any], name: str) -> bool:
    """Whether the name, in lower case, matches a rule of genai-prices. An unknown kind of rule matches no name."""
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


def _users_cache() -> Cache | None:
    """The user's cache; None if the user has no home directory."""
    try:
        return Cache(default_cache_dir())
    except RuntimeError:
        return None


def _load(cache: Cache | None) -> _Models:
    """Read the table. If it is missing or damaged, create it, and store it if possible."""
    if cache is None:
        return _parsed(_make_table())
    file = cache.directory / "prices" / f"genai-prices-{installed_version()}-{_FORMAT}.json"
    with suppress(OSError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return _parsed(orjson.loads(file.read_bytes()))
    table = _make_table()
    with cache.writing():
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, orjson.dumps(table))
    return _parsed(table)


def _parsed(table: Mapping[str, Any]) -> _Models:
    return {name: [_parsed_model(row) for row in table[name]] for name in _LIST_OF.values()}


def _parsed_model(row: Mapping[str, Any]) -> _Model:
    prices = ((str(each["from"]), _parsed_prices(each)) for each in row["prices"])
    return _Model(dict(row["match"]), tuple(prices), row["window"])


def _parsed_prices(row: Mapping[str, Any]) -> ListedPrices:
    tiers = {kind: tuple(Tier(int(above), Decimal(usd)) for above, usd in row[kind]) for kind in TOKEN_KINDS}
    return ListedPrices(**tiers, extras={name: Decimal(usd) for name, usd in row["extras"].items()})


def _make_table() -> dict[str, Any]:
    from genai_prices.data_snapshot import get_snapshot

    providers = {each.id: each for each in get_snapshot().providers}
    return {name: [_model_row(model) for model in providers[name].models] for name in _LIST_OF.values()}


def _model_row(model: ModelInfo) -> dict[str, Any]:
    return {"match": asdict(model.match), "prices": _price_rows(model), "window": model.context_window}


def _price_rows(model: ModelInfo) -> list[dict[str, Any]]:
    """Convert a model's prices. If they depend on anything but a date, there are none: unknown is better than wrong."""
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
    rows = {kind: _tier_rows(getattr(prices, f"{kind}_mtok")) for kind in TOKEN_KINDS}
    extras = {name: _tier_rows(getattr(prices, f"{name}_{unit}")) for name, unit in EXTRAS.items()}
    return {"from": start, **rows, "extras": {name: tiers[-1][1] for name, tiers in extras.items() if tiers}}


def _tier_rows(price: Decimal | TieredPrices | None) -> list[tuple[int, str]]:
    if price is None:
        return []
    if isinstance(price, Decimal):
        return [(-1, str(price))]
    return [(-1, str(price.base)), *((tier.start, str(tier.price)) for tier in price.tiers)]
