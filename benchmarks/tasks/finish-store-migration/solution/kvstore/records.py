"""The records of format 2."""

from __future__ import annotations

import json
import zlib
from typing import Any

HEADER = b"kvstore 2\n"


def dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def encode(record: list[Any]) -> bytes:
    data = dumps(record).encode()
    return f"{zlib.crc32(data):08x} ".encode() + data + b"\n"


def decode(line: bytes) -> list[Any] | None:
    """The record of a line, which ends with its line break; None if it is wrong."""
    checksum, _, data = line.partition(b" ")
    if not data.endswith(b"\n") or f"{zlib.crc32(data[:-1]):08x}".encode() != checksum:
        return None
    try:
        record: list[Any] = json.loads(data)
    except ValueError:
        return None
    return record
