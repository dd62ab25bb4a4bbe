"""No line of an agent, however odd, is an exception; and facts survive being written down."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from youbencha.adapters import get_adapter
from youbencha.adapters.cli_agent import SessionFacts
from youbencha.adapters.cli_agent.session import Session

AGENTS = ("codex", "copilot-cli", "gemini-cli", "opencode")
KEYS = (
    "data", "part", "item", "error", "usage", "state", "tokens", "cache", "stats", "models", "toolCallId", "toolName",
    "arguments", "content", "text", "message", "model", "exitCode", "statusCode", "result", "success", "reason",
    "input", "output", "cost", "callID", "tool", "status", "role", "delta", "parameters", "tool_id", "sessionID",
)  # fmt: skip
ODD: tuple[Any, ...] = (None, True, -1, 10**30, 1.5, -0.5, "", "text", "\ud800", [], [1, "x", None, {}], {}, {"a": 1})
VALUES = st.sampled_from(ODD)
INNER = st.dictionaries(st.sampled_from((*KEYS, "type")), VALUES, max_size=4)
FIELDS = st.dictionaries(st.sampled_from(KEYS), VALUES | INNER | st.fixed_dictionaries({"state": INNER}), max_size=4)


def session_of(agent: str) -> Session:
    adapter: Any = get_adapter(agent)
    return Session(adapter.kind, adapter.reader())


@pytest.mark.parametrize("agent", AGENTS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_odd_events(agent: str, data: st.DataObject) -> None:
    """Its own kinds of event, with keys that it knows and values that nobody expects."""
    adapter: Any = get_adapter(agent)
    kinds = st.sampled_from(sorted(adapter.reader().handlers()))
    session = session_of(agent)
    for kind, fields in data.draw(st.lists(st.tuples(kinds, FIELDS), max_size=5)):
        session.feed(json.dumps({**fields, "type": kind}))
    session.finish()
    facts = session.facts()
    assert SessionFacts.model_validate(facts.model_dump(mode="json")) == facts


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize(
    "raw", [b"", b"\n", b"no json", b'{"type":', b"[1]", b"null", b"\xff\xfe", b'{"type": 1}', b"{}"]
)
def test_lines_that_are_no_events(agent: str, raw: bytes) -> None:
    session = session_of(agent)
    session.feed(raw)
    session.finish()
    assert (session.facts().results, session.stream_seen) == (0, False)
