"""How much of an agent's requests may lie in our memory: what it keeps us from forgetting is not in its own limits."""

from __future__ import annotations

MOST_BYTES = 256 * 1024 * 1024
"""Of one key. A prompt of a million characters, asked forty times at once, is a sixth of it."""
MOST_CONNECTIONS = 512
"""At one door of a sandbox. Each costs a descriptor of ours."""


class TooMuchError(Exception):
    """More than may be held."""


class Held:
    """Bytes of requests that have arrived and are not sent on yet."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self.bytes = 0
        self._most = most

    def take(self, size: int) -> None:
        if self.bytes + size > self._most:
            raise TooMuchError
        self.bytes += size

    def give_back(self, size: int) -> None:
        self.bytes -= size
