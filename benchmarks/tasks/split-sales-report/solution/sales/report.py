"""The report: a file in, a text out."""

from __future__ import annotations

from os import PathLike

from sales.reading import read_sales
from sales.renderers import RENDERERS
from sales.summary import summarise


def sales_report(path: str | PathLike[str], fmt: str = "text", region: str | None = None) -> str:
    with open(path, encoding="utf-8", newline="") as file:
        sales, skipped = read_sales(file)
    if fmt not in RENDERERS:
        raise ValueError(f"unknown format: {fmt}")
    if region is not None:
        sales = [sale for sale in sales if sale.region.lower() == region.strip().lower()]
    return RENDERERS[fmt](summarise(sales, skipped))
