"""Takes secrets out of everything that is written, also when a secret is split over two chunks.

Two kinds are known: the values of the environment given to the agent whose names sound secret (in the forms in
which they may be printed: plain, JSON, URL, base64), and the shapes of well-known keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from youbencha.process.secret import (
    LOOK_BACK,
    OPEN_SHAPE,
    SHAPE,
    SHAPES,
    TOKEN_CHARACTERS,
    TOKEN_RUN,
    printed_forms,
    secret_values,
)

MASK = b"[REDACTED]"

_SHORT = 512
_INDEXED = 48
_LONGEST_HELD = 4096
"""A token may grow for ever; past this it is masked, and what follows of it is swallowed."""


class Redactor:
    """Knows the secrets of one run. Immutable; make a `stream()` for each byte stream."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms = {form for secret in secrets for form in printed_forms(secret) if form}
        self._literals = tuple(sorted(forms, key=lambda form: (-len(form), form)))
        self._longest = max((len(form) for form in self._literals), default=0)
        self._begun = _beginnings(self._literals)
        self._heads = frozenset(form[0] for form in self._literals)
        alternatives = [re.escape(form) for form in self._literals]
        self._pattern = re.compile(b"|".join([*alternatives, b"(?P<shape>" + SHAPE + b")"]))
        self._needles = (*self._literals, *SHAPES)

    @classmethod
    def for_env(cls, *environments: Mapping[str, str]) -> Redactor:
        return _redactor(frozenset(value for env in environments for value in secret_values(env)))

    def text(self, text: str) -> str:
        data = text.encode("utf-8", "surrogateescape")
        if not self.may_hold_secret(data):
            return text
        stream = self.stream()
        return (stream.feed(data) + stream.finish()).decode("utf-8", "surrogateescape")

    def stream(self) -> RedactedStream:
        return RedactedStream(self)

    def next_match(self, data: bytes, start: int) -> re.Match[bytes] | None:
        return self._pattern.search(data, start)

    def may_hold_secret(self, data: bytes) -> bool:
        """A cheap test first: plain searches run at memory speed, the pattern does not."""
        if len(data) < _SHORT:
            return self._pattern.search(data) is not None
        return any(needle in data for needle in self._needles)

    def open_from(self, data: bytes, start: int) -> int:
        """Where the tail begins that more data could turn into a secret; the length of `data` if there is none."""
        return min(self._open_literal(data, start), self._open_shape(data, start))

    def _open_literal(self, data: bytes, start: int) -> int:
        first = max(start, len(data) - self._longest + 1)
        for at in range(first, len(data)):
            if data[at] in self._heads and self._may_become_literal(data[at:]):
                return at
        return len(data)

    def _may_become_literal(self, tail: bytes) -> bool:
        if len(tail) <= _INDEXED:
            return tail in self._begun
        known = tail[:_INDEXED] in self._begun
        return known and any(len(tail) < len(form) and form.startswith(tail) for form in self._literals)

    def _open_shape(self, data: bytes, start: int) -> int:
        end = data[-_LONGEST_HELD:]
        token = len(end) - len(end.rstrip(TOKEN_CHARACTERS))  # mostly 0: output tends to end with its line
        if token and (match := OPEN_SHAPE.search(data, max(start, len(data) - token))):
            return match.start()
        first = max(start, len(data) - _LONGEST_PREFIX + 1)
        return next((at for at in range(first, len(data)) if data[at:] in _BEGUN_SHAPES), len(data))


@lru_cache(maxsize=16)
def _redactor(secrets: frozenset[str]) -> Redactor:
    """Kept, because the runs of one harness mostly have the same secrets, and there are many forms of each."""
    return Redactor(secrets)


def _beginnings(words: Iterable[bytes]) -> frozenset[bytes]:
    """All that could still become one of the words, as far as it is indexed: a secret may be a whole file."""
    return frozenset(word[:length] for word in words for length in range(1, min(len(word), _INDEXED + 1)))


_LONGEST_PREFIX = max(map(len, SHAPES))
_BEGUN_SHAPES = _beginnings(SHAPES)


class RedactedStream:
    """Redacts one stream chunk by chunk. However it is cut, the result is the same.

    Only what could still become a secret is held back, so ordinary output passes at once.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = b""
        self._before = b""  # the last bytes that left: whether a key starts here depends on them
        self._swallowing = False

    def feed(self, chunk: bytes) -> bytes:
        return self._pass_on(chunk, last=False)

    def finish(self) -> bytes:
        return self._pass_on(b"", last=True)

    def _pass_on(self, chunk: bytes, *, last: bool) -> bytes:
        if self._swallowing:
            chunk = self._swallow(chunk)
        data = self._before + self._held + chunk
        start = len(self._before)
        if len(data) == start:
            return b""
        end = len(data) if last else self._redactor.open_from(data, start)
        if not self._redactor.may_hold_secret(data):
            self._keep(data, end)
            return data[start:end]
        return self._mask(data, start, end, last=last)

    def _mask(self, data: bytes, start: int, end: int, *, last: bool) -> bytes:
        out = bytearray()
        position = start
        while (match := self._redactor.next_match(data, position)) is not None and match.start() < end:
            growing = match.group("shape") is not None and match.end() == len(data) and not last
            if growing and match.end() - match.start() <= _LONGEST_HELD:
                end = match.start()
                break
            out += data[position : match.start()] + MASK
            position = match.end()
            self._swallowing = growing
            if position > end:
                end = len(data) if last else self._redactor.open_from(data, position)
        out += data[position:end]
        self._keep(data, end)
        return bytes(out)

    def _keep(self, data: bytes, end: int) -> None:
        self._held = data[end:]
        self._before = data[max(0, end - LOOK_BACK) : end]

    def _swallow(self, chunk: bytes) -> bytes:
        match = TOKEN_RUN.match(chunk)
        assert match is not None  # the pattern matches the empty string too
        rest = chunk[match.end() :]
        if rest:
            self._swallowing = False
            self._before = b"x"  # a token came before; and it did not end in an escape
        return rest
