"""Mask real keys in answers: an upstream may repeat one in an error, a header or a stream. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable

_SHORTEST = 8
"""Shorter keys (`none`, `no-key`) are placeholders, and words of ordinary text."""


class KeyMask:
    """Replaces each character of a key by `*`, also if the key is split over several chunks."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._keys = [key.encode() for key in keys if len(key) >= _SHORTEST]
        self._pattern = re.compile(b"|".join(map(re.escape, self._keys)) or b"(?!)")
        self._held = b""

    def text(self, text: str) -> str:
        return self.all(text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")

    def all(self, data: bytes) -> bytes:
        return self._pattern.sub(lambda found: b"*" * len(found[0]), data)

    def feed(self, chunk: bytes) -> bytes:
        """Return what can be sent: not the end of a chunk that may be the beginning of a key. Then feed b""."""
        data = self.all(self._held + chunk)
        begun = 0
        if chunk and not data.endswith((b"\n", b"}", b'"')):  # no key contains these
            begun = max((n for key in self._keys for n in range(1, len(key)) if data.endswith(key[:n])), default=0)
        ready = len(data) - begun
        self._held = data[ready:]
        return data[:ready]
