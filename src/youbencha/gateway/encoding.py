"""The meter's own copy of a compressed answer, unpacked as it comes. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

MOST_DECODED_BYTES = 256 * 1024 * 1024
"""No answer is that long; what unpacks to more is not read on."""

_PIECE = 64 * 1024

_GZIP = 16 + zlib.MAX_WBITS

_ZLIB = zlib.MAX_WBITS

_BARE = -zlib.MAX_WBITS


class Decoder:
    """Gives pieces of a bounded size. What is broken ends it, without a word."""

    def __init__(self, *, gzip: bool, most_bytes: int = MOST_DECODED_BYTES) -> None:
        self._gzip = gzip
        self._left = most_bytes
        self._zlib: zlib._Decompress | None = None

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        for start in range(0, len(chunk), _PIECE):
            yield from self._unpacked(chunk[start : start + _PIECE])

    def _unpacked(self, packed: bytes) -> Iterator[bytes]:
        more = True
        while self._left and (packed or more):
            if self._zlib is None:
                self._zlib = zlib.decompressobj(self._kind(packed))
            room = min(_PIECE, self._left)
            try:
                piece = self._zlib.decompress(packed, room)
            except zlib.error:
                self._left = 0
                return
            self._left -= len(piece)
            more = len(piece) == room  # then zlib may hold some back, though it has taken all
            packed = self._zlib.unconsumed_tail
            if self._zlib.eof:
                packed, more = self._zlib.unused_data, False
                self._next_member()
            if piece:
                yield piece

    def _next_member(self) -> None:
        """Only gzip may go on after its end."""
        self._zlib = None
        if not self._gzip:
            self._left = 0

    def _kind(self, packed: bytes) -> int:
        """`deflate` means zlib's format, and many send it bare: then the first four bits are other ones."""
        if self._gzip:
            return _GZIP
        return _ZLIB if packed[0] & 0x0F == 8 else _BARE
