"""Read the metrics that a program reports in a file (`YOUBENCHA_METRICS_FILE`). Invalid values are only warnings.

Thunderdome's adapters write the file into the workspace instead: it is removed there, because it is not part of their
work. The sidecar in the artifacts is written by the trial, as for all agents.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from youbencha import json_lines
from youbencha.adapters.cli_agent import Invocation, SessionRecord
from youbencha.files import read_nofollow
from youbencha.json_lines import Record
from youbencha.log.model import ToolCall
from youbencha.process import Redactor
from youbencha.text import shorten
from youbencha.usage import SIDECAR, SessionUsage, Tokens

METRICS_VARIABLE = "YOUBENCHA_METRICS_FILE"
_LARGEST_FILE = 1024 * 1024


def metrics_file(invocation: Invocation[Any]) -> Path:
    return invocation.scratch / "metrics.json"


def note_existing_sidecar(invocation: Invocation[Any]) -> None:
    """Remember whether the repository contains a file of that name, which is then neither read nor removed."""
    if os.path.lexists(invocation.workspace / SIDECAR):
        _sidecar_in_repository(invocation).touch()


def with_metrics(invocation: Invocation[Any], session: SessionRecord, redactor: Redactor) -> SessionRecord:
    metrics = _read_object(metrics_file(invocation), METRICS_VARIABLE)
    if not _sidecar_in_repository(invocation).exists():
        metrics = metrics.or_else(_read_object(invocation.workspace / SIDECAR, SIDECAR))
        with contextlib.suppress(OSError):  # if it is a directory, it is part of what the agent did
            (invocation.workspace / SIDECAR).unlink(missing_ok=True)
    known = _Fields(metrics.record, redactor)
    found = {
        "usage": known.usage(),
        "turns": known.read("turns", json_lines.as_count),
        "tools_used": known.read("tools_used", _tools),
        "model": known.read("model", json_lines.as_str),
        "session_id": known.read("session_id", json_lines.as_str),
        "unread_metrics": (*metrics.problems, *known.problems),
    }
    known_facts = {name: value for name, value in found.items() if value}
    return session.with_facts(**known_facts)._replace(tool_calls=_calls(found["tools_used"]))


class _MetricsFile(NamedTuple):
    """A JSON object that a program wrote, and the problems with it."""

    record: Record
    problems: tuple[str, ...] = ()

    def or_else(self, other: _MetricsFile) -> _MetricsFile:
        """The first that is not empty, with the problems of both."""
        return _MetricsFile(self.record or other.record, (*self.problems, *other.problems))


def _read_object(path: Path, name: str) -> _MetricsFile:
    """Read the file, which may not exist. `name` is its name in messages."""
    try:
        found = orjson.loads(read_nofollow(path.parent, path.name, _LARGEST_FILE))
    except FileNotFoundError:
        return _MetricsFile({})
    except OSError as error:
        return _MetricsFile({}, (f"{name}: {error.strerror}",))
    except ValueError as error:
        return _MetricsFile({}, (f"{name} is not JSON: {error}",))
    return _MetricsFile(found) if isinstance(found, dict) else _MetricsFile({}, (f"{name} is not a JSON object",))


class _Fields:
    """Reads the fields of a record, and collects those that are invalid."""

    def __init__(self, record: Record, redactor: Redactor) -> None:
        self._record = record
        self._redactor = redactor
        self.problems: list[str] = []

    def read(self, name: str, reader: Callable[[object], Any]) -> Any:
        value = self._record.get(name)
        found = None if value is None else reader(value)
        if value is not None and found is None:
            self.problems.append(f"{name} is {shorten(self._redactor.text(repr(value)), 40)}")
        return found

    def usage(self) -> SessionUsage | None:
        tokens = Tokens(
            self.read("input_tokens", json_lines.as_count),
            self.read("output_tokens", json_lines.as_count),
            self.read("cache_read_tokens", json_lines.as_count),
            self.read("cache_creation_tokens", json_lines.as_count),
        )
        cost, total = self.read("cost_usd", json_lines.as_amount), self.read("total_cost_usd", json_lines.as_amount)
        cost = total if cost is None else cost
        return None if tokens == Tokens() and cost is None else SessionUsage(tokens, cost)


def _sidecar_in_repository(invocation: Invocation[Any]) -> Path:
    return invocation.scratch / "brings-sidecar"


def _tools(value: object) -> dict[str, int] | None:
    """`{"Bash": 3}`, or the names one by one: `["Bash", "Read", "Bash"]`."""
    if isinstance(value, dict):
        return value if all(json_lines.as_count(times) is not None for times in value.values()) else None
    is_names = isinstance(value, list) and len(json_lines.as_strs(value)) == len(value)
    return dict(Counter(json_lines.as_strs(value))) if is_names else None


_MOST = 10_000
"""Limits memory, whatever a program reports."""


def _calls(tools_used: Mapping[str, int] | None) -> tuple[ToolCall, ...] | None:
    """Make as many calls of each tool as were counted: nothing else is known about them."""
    if tools_used is None:
        return None
    names = chain.from_iterable(repeat(name, times) for name, times in tools_used.items())
    return tuple(ToolCall(name=name, arguments="") for name in islice(names, _MOST))
