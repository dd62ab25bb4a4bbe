"""What only Codex's own record of a session tells: the model, how often it was asked, and the tokens of a run that
was stopped. Its last event would have told the tokens, and never comes then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import orjson

from youbencha.adapters.cli_agent import SessionFacts
from youbencha.adapters.cli_agent.fields import Record, mapping, text
from youbencha.adapters.cli_agent.left import lines_left
from youbencha.adapters.codex.events import tokens_of
from youbencha.log.tokens import Tokens, usage_of

_ID = re.compile(r"[0-9a-f-]{8,64}")
_WANTED = (b'"turn_context"', b'"token_count"')
"""Of lines that may hold megabytes, only these are parsed."""


def with_session_file(facts: SessionFacts, home: Path | None) -> SessionFacts:
    path = _session_file(home, facts.session_id)
    if path is None or home is None:
        return facts
    model: str | None = None
    totals: list[Tokens] = []
    for kind, payload in _payloads(path, home):
        if kind == "turn_context":
            model = text(payload.get("model")) or model
        elif total := mapping(mapping(payload.get("info")).get("total_token_usage")):
            tokens = tokens_of(total)
            # It is told again with every change of a rate limit.
            totals += [] if totals and totals[-1] == tokens else [tokens]
    usage = facts.usage or (usage_of(totals[-1], None, partial=True) if totals else None)
    return facts.model_copy(update={"model": model or facts.model, "turns": len(totals) or facts.turns, "usage": usage})


def _session_file(home: Path | None, session_id: str | None) -> Path | None:
    if home is None or session_id is None or not _ID.fullmatch(session_id):
        return None
    return next(home.glob(f"sessions/*/*/*/rollout-*-{session_id}.jsonl"), None)


def _payloads(path: Path, home: Path) -> Iterator[tuple[str, Record]]:
    for line in lines_left(path, home, _WANTED):
        try:
            record = mapping(orjson.loads(line))
        except orjson.JSONDecodeError:  # the last line of a process that was killed
            continue
        payload = mapping(record.get("payload"))
        kind = text(record.get("type"))
        if kind == "turn_context" or payload.get("type") == "token_count":
            yield kind or "", payload
