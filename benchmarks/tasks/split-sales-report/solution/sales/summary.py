"""From sales to totals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from decimal import Decimal

from sales.model import RegionTotal, Sale, Summary


def summarise(sales: Iterable[Sale], skipped: int = 0) -> Summary:
    """Totals per region, the highest revenue first."""
    by_region: defaultdict[str, list[Sale]] = defaultdict(list)
    for sale in sales:
        by_region[sale.region].append(sale)
    regions = [_total(region, those) for region, those in by_region.items()]
    regions.sort(key=lambda total: (-total.revenue, total.region))
    return Summary(regions, sum(each.quantity for each in regions), _sum(each.revenue for each in regions), skipped)


def _total(region: str, sales: list[Sale]) -> RegionTotal:
    products: defaultdict[str, Decimal] = defaultdict(Decimal)
    for sale in sales:
        products[sale.product] += sale.revenue
    best = min(products, key=lambda name: (-products[name], name))
    return RegionTotal(region, sum(sale.quantity for sale in sales), _sum(products.values()), best)


def _sum(amounts: Iterable[Decimal]) -> Decimal:
    return sum(amounts, Decimal(0))
