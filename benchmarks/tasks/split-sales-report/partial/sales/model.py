"""Sales, and what they add up to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal


@dataclass(frozen=True)
class Sale:
    region: str
    product: str
    quantity: int
    unit_price: Decimal
    day: date

    @property
    def revenue(self) -> Decimal:
        return self.quantity * self.unit_price


@dataclass(frozen=True)
class RegionTotal:
    region: str
    quantity: int
    revenue: Decimal
    best_product: str


@dataclass(frozen=True)
class Summary:
    regions: list[RegionTotal]
    quantity: int
    revenue: Decimal
    skipped: int = 0
