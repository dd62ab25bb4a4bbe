"""Which headers go on to the other side, and which belong to one connection or to one key. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_HOP_BY_HOP = {
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
    "transfer-encoding", "upgrade", "expect",
}  # fmt: skip
_NOT_SENT = _HOP_BY_HOP | {
    "host", "content-length", "authorization", "x-api-key", "x-goog-api-key", "cookie", "accept-encoding",
}  # fmt: skip
_NOT_RETURNED = _HOP_BY_HOP | {"set-cookie", "alt-svc", "strict-transport-security", "content-length", "date", "server"}
_READABLE = ("gzip", "deflate")
"""Encodings that the meter can read too."""


def sent_on(headers: Iterable[tuple[str, str]], *, decoded: bool) -> dict[str, str]:
    """What the provider gets of the client's headers. `decoded`: the body no longer has the encoding it came in."""
    sent = {name: value for name, value in headers if name.lower() not in _NOT_SENT}
    if decoded:
        sent = {name: value for name, value in sent.items() if name.lower() != "content-encoding"}
    return sent


def accepted_encoding(accepted: str) -> str:
    """As much of what the client accepts as can be metered; the answer's bytes go to it untouched."""
    words = {part.partition(";")[0].strip().lower() for part in accepted.split(",")}
    return ", ".join(name for name in _READABLE if name in words) or "identity"


def returned(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """What the client gets of the provider's headers: rate limits, request ids and all."""
    return {name: value for name, value in headers if name.lower() not in _NOT_RETURNED}


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """In seconds, if it is said so. The other form, a date, is passed on but not understood here."""
    value = headers.get("retry-after", "").strip()
    return float(value) if re.fullmatch(r"\d{1,9}(?:\.\d+)?", value) else None
