"""The store."""

from __future__ import annotations

import io
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from kvstore.errors import CorruptStore, UnknownFormat
from kvstore.records import HEADER, decode, dumps, encode

COMPACTED_FROM = 100


class Store:
    """Keys and values, kept in a file: see docs/format-2.md."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._values: dict[str, Any] = {}
        self._records = 0
        self._end = 0
        """Where the next record goes. 0: there is no file of format 2 yet."""
        self._open()

    def get(self, key: str, default: Any = None) -> Any:
        return self._values.get(key, default)

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._values))

    def set(self, key: str, value: Any) -> None:
        self.update({key: value})

    def update(self, values: Mapping[str, Any]) -> None:
        """Set all of them, or none if one cannot be stored."""
        records: list[list[Any]] = []
        for key, value in values.items():
            if not isinstance(key, str):
                raise TypeError("a key is a str")
            text = dumps(value)  # raises if it cannot be stored
            if key not in self._values or dumps(self._values[key]) != text:
                records.append(["set", key, json.loads(text)])  # a copy, which the caller cannot change
        self._append(records)

    def delete(self, key: str) -> None:
        if key not in self._values:
            raise KeyError(key)
        self._append([["del", key]])

    def compact(self) -> None:
        """Write what is alive to a new file, which replaces the store at once."""
        data = HEADER + b"".join(encode(["set", key, value]) for key, value in self._values.items())
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                _write(file, data)
            os.replace(name, self.path)
        except BaseException:
            os.unlink(name)
            raise
        self._records = len(self._values)
        self._end = len(data)

    def _open(self) -> None:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return
        if data.startswith(HEADER):
            self._read_log(data)
        elif data:
            self._values = _read_format_1(self.path, data)

    def _read_log(self, data: bytes) -> None:
        lines = io.BytesIO(data).readlines()  # only at b"\n"
        self._end = len(HEADER)
        for number, line in enumerate(lines[1:], start=2):
            record = decode(line)
            if record is None and number < len(lines):
                raise CorruptStore(number)
            if record is None:
                return  # a torn tail: the next record is written over it
            self._apply(record)
            self._end += len(line)

    def _apply(self, record: list[Any]) -> None:
        if record[0] == "set":
            self._values[record[1]] = record[2]
        else:
            self._values.pop(record[1], None)
        self._records += 1

    def _append(self, records: list[list[Any]]) -> None:
        if not records:
            return
        if self._end == 0:
            self.compact()
        data = b"".join(map(encode, records))
        with open(self.path, "r+b") as file:
            file.truncate(self._end)
            file.seek(self._end)
            _write(file, data)
        self._end += len(data)
        for record in records:
            self._apply(record)
        if self._records > COMPACTED_FROM and (self._records - len(self._values)) * 2 > self._records:
            self.compact()


def _write(file: BinaryIO, data: bytes) -> None:
    file.write(data)
    file.flush()
    os.fsync(file.fileno())


def _read_format_1(path: Path, data: bytes) -> dict[str, Any]:
    try:
        values = json.loads(data)
    except ValueError:
        values = None
    if not isinstance(values, dict):
        raise UnknownFormat(f"{path} is not a store")
    return values
