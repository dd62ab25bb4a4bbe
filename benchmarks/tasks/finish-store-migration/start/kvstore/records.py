"""The records of format 2."""

from __future__ import annotations

import json
import zlib
from typing import Any

HEADER = "kvstore 2\n"


def encode(record: list[Any]) -> str:
    text = json.dumps(record, separators=(",", ":"), ensure_ascii=False)
    return f"{zlib.crc32(text.encode()):08x} {text}\n"


def decode(line: str) -> list[Any] | None:
    """The record of a line; None if it is wrong."""
    checksum, _, text = line.partition(" ")
    if f"{zlib.crc32(text.encode('ascii', 'replace')):08x}" != checksum:
        return None
    return json.loads(text)
