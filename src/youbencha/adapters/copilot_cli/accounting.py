"""Tokens of a session, from `session-state/ID/events.jsonl` in the CLI's home.

`inputTokens` there holds the cached ones too (1,000 new, 700 read and 50 written make 1,750), ours does not. The last
line, `session.shutdown`, has the totals; a session that was cut off has only a record for each call.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson

from youbencha.adapters.cli_agent import fields
from youbencha.adapters.cli_agent.fields import Record
from youbencha.adapters.cli_agent.left import lines_left
from youbencha.log import Usage
from youbencha.log.tokens import Tokens, add_all, usage_of

_WANTED = (b'"session.usage_record"', b'"session.shutdown"')


def usage_in(home: Path | None, session_id: str | None) -> Usage | None:
    """None where nobody wrote it down."""
    if home is None or session_id is None or Path(session_id).name != session_id:
        return None
    calls: list[Tokens] = []
    for record in _records(home / "session-state" / session_id / "events.jsonl", home):
        data = fields.mapping(record.get("data"))
        if record.get("type") == "session.usage_record":
            calls.append(_tokens(fields.mapping(data.get("usage"))))
        elif totals := _totals(data):
            return usage_of(add_all(totals), None, partial=False)
    return usage_of(add_all(calls), None, partial=True) if calls else None


def _totals(shutdown: Record) -> list[Tokens]:
    metrics = fields.mapping(fields.mapping(shutdown.get("accountingSnapshot")).get("modelMetrics"))
    return [_tokens(fields.mapping(fields.mapping(model).get("usage"))) for model in metrics.values()]


def _tokens(usage: Record) -> Tokens:
    given = fields.count(usage.get("inputTokens"))
    read, written = fields.count(usage.get("cacheReadTokens")), fields.count(usage.get("cacheWriteTokens"))
    new = None if given is None else max(0, given - (read or 0) - (written or 0))
    return Tokens(new, fields.count(usage.get("outputTokens")), read, written)


def _records(path: Path, home: Path) -> Iterator[Record]:
    yield from map(_parsed, lines_left(path, home, _WANTED))


def _parsed(line: bytes) -> Record:
    try:
        return fields.mapping(orjson.loads(line))
    except orjson.JSONDecodeError:
        return {}
