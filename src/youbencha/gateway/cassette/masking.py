"""Secrets out of the texts of requests and answers. Pure.

What JSON can say, Python can hold, but not always write: half a surrogate pair must pass here too.
"""

from __future__ import annotations

from youbencha.gateway.cassette.deltas import Span
from youbencha.process import Redactor

_HALVES = "surrogatepass"


def masked(text: str, redactor: Redactor) -> str:
    return masked_bytes(text.encode("utf-8", _HALVES), redactor).decode("utf-8", _HALVES)


def masked_bytes(data: bytes, redactor: Redactor) -> bytes:
    stream = redactor.stream()
    return stream.feed(data) + stream.finish()


def secrets_in(text: str, redactor: Redactor) -> list[Span]:
    """Where they are, for a text that stands in pieces."""
    data = text.encode("utf-8", _HALVES)
    spans, position = [], 0
    while (match := redactor.next_match(data, position)) is not None:
        start, end = (len(data[:at].decode("utf-8", _HALVES)) for at in match.span())
        spans.append(Span(start, end, masked_bytes(match.group(), redactor).decode()))
        position = match.end()
    return spans
