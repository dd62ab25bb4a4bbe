"""Read files that an agent or a repository wrote."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from youbencha.json_lines import Record

_LONGEST_LINE = 32 * 1024 * 1024

_MOST_BYTES = 256 * 1024 * 1024


def matching_lines(path: Path, top: Path, wanted: Sequence[bytes]) -> Iterator[bytes]:
    """Those lines that hold one of `wanted`; none, where it is no regular file below `top`."""
    try:
        real = path.resolve()
        if not real.is_relative_to(top.resolve()) or not stat.S_ISREG(real.stat().st_mode):
            return
        with real.open("rb") as file:
            while (line := file.readline(_LONGEST_LINE)) and file.tell() <= _MOST_BYTES:
                if any(mark in line for mark in wanted):
                    yield line
    except (OSError, RuntimeError):  # links that go round in a circle, in Python 3.11 and 3.12
        return


# A file that may define a custom agent: the person's own, or one that came with an untrusted repository.

_LARGEST_FILE = 1024 * 1024


def read_definition(path: Path, *, below: Path | None = None) -> bytes | None:
    """None if it defines nothing: it cannot be read, or a link leads to it out of `below`.

    A pipe would be waited on for ever.
    """
    try:
        if below is not None and not path.resolve().is_relative_to(below.resolve()):
            return None
        return path.read_bytes() if path.is_file() and path.stat().st_size <= _LARGEST_FILE else None
    except OSError:
        return None


# A file that a program left: one JSON object, or what is wrong with it.

_LARGEST = 1024 * 1024


class MetricsFile(NamedTuple):
    record: Record
    problems: tuple[str, ...] = ()

    def or_else(self, other: MetricsFile) -> MetricsFile:
        """The first that says anything counts; what was wrong with either is told."""
        return MetricsFile(self.record or other.record, (*self.problems, *other.problems))


def read_object(path: Path, name: str) -> MetricsFile:
    """`name` is how the program knows the file. None at all is nothing wrong."""
    import orjson

    try:
        # An agent may have put anything there; a pipe would be waited on for ever.
        state = path.lstat()
        if not stat.S_ISREG(state.st_mode):
            return MetricsFile({}, (f"{name} is no regular file",))
        if state.st_size > _LARGEST:
            return MetricsFile({}, (f"{name} is larger than 1 MiB",))
        found = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        return MetricsFile({})
    except OSError as error:
        return MetricsFile({}, (f"{name} cannot be read: {error.strerror}",))
    except ValueError as error:
        return MetricsFile({}, (f"{name} is not JSON: {error}",))
    return MetricsFile(found) if isinstance(found, dict) else MetricsFile({}, (f"{name} holds no JSON object",))
