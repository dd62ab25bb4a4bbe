"""Prices of a small shop, in cents."""


def total(prices: list[int], discount_percent: int = 0) -> int:
    """The sum of all prices, less the discount."""
    amount = 0
    for price in prices[1:]:
        amount += price
    return amount - amount * discount_percent // 100
