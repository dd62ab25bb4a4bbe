"""Hold back requests to a provider that keeps failing. No I/O."""

from __future__ import annotations

FAILURES = 6
"""Consecutive failures after which it opens. CLIs retry ten times with growing pauses, which takes minutes."""

OPEN_S = 30.0

_MAX_REQUESTS = 100
"""After this many different ones have failed, the provider has."""


class Circuit:
    """A circuit breaker for one key and one provider.

    While it is open, requests are refused, except for one from time to time as a probe.
    """

    def __init__(self, *, failures: int = FAILURES, open_s: float = OPEN_S) -> None:
        self._failed_requests: set[int] | None = set()
        """The requests that failed, in case that is their fault; None if it is not."""
        self._limit = failures
        self._open_s = open_s
        self._in_a_row = 0
        self._until: float | None = None
        self._probing = False

    def wait_s(self, now: float, request: int | None = None) -> float:
        """Return how long to wait; 0 if a request may be sent.

        One that has not failed yet may be sent if the failures may be the fault of the requests: otherwise, a client
        could end the whole session by a few odd ones.
        """
        if self._until is None:
            return 0.0
        if request is not None and self._failed_requests is not None and request not in self._failed_requests:
            return 0.0
        if now >= self._until and not self._probing:
            self._probing = True  # only one, because all together could overload a recovering provider
            return 0.0
        return max(self._until - now, 1.0)

    def succeeded(self) -> None:
        self._in_a_row, self._until, self._probing = 0, None, False
        self._failed_requests = set()

    def failed(self, now: float, request: int | None = None) -> None:
        """Note a failure. `request` identifies one that may have caused it."""
        self._in_a_row += 1
        if request is None or (self._failed_requests and len(self._failed_requests) >= _MAX_REQUESTS):
            self._failed_requests = None
        elif self._failed_requests is not None:
            self._failed_requests.add(request)
        if self._in_a_row < self._limit and not self._probing:
            return
        self._until, self._probing = now + self._open_s, False

    def undecided(self) -> None:
        """A request neither succeeded nor failed because of the provider; for example, its client disconnected."""
        self._probing = False

    @property
    def is_open(self) -> bool:
        return self._until is not None
