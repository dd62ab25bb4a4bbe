"""Which headers go on to the other side, and which belong to one connection or to one key. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

_HOP_BY_HOP = {
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
    "transfer-encoding", "upgrade", "expect",
}  # fmt: skip
_NOT_SENT = _HOP_BY_HOP | {
    "host", "content-length", "authorization", "x-api-key", "x-goog-api-key", "cookie", "accept-encoding",
}  # fmt: skip
_NOT_RETURNED = _HOP_BY_HOP | {"set-cookie", "alt-svc", "strict-transport-security", "content-length", "date", "server"}
_ORDERS = "x-litellm-"
"""For a LiteLLM that may stand behind: how often to try, and the like. What it does by itself is not metered."""
_READABLE = ("gzip", "deflate")
"""Encodings that the meter can read too."""


Headers = list[tuple[str, str]]
"""Pairs, since a name may come more than once."""


def sent_on(headers: Headers, *, decoded: bool, secret: str) -> Headers:
    """What the provider gets of the client's headers. `decoded`: the body no longer has the encoding it came in.

    No header goes on that holds a virtual key, whatever its name: `secret` is how all of them begin.
    """
    kept = _NOT_SENT | _of_connection(headers) | ({"content-encoding"} if decoded else set())
    return [
        (name, value)
        for name, value in headers
        if name.lower() not in kept and not name.lower().startswith(_ORDERS) and secret not in value
    ]


def accepted_encoding(accepted: str) -> str:
    """As much of what the client accepts as can be metered; the answer's bytes go to it untouched."""
    words = {part.partition(";")[0].strip().lower() for part in accepted.split(",")}
    return ", ".join(name for name in _READABLE if name in words) or "identity"


def returned(headers: Headers) -> Headers:
    """What the client gets of the provider's headers: rate limits, request ids and all."""
    kept = _NOT_RETURNED | _of_connection(headers)
    return [(name, value) for name, value in headers if name.lower() not in kept]


def _of_connection(headers: Headers) -> set[str]:
    """What `Connection` names is for the next one in the chain alone."""
    said = (value for name, value in headers if name.lower() == "connection")
    return {word.strip().lower() for value in said for word in value.split(",")}


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """In seconds, if it is said so. The other form, a date, is passed on but not understood here."""
    value = headers.get("retry-after", "").strip()
    return float(value) if re.fullmatch(r"\d{1,9}(?:\.\d+)?", value) else None
