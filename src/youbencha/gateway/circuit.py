"""A provider that fails again and again is left alone for a while. Pure: the clock is the caller's."""

from __future__ import annotations

FAILURES = 6
"""In a row. CLIs try ten times, with growing pauses: minutes that lead nowhere."""
OPEN_S = 30.0


class Circuit:
    """Closed: requests go through. Open: they do not. After a while, one is let through to see."""

    def __init__(self, *, failures: int = FAILURES, open_s: float = OPEN_S) -> None:
        self.opened = 0
        """How often it opened."""
        self._limit = failures
        self._open_s = open_s
        self._in_a_row = 0
        self._until: float | None = None
        self._probing = False

    def wait_s(self, now: float) -> float:
        """How long to stay away; 0 if a request may go through."""
        if self._until is None:
            return 0.0
        if now >= self._until and not self._probing:
            self._probing = True  # one alone: if all rushed in at once, a provider that recovers would fall again
            return 0.0
        return max(self._until - now, 1.0)

    def succeeded(self) -> None:
        self._in_a_row, self._until, self._probing = 0, None, False

    def failed(self, now: float) -> None:
        self._in_a_row += 1
        if self._in_a_row < self._limit and not self._probing:
            return
        if self._until is None or self._probing:
            self.opened += 1
        self._until, self._probing = now + self._open_s, False

    def undecided(self) -> None:
        """A request ended in a way that tells nothing of the provider (its client left)."""
        self._probing = False

    @property
    def is_open(self) -> bool:
        return self._until is not None
