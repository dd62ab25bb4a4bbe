"""Why the gateway refuses a request instead of sending it to the provider. Each API has its own format for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Reason = Literal[
    "key_missing",
    "key_unknown",
    "key_expired",
    "key_foreign",
    "not_allowed",
    "not_found",
    "too_large",
    "unreadable",
    "not_metered",
    "no_upstream",
    "budget_exceeded",
    "call_over_cap",
    "price_unknown",
    "circuit_open",
    "upstream_unreachable",
    "not_recorded",
]

STATUS: Mapping[Reason, int] = {
    "key_missing": 401,
    "key_unknown": 401,
    "key_expired": 401,
    "key_foreign": 401,
    "not_allowed": 403,
    "not_found": 404,
    "too_large": 413,
    "unreadable": 400,
    "not_metered": 400,
    "no_upstream": 400,
    # Measured: at 402 the CLIs stop at once (but see the responses API); at 429 they would wait and retry.
    "budget_exceeded": 402,
    "call_over_cap": 402,
    "price_unknown": 400,
    "circuit_open": 503,
    "upstream_unreachable": 502,
    "not_recorded": 400,
}

_TEMPORARY: frozenset[Reason] = frozenset({"upstream_unreachable"})
"""A single lost connection must not end a trial; after more, the circuit opens."""


class Refusal(Exception):
    """The gateway refuses a request, instead of sending it to the provider."""

    def __init__(self, reason: Reason, message: str, *, account: str | None = None) -> None:
        """`account` is that of the budget that refuses it."""
        super().__init__(message)
        self.reason: Reason = reason
        self.message = message
        self.account = account

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the answer. The SDKs of Anthropic and OpenAI check `x-should-retry` before the status."""
        final = {} if self.reason in _TEMPORARY else {"x-should-retry": "false"}
        return {"Content-Type": "application/json", **final}
