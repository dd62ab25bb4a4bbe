"""The store."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kvstore.errors import CorruptStore, UnknownFormat
<<<<<<< HEAD
from kvstore.records import HEADER, decode, encode
=======
from kvstore.legacy import read_v1, write_v1
>>>>>>> main


class Store:
    """Keys and values, kept in a file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
<<<<<<< HEAD
        self._values: dict[str, Any] = {}
        self._records = 0
        self._open()
=======
        self._values = read_v1(self.path) if self.path.exists() else {}
>>>>>>> main

    def get(self, key: str, default: Any = None) -> Any:
        return self._values.get(key, default)

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._values))

<<<<<<< HEAD
    def set(self, key: str, value: Any) -> None:
        self._append(["set", key, value])
        self._values[key] = value

    def delete(self, key: str) -> None:
        self._append(["del", key])
        del self._values[key]

    def compact(self) -> None:
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(HEADER)
            for key, value in self._values.items():
                file.write(encode(["set", key, value]))
        self._records = len(self._values)

    def _open(self) -> None:
        if not self.path.exists():
            return
        lines = self.path.read_text(encoding="utf-8").splitlines()
        if lines[0] != HEADER:
            raise UnknownFormat(f"{self.path} is not a store")
        for number, line in enumerate(lines[1:]):
            record = decode(line)
            if record is None:
                if number == len(lines) - 1:
                    break  # torn tail. TODO cut it off
                raise CorruptStore(number)
            self._apply(record)

    def _apply(self, record: list[Any]) -> None:
        if record[0] == "set":
            self._values[record[1]] = record[2]
        else:
            self._values.pop(record[1])
        self._records += 1

    def _append(self, record: list[Any]) -> None:
        with open(self.path, "a", encoding="utf-8") as file:
            if file.tell() == 0:
                file.write(HEADER)
            file.write(encode(record))
        self._records += 1
=======
    def __contains__(self, key: object) -> bool:
        return key in self._values

    def set(self, key: str, value: Any) -> None:
        if not isinstance(key, str):
            raise TypeError("a key is a str")
        json.dumps(value)  # raises if it cannot be stored
        self._values[key] = value
        self.dump()

    def update(self, values: Mapping[str, Any]) -> None:
        """Set all of them, or none if one cannot be stored."""
        for key, value in values.items():
            if not isinstance(key, str):
                raise TypeError("a key is a str")
            json.dumps(value)
        self._values.update(values)
        self.dump()

    def delete(self, key: str) -> None:
        del self._values[key]
        self.dump()

    def dump(self) -> None:
        write_v1(self.path, self._values)
>>>>>>> main
