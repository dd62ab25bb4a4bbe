"""What only the CLI's own record of a session tells: the model, the turns and the tokens where its output does not.

Text mode prints the answer alone. And a session that was ended before its totals has one output token for each call
in the stream of 2.1.x; in its record they are final (seen in 1.0.128, 2.0.62 and 2.1.325). Side models are not in it,
so what it tells is the least that was used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import orjson

from youbencha.adapters.claude_code.facts import SessionFacts
from youbencha.adapters.claude_code.signals import ModelCalled
from youbencha.adapters.claude_code.usage import Ledger, read_usage
from youbencha.adapters.cli_agent.fields import Record, mapping, text
from youbencha.adapters.cli_agent.left import lines_left
from youbencha.log import Usage

_ID = re.compile(r"[0-9a-f-]{8,64}")
_WANTED = (b'"assistant"',)
_OF_THE_CLIENT = "<synthetic>"
"""The model of messages that the CLI writes itself: an error of the API, say."""


def with_session_file(facts: SessionFacts, session_id: str | None, config: Path | None) -> SessionFacts:
    """`config` is where the CLI keeps what is its user's."""
    if facts.usage is not None and not facts.usage.partial:
        return facts
    path = _session_file(config, session_id or facts.session_id)
    if path is None or config is None:
        return facts
    ledger, model, ids = Ledger(), None, set()
    for message in _messages(path, config):
        name, key = text(message.get("model")), text(message.get("id"))
        if name == _OF_THE_CLIENT or key is None:
            continue
        model = name or model
        ids.add(key)
        tokens = read_usage(message.get("usage"))
        ledger.note_call(ModelCalled(message_id=key, model=name, tokens=tokens, final=True))
    told = {
        "model": facts.model or model,
        "turns": len(ids) or None if facts.turns is None else facts.turns,
        "usage": _at_least(facts.usage, ledger.total()),
    }
    return facts.model_copy(update=told)


def _session_file(config: Path | None, session_id: str | None) -> Path | None:
    if config is None or session_id is None or not _ID.fullmatch(session_id):
        return None
    return next(config.glob(f"projects/*/{session_id}.jsonl"), None)


def _messages(path: Path, config: Path) -> Iterator[Record]:
    for line in lines_left(path, config, _WANTED):
        try:
            record = mapping(orjson.loads(line))
        except orjson.JSONDecodeError:  # the last line of a process that was killed
            continue
        if record.get("type") == "assistant":
            yield mapping(record.get("message"))


def _at_least(seen: Usage | None, recorded: Usage | None) -> Usage | None:
    """Neither knows all of it: the stream may have got further than what was written down."""
    if seen is None or recorded is None:
        return recorded or seen
    more = (recorded.output_tokens or 0) >= (seen.output_tokens or 0)
    return recorded.model_copy(update={"cost_usd": seen.cost_usd, "cost_source": seen.cost_source}) if more else seen
