"""What a call costs, and what it may cost at most."""

from youbencha.gateway.prices.prices import Prices

__all__ = ["Prices"]
