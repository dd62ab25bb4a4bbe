"""What the wire said of one call."""

from __future__ import annotations

from typing import NamedTuple

from youbencha.log.tokens import Tokens


class Metered(NamedTuple):
    tokens: Tokens = Tokens()
    """`input` without the cached ones, whichever way the API counts. None: the wire did not say."""
    model: str | None = None
    """As the answer names it."""
    complete: bool = False
    """The answer came to its end, with its final counts. If not, `tokens` are a lower bound."""
    cache_creation_1h: int = 0
    """Those of `cache_creation` that are kept for an hour, and cost more."""
    output_bytes: int = 0
    """Of text, thoughts and tools' arguments in the answer: no token is less than a byte, so a bound for `output`."""
    error: str | None = None
    """The type of an error that came in the middle of the answer."""
