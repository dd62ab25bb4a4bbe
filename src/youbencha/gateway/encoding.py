"""Decode compressed requests and answers as they arrive, bounded in size. No I/O."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Literal

MAX_DECODED_BYTES = 256 * 1024 * 1024
"""No answer is that long; the rest of a larger one is not read."""

Encoding = Literal["identity", "gzip", "deflate"]
_PIECE = 64 * 1024
_GZIP = 16 + zlib.MAX_WBITS
_ZLIB = zlib.MAX_WBITS
_RAW_DEFLATE = -zlib.MAX_WBITS


def encoding_of(content_encoding: str) -> Encoding | None:
    """Read a Content-Encoding header. None for an encoding that cannot be decoded here, or for several."""
    match [name for part in content_encoding.lower().split(",") if (name := part.strip()) not in ("", "identity")]:
        case []:
            return "identity"
        case ["gzip" | "x-gzip"]:
            return "gzip"
        case ["deflate"]:
            return "deflate"
    return None


class Decoder:
    """Decodes gzip or deflate into pieces of bounded size. Invalid data ends the output without an error."""

    def __init__(self, encoding: Literal["gzip", "deflate"], max_bytes: int = MAX_DECODED_BYTES) -> None:
        self.complete = False
        """The data fed so far is a complete body according to its format."""
        self._gzip = encoding == "gzip"
        self._left = max_bytes
        self._zlib: zlib._Decompress | None = None

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        for start in range(0, len(chunk), _PIECE):
            yield from self._decode(chunk[start : start + _PIECE])

    def _decode(self, packed: bytes) -> Iterator[bytes]:
        more = True
        while self._left and (packed or more):
            if self._zlib is None:
                self._zlib = zlib.decompressobj(self._format(packed))
            limit = min(_PIECE, self._left)
            try:
                piece = self._zlib.decompress(packed, limit)
            except zlib.error:
                self._left = 0
                self.complete = False
                return
            self._left -= len(piece)
            more = len(piece) == limit  # then zlib may have more output, even if it has consumed all input
            packed = self._zlib.unconsumed_tail
            self.complete = self._zlib.eof
            if self._zlib.eof:
                packed, more = self._zlib.unused_data, False
                self._next_member()
            if piece:
                yield piece

    def _next_member(self) -> None:
        """Continue after the end of the data, which only gzip allows."""
        self._zlib = None
        if not self._gzip:
            self._left = 0

    def _format(self, packed: bytes) -> int:
        """`deflate` means zlib's format, but many omit its header: then the first four bits differ."""
        if self._gzip:
            return _GZIP
        return _ZLIB if packed[0] & 0x0F == 8 else _RAW_DEFLATE
