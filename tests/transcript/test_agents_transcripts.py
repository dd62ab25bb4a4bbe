"""The transcript of each agent has what its log has, in order: both are made from the same events."""

from __future__ import annotations

from pathlib import Path

import pytest

from youbencha.adapters import get_adapter
from youbencha.adapters.cli_agent import CliAdapter
from youbencha.adapters.cli_agent.stream import OutputReader
from youbencha.process import Redactor
from youbencha.transcript.reader import read
from youbencha.transcript.recording import RecordedEvents
from youbencha.transcript.session import TranscriptEntry

DATA = Path(__file__).parents[1] / "data"
NAMES = {"codex": "codex", "copilot": "copilot-cli", "gemini": "gemini-cli", "opencode": "opencode"}
RECORDED = [
    *(("claude-code", path) for path in sorted((DATA / "transcripts").glob("*.ndjson")) if ".bidi." not in path.name),
    *((NAMES[path.name.partition("_")[0]], path) for path in sorted((DATA / "other_agents").glob("*.ndjson"))),
]


@pytest.mark.parametrize(("agent", "path"), RECORDED, ids=lambda value: getattr(value, "stem", value))
def test_the_transcript_and_the_log_agree(agent: str, path: Path, tmp_path: Path) -> None:
    adapter = get_adapter(agent)
    assert isinstance(adapter, CliAdapter)
    events = RecordedEvents()
    output = OutputReader(type(adapter), adapter.reader(), on_event=events)
    for line in path.read_bytes().splitlines():
        output.line(line)
    output.finish()
    session = output.session()
    events.record(tmp_path / "transcript.jsonl", Redactor())
    events.close()
    entries = read(tmp_path / "transcript.jsonl").entries
    said = [message.content for message in session.messages if message.role == "assistant"]
    assert [entry.text for entry in entries if entry.kind == "text"] == said
    calls = [(call.id, call.name, call.result, bool(call.is_error)) for call in session.tool_calls or ()]
    tools = [entry for entry in entries if entry.kind == "tool"]
    assert [(entry.title, entry.result, entry.state == "error") for entry in tools] == [call[1:] for call in calls]
    parents = {call.id: call.parent for call in session.tool_calls or ()}
    by_id = {call_id: entry for (call_id, *_), entry in zip(calls, tools, strict=True)}
    for call_id, entry in by_id.items():
        assert entry.parent == (by_id[parents[call_id]].id if parents[call_id] in by_id else None)
    assert_metered(entries, session.facts.usage is not None)


def assert_metered(entries: list[TranscriptEntry], has_usage: bool) -> None:
    for entry in entries:
        if entry.kind == "call":
            assert has_usage
            assert entry.call is not None
            assert entry.call.source == "agent"
