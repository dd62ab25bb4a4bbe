"""From the lines of a file to sales."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from datetime import date
from decimal import Decimal, InvalidOperation

from sales.model import Sale


def read_sales(lines: Iterable[str]) -> tuple[list[Sale], int]:
    """The sales, and how many lines could not be read. A header, comments and empty lines do not count."""
    sales: list[Sale] = []
    skipped = 0
    for number, row in enumerate(csv.reader(lines)):
        if _is_no_sale(number, row):
            continue
        sale = _sale(row)
        if sale is None:
            skipped += 1
        else:
            sales.append(sale)
    return sales, skipped


def _is_no_sale(number: int, row: list[str]) -> bool:
    return not row or row[0].startswith("#") or (number == 0 and row[0].strip().lower() == "region")


def _sale(row: list[str]) -> Sale | None:
    try:
        region, product, quantity, price, day = row[:5]
        sale = Sale(
            region=region.strip().title(),
            product=product.strip(),
            quantity=int(quantity),
            unit_price=Decimal(price.strip().replace("€", "").strip()),
            day=date.fromisoformat(day.strip()),
        )
    except (ValueError, InvalidOperation):
        return None
    return sale if sale.quantity > 0 and sale.unit_price.is_finite() else None
