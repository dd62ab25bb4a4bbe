"""The JSON lines that a run leaves: what Aider tells of itself, and what our guard notes of each call."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import orjson

from youbencha.adapters.cli_agent import fields
from youbencha.adapters.cli_agent.fields import Record
from youbencha.log import Usage
from youbencha.log.tokens import Tokens, add_all, usage_of
from youbencha.process import OUTPUT_LIMIT_BYTES

_DONE = "Completed --message-file"


class Told(NamedTuple):
    """By Aider's analytics, which stay on this machine."""

    launched: bool = False
    asked: int = 0
    """How often it turned to the model."""
    answered: int = 0
    """And got an answer."""
    unanswered: bool = False
    """The last time it got none."""
    exception: str | None = None
    finished: bool = False
    """It came to the end of what it was told to do, well or not."""
    cost_usd: float | None = None
    """By LiteLLM's prices, without what commit messages cost. None where it knows none."""


def read_analytics(path: Path) -> Told:
    asked, costs, exception = 0, [], None
    waiting = finished = launched = False
    for record in json_lines(path):
        launched = True
        properties = fields.mapping(record.get("properties"))
        match record.get("event"):
            case "message_send_starting":
                asked, waiting, exception = asked + 1, True, None
            case "message_send":
                waiting = False
                costs.append(fields.amount(properties.get("cost")))
            case "message_send_exception":
                exception = fields.text(properties.get("exception")) or ""
            case "exit":
                finished = properties.get("reason") == _DONE
    known = [cost for cost in costs if cost]
    cost = sum(known) if known and len(known) == len(costs) else None
    return Told(launched, asked, len(costs), waiting, exception, finished, cost)


class Calls(NamedTuple):
    """By our guard, of each call that was answered."""

    model: str | None
    """The first that was asked: the others are for commit messages, or for editing."""
    tokens: tuple[Tokens, ...]
    all_known: bool

    def usage(self, cost_usd: float | None, *, cut_off: bool) -> Usage | None:
        if not self.tokens:
            return None
        partial = cut_off or not self.all_known
        return usage_of(add_all(self.tokens), None if partial else cost_usd, partial=partial)


def read_calls(path: Path) -> Calls:
    records = list(json_lines(path))
    usages = [fields.mapping(record.get("usage")) for record in records]
    tokens = tuple(_tokens(usage) for usage in usages if usage)
    model = fields.text(records[0].get("model")) if records else None
    return Calls(model, tokens, len(tokens) == len(records))


def _tokens(usage: Record) -> Tokens:
    """LiteLLM's words, in which a prompt's tokens hold the cached ones too, whoever the provider is."""
    prompt = fields.count(usage.get("prompt_tokens"))
    details = fields.mapping(usage.get("prompt_tokens_details"))
    read = _first(usage.get("cache_read_input_tokens"), details.get("cached_tokens"))
    written = fields.count(usage.get("cache_creation_input_tokens"))
    new = None if prompt is None else max(0, prompt - (read or 0) - (written or 0))
    return Tokens(new, fields.count(usage.get("completion_tokens")), read, written)


def _first(*values: object) -> int | None:
    return next((found for value in values if (found := fields.count(value)) is not None), None)


def json_lines(path: Path) -> Iterator[Record]:
    """None where the file is none. What is no record is passed over: the agent may have written there too."""
    for line in read_text(path).splitlines():
        try:
            yield fields.mapping(orjson.loads(line))
        except orjson.JSONDecodeError:
            continue


def read_text(path: Path) -> str:
    """The beginning of it, if it is long."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):  # the agent may have put a pipe or a link there
            return ""
        with path.open("rb") as file:
            return file.read(OUTPUT_LIMIT_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
