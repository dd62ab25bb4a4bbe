"""Read the JSON events of `opencode run` (1.18.33), and its database, which has the model.

A tool call is reported when it has ended, with its result.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from youbencha import json_lines
from youbencha.adapters.cli_agent import CallFailed, CallMetered, Handler, SessionRecord, StreamReader, TurnTaken
from youbencha.events import (
    AssistantText,
    AssistantThinking,
    Event,
    SessionResult,
    SessionStarted,
    ToolCalled,
    ToolDenied,
    ToolReturned,
)
from youbencha.json_lines import Record
from youbencha.text import strip_ansi
from youbencha.usage import Tokens

_GOES_ON = "tool-calls"
_BROKEN_OFF = frozenset({"length", "content-filter", "error"})
_DENIED = re.compile(r"rejected permission|prevents you from using", re.IGNORECASE)


class OpenCodeReader(StreamReader):
    def __init__(self) -> None:
        self._started = False

    def handlers(self) -> Mapping[str, Handler]:
        return {
            "step_start": self._step,
            "text": self._text,
            "reasoning": self._thought,
            "tool_use": self._tool,
            "step_finish": self._finished,
            "error": self._error,
        }

    def _step(self, record: Record) -> Iterator[Event]:
        yield from self._start(record)
        yield TurnTaken()

    def _start(self, record: Record) -> Iterator[Event]:
        if not self._started:
            self._started = True
            session_id = json_lines.as_str(record.get("sessionID"))
            yield SessionStarted(session_id=session_id, model=None, agent_version=None)

    def _text(self, record: Record) -> Iterator[Event]:
        if text := json_lines.as_str(_part(record).get("text")):
            yield AssistantText(text=text)

    def _thought(self, record: Record) -> Iterator[Event]:
        if text := json_lines.as_str(_part(record).get("text")):
            yield AssistantThinking(text=text)

    def _tool(self, record: Record) -> Iterator[Event]:
        part = _part(record)
        state = json_lines.as_mapping(part.get("state"))
        call_id, name = json_lines.as_str(part.get("callID")), json_lines.as_str(part.get("tool")) or "(unnamed)"
        yield ToolCalled(call_id=call_id, name=name, arguments=json_lines.as_mapping(state.get("input")))
        error = json_lines.as_str(state.get("error"))
        if error is not None and _DENIED.search(error):
            yield ToolDenied(call_id=call_id, name=name)
        content = json_lines.as_str(state.get("output")) if error is None else error
        failed = state.get("status") != "completed"
        yield ToolReturned(call_id=call_id, content=content or "", is_error=failed)

    def _finished(self, record: Record) -> Iterator[Event]:
        part = _part(record)
        yield CallMetered(
            tokens=_tokens(json_lines.as_mapping(part.get("tokens"))), cost_usd=json_lines.as_amount(part.get("cost"))
        )
        reason = json_lines.as_str(part.get("reason"))
        if reason != _GOES_ON:
            broken = reason in _BROKEN_OFF
            yield SessionResult(subtype=reason, is_error=broken, text=None, turns=None, duration_ms=None)

    def _error(self, record: Record) -> Iterator[Event]:
        yield from self._start(record)
        error = json_lines.as_mapping(record.get("error"))
        data = json_lines.as_mapping(error.get("data"))
        name = json_lines.as_str(error.get("name"))
        text = json_lines.as_str(data.get("message")) or name or ""
        yield CallFailed(kind=name, status=json_lines.as_count(data.get("statusCode")), text=text)
        yield SessionResult(subtype="error", is_error=True, text=text, turns=None, duration_ms=None)


def _part(record: Record) -> Record:
    return json_lines.as_mapping(record.get("part"))


def _tokens(tokens: Record) -> Tokens:
    """Read tokens. Reasoning counts as output, and is billed as such."""
    cache = json_lines.as_mapping(tokens.get("cache"))
    output, reasoning = json_lines.as_count(tokens.get("output")), json_lines.as_count(tokens.get("reasoning"))
    return Tokens(
        json_lines.as_count(tokens.get("input")),
        None if output is None else output + (reasoning or 0),
        json_lines.as_count(cache.get("read")),
        json_lines.as_count(cache.get("write")),
    )


# opencode reports only on stderr the real reason of a failure, and that it used another agent than the configured one.

AGENT_NOT_FOUND = "agent_not_found"
_OTHER_AGENT = re.compile(r'^\W*(agent "[^"\n]*" not found\. Falling back to default agent)', re.MULTILINE)
_LOGGED = re.compile(r'^timestamp=\S+ level=ERROR [^\n]*? error="((?:[^"\\\n]|\\.)*)"', re.MULTILINE)
_VAGUE = "Unexpected server error"


def with_stderr(session: SessionRecord, output: str) -> SessionRecord:
    result, failure = session.facts.result, session.facts.failure
    if "Falling back to default agent" in output and (found := _OTHER_AGENT.search(strip_ansi(output))):
        # The session succeeds, but with the wrong agent.
        turns = result.turns if result else None
        other = SessionResult(subtype=AGENT_NOT_FOUND, is_error=True, text=found[1], turns=turns, duration_ms=None)
        return session.with_facts(result=other)
    if failure and failure.text.startswith(_VAGUE):
        reasons = _LOGGED.findall(output)
        return session.with_facts(failure=replace(failure, text=reasons[-1])) if reasons else session
    return session


# Which model answered is only in the database.

_LAST_ANSWER = """
    SELECT json_extract(data, '$.providerID'), json_extract(data, '$.modelID') FROM message
    WHERE session_id = ? AND json_extract(data, '$.role') = 'assistant'
    ORDER BY time_created DESC LIMIT 1
"""
_MAX_STEPS = 10_000_000
"""Steps of SQLite's virtual machine, a fraction of a second: the agent could have put anything into the file."""


def with_model(session: SessionRecord, database: Path) -> SessionRecord:
    """Add the provider and the model of the session's last answer, if the database has them."""
    import sqlite3  # slow to import, and most runs name their model

    try:
        if not stat.S_ISREG(database.lstat().st_mode):
            return session
        with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            connection.set_progress_handler(lambda: 1, _MAX_STEPS)  # its first call ends the query
            found = connection.execute(_LAST_ANSWER, (session.facts.session_id,)).fetchone()
    except (OSError, sqlite3.Error):
        return session
    provider, model = map(json_lines.as_str, found or (None, None))
    return session.with_facts(provider=provider, model=model) if provider and model else session
