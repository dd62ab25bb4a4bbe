"""Transcripts in files: read at once, followed while they grow, and loaded in parts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from youbencha.events import (
    AssistantText,
    AssistantTextDelta,
    Event,
    IterationEnded,
    IterationStarted,
    ModelCalled,
    RequestRetried,
    ToolCalled,
    ToolReturned,
    UserText,
)
from youbencha.log.session import CallMetered
from youbencha.process import Redactor
from youbencha.transcript.model import Transcript
from youbencha.transcript.reader import PREVIEW, TranscriptReader, follow, read
from youbencha.transcript.recording import Recorder, event_to_json
from youbencha.usage import Tokens

LONG = "".join(f"line {number}\n" for number in range(5_000))

RUN: tuple[Event, ...] = (
    UserText(at=1.0, text="Fix it."),
    UserText(at=1.5, text="Fix it."),  # some agents repeat the prompt
    CallMetered(at=2.0, tokens=Tokens(10, 1), model="m-1", message_id="a", final=False),
    AssistantTextDelta(at=2.5, text="I l"),
    AssistantText(at=3.0, text="I look."),
    ToolCalled(at=3.5, call_id="t1", name="Task", arguments={"prompt": "find"}),
    UserText(at=3.6, text="find", parent="t1"),
    ToolCalled(at=4.0, call_id="t2", name="Bash", arguments={"command": "cat long"}, parent="t1"),
    CallMetered(at=4.5, tokens=Tokens(10, 30), model="m-1", message_id="a"),
    ToolReturned(at=5.0, call_id="t2", content=LONG, is_error=False, parent="t1"),
    RequestRetried(at=6.0, attempt=1, status=529, reason="overloaded", delay_ms=500.0),
    ToolReturned(at=7.5, call_id="t1", content="found", is_error=False),
    AssistantText(at=8.0, text="Done."),
)
KINDS = ["user", "call", "text", "tool", "user", "tool", "retry", "text"]


def record(path: Path, *events: Event) -> None:
    recorder = Recorder(path, Redactor())
    for event in events:
        recorder(event)
    recorder.close()


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    record(tmp_path / "transcript.jsonl", *RUN)
    return tmp_path / "transcript.jsonl"


def test_a_transcript_has_everything_in_order(recording: Path) -> None:
    transcript = read(recording)
    prompt, call, text, task, _, bash, retry, answer = transcript.entries
    assert [entry.kind for entry in transcript.entries] == KINDS
    assert [entry.id for entry in transcript.entries] == list(range(8))
    assert (prompt.text, text.text, answer.text) == ("Fix it.", "I look.", "Done.")
    assert call.call is not None
    assert (call.call.source, call.call.model, call.call.tokens) == ("agent", "m-1", Tokens(10, 30))
    assert (bash.parent, bash.result, bash.duration_s) == (task.id, LONG, 1.0)
    assert [entry.kind for entry in transcript.sessions[0].children(task)] == ["user", "tool"]
    assert (task.result, task.duration_s) == ("found", 4.0)
    assert (retry.at, retry.until) == (6.0, 6.5)
    assert transcript.entry(bash.id) is bash


def test_calls_are_counted_by_the_gateway_if_there_is_one() -> None:
    transcript = Transcript()
    metered = ModelCalled(at=9.0, model="m-1", status=200, input_tokens=12, cost_usd=0.5, duration_ms=3000.0)
    refused = ModelCalled(at=9.5, model="m-1", status=402, error="budget_exceeded")
    for event in (*RUN, metered, CallMetered(tokens=Tokens(1, 1), message_id="b"), refused):
        transcript.take(event)
    first, second = [entry for entry in transcript.entries if entry.kind == "call"]
    assert first.call is not None
    assert (first.at, first.ended_at, first.call.source, first.call.cost_usd) == (6.0, 9.0, "gateway", 0.5)
    assert (second.state, second.call and second.call.error) == ("error", "budget_exceeded")


def test_long_texts_are_loaded_when_they_are_needed(recording: Path) -> None:
    reader = TranscriptReader(recording)
    assert [entry.kind for entry in reader.update()] == KINDS
    bash = reader.transcript.entries[5]
    assert bash.result == LONG[:PREVIEW]
    assert bash.cut == len(LONG) - PREVIEW
    whole = reader.load(bash)
    assert (whole.result, whole.cut, whole.text) == (LONG, 0, "cat long")
    assert (whole.id, whole.parent, whole.kind) == (bash.id, bash.parent, bash.kind)
    assert reader.load(reader.transcript.entries[0]) is reader.transcript.entries[0]


def test_a_file_is_followed_while_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "transcript.jsonl"
    reader = TranscriptReader(path)
    assert reader.update() == []
    lines = [event_to_json(event) for event in RUN]
    with path.open("wb") as file:
        file.write(b"".join(lines[:6]) + lines[6][:10])
        file.flush()
        assert [entry.kind for entry in reader.update()] == KINDS[:4]
        assert reader.update() == []
        file.write(lines[6][10:] + b"".join(lines[7:]))
    changed = reader.update()
    assert [entry.id for entry in changed] == [1, 3, 4, 5, 6, 7]
    assert [entry.kind for entry in reader.transcript.entries] == KINDS
    assert reader.skipped == 0


def test_a_file_that_was_replaced_is_read_again(recording: Path) -> None:
    reader = TranscriptReader(recording)
    reader.update()
    recording.write_bytes(event_to_json(AssistantText(text="another")))
    assert [entry.text for entry in reader.update()] == ["another"]
    assert [entry.text for entry in reader.transcript.entries] == ["another"]


async def test_entries_are_yielded_as_they_happen(tmp_path: Path) -> None:
    path = tmp_path / "transcript.jsonl"
    changes = follow(path, interval_s=0.01)
    waiting = asyncio.ensure_future(anext(changes))
    await asyncio.sleep(0)
    record(path, RUN[0])
    async with asyncio.timeout(30):
        assert [entry.text for entry in await waiting] == ["Fix it."]
    await changes.aclose()  # type: ignore[attr-defined]


def test_a_loop_has_a_session_for_each_iteration(tmp_path: Path) -> None:
    def iteration(number: int) -> list[Event]:
        ended = IterationEnded(
            iteration=number, outcome="completed", reason=None, duration_ms=1, input_tokens=1, output_tokens=1,
            cost_usd=0.1, files_changed=None,
        )  # fmt: skip
        return [IterationStarted(iteration=number, backend="claude", model=None), AssistantText(text="Hi."), ended]

    path = tmp_path / "recording.jsonl"
    record(path, *iteration(1), *iteration(2))
    transcript = read(path)
    assert [(session.number, session.status) for session in transcript.sessions] == [(1, "completed"), (2, "completed")]
    assert [(entry.id, entry.kind) for entry in transcript.entries] == [
        (0, "text"),
        (1, "end"),
        (2, "text"),
        (3, "end"),
    ]
    assert transcript.totals(0.0).cost_usd == pytest.approx(0.2)


def test_a_link_is_not_followed(tmp_path: Path, recording: Path) -> None:
    (tmp_path / "link.jsonl").symlink_to(recording)
    with pytest.raises(OSError, match="link"):
        read(tmp_path / "link.jsonl")
    assert TranscriptReader(tmp_path / "link.jsonl").update() == []
