"""No line of an agent, however odd, is an exception; and reading twice gives the same."""

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
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)


def session_of(agent: str) -> Session:
    adapter: Any = get_adapter(agent)
    return Session(adapter.kind, adapter.reader())


def record_of(agent: str) -> st.SearchStrategy[dict[str, Any]]:
    """One of its own kinds of event, with the keys that it knows and values that nobody expects."""
    adapter: Any = get_adapter(agent)
    known = (
        "data", "part", "item", "error", "usage", "state", "tokens", "cache", "stats", "models", "toolCallId", "toolName",
        "arguments", "content", "text", "message", "model", "exitCode", "statusCode", "result", "success", "reason",
        "input", "output", "cost", "callID", "tool", "type", "status", "role", "delta", "parameters", "tool_id",
    )  # fmt: skip
    inner = st.dictionaries(st.sampled_from(known), VALUES | st.dictionaries(st.sampled_from(known), VALUES))
    fields = st.dictionaries(st.sampled_from(known[:-1]).filter(lambda key: key != "type"), VALUES | inner)
    kinds = st.sampled_from(sorted(adapter.reader().handlers()))
    return st.builds(lambda kind, rest: {**rest, "type": kind}, kinds, fields)


@pytest.mark.parametrize("agent", AGENTS)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_odd_events(agent: str, data: st.DataObject) -> None:
    records = data.draw(st.lists(record_of(agent), max_size=6))
    session = session_of(agent)
    for record in records:
        session.feed(json.dumps(record))
    session.finish()
    facts = session.facts()
    assert SessionFacts.model_validate(facts.model_dump(mode="json")) == facts


@pytest.mark.parametrize("agent", AGENTS)
@settings(max_examples=50, deadline=None)
@given(raw=st.binary(max_size=200))
def test_lines_that_are_no_events(agent: str, raw: bytes) -> None:
    session = session_of(agent)
    session.feed(raw)
    session.finish()
    assert session.facts().results == 0
