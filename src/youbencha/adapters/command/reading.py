"""A file that a program left: one JSON object, or what is wrong with it."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import NamedTuple

from youbencha.adapters.cli_agent.fields import Record

_LARGEST = 1024 * 1024


class Told(NamedTuple):
    record: Record
    problems: tuple[str, ...] = ()

    def or_else(self, other: Told) -> Told:
        """The first that says anything counts; what was wrong with either is told."""
        return Told(self.record or other.record, (*self.problems, *other.problems))


def read_object(path: Path, name: str) -> Told:
    """`name` is how the program knows the file. None at all is nothing wrong."""
    import orjson

    try:
        # An agent may have put anything there; a pipe would be waited on for ever.
        state = path.lstat()
        if not stat.S_ISREG(state.st_mode):
            return Told({}, (f"{name} is no regular file",))
        if state.st_size > _LARGEST:
            return Told({}, (f"{name} is larger than 1 MiB",))
        found = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        return Told({})
    except OSError as error:
        return Told({}, (f"{name} cannot be read: {error.strerror}",))
    except ValueError as error:
        return Told({}, (f"{name} is not JSON: {error}",))
    return Told(found) if isinstance(found, dict) else Told({}, (f"{name} holds no JSON object",))
