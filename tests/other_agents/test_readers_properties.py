"""No line of an agent raises an exception, and every log can be serialized."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from youbencha.adapters import AgentExecutionContext, AgentExecutionResult, get_adapter
from youbencha.adapters.cli_agent.stream import OutputReader
from youbencha.log.model import YouBenchaLog
from youbencha.log.session import SessionRecord

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


def session_of(agent: str, *lines: bytes | str) -> SessionRecord:
    adapter: Any = get_adapter(agent)
    output = OutputReader(adapter, adapter.reader())
    for line in lines:
        output.line(line)
    output.finish()
    return output.session()


def log_of(agent: str, session: SessionRecord) -> YouBenchaLog:
    result = AgentExecutionResult(
        exit_code=0,
        status="success",
        output="",
        started_at="2026-01-01T00:00:00Z",
        completed_at="2026-01-01T00:00:00Z",
        duration_ms=0,
        session=session,
    )
    here = Path("workspace")
    context = AgentExecutionContext(workspace_dir=here, repo_dir=here, artifacts_dir=here, config={})
    return get_adapter(agent).normalize_log(result, context)


@pytest.mark.parametrize("agent", AGENTS)
@settings(max_examples=settings().max_examples // 2)
@given(data=st.data())
def test_unexpected_values(agent: str, data: st.DataObject) -> None:
    """The agent's own event types, with known keys and unexpected values."""
    adapter: Any = get_adapter(agent)
    kinds = st.sampled_from(sorted(adapter.reader().handlers()))
    drawn = data.draw(st.lists(st.tuples(kinds, FIELDS), max_size=5))
    session = session_of(agent, *(json.dumps({**fields, "type": kind}) for kind, fields in drawn))
    log = log_of(agent, session)
    assert YouBenchaLog.model_validate_json(log.model_dump_json()) == log


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize(
    "raw", [b"", b"\n", b"no json", b'{"type":', b"[1]", b"null", b"\xff\xfe", b'{"type": 1}', b"{}"]
)
def test_malformed_lines(agent: str, raw: bytes) -> None:
    facts = session_of(agent, raw).facts
    assert (facts.results, facts.stream_seen) == (0, False)
