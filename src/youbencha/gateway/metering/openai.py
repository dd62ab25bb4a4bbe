"""How OpenAI's two APIs count: the same, under other names. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from youbencha.gateway.metering.values import count, first_count, mapping
from youbencha.log.tokens import Tokens


def tokens_of(usage: Mapping[str, Any], *, read: str, written: str) -> Tokens:
    """`read` and `written` name the two counts. The cached tokens are a part of those read, here."""
    details = mapping(usage.get(f"{read}_details"))
    cached = first_count(details, "cached_tokens")
    kept = first_count(details, "cache_write_tokens", "cache_creation_tokens")
    return Tokens(
        input=without(count(usage.get(read)), cached, kept),
        output=count(usage.get(written)),
        cache_read=cached,
        cache_creation=kept,
    )


def without(whole: int | None, *parts: int | None) -> int | None:
    """A part larger than what is left cannot have been in it: some servers count the cached ones apart."""
    if whole is None:
        return None
    for part in parts:
        if part is not None and part <= whole:
            whole -= part
    return whole
