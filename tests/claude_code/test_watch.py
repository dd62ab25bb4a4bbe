"""The watch over a running session: it passes events on, and stops a run with a rejected key."""

from __future__ import annotations

import json

import pytest

from youbencha.adapters.claude_code.output import ClaudeOutputReader
from youbencha.events import AssistantText, AssistantTextDelta, Event, RequestRetried, SessionStarted
from youbencha.process import Redactor

INIT = {"type": "system", "subtype": "init", "session_id": "s-1", "model": "claude-x"}
TEXT = {"type": "assistant", "message": {"id": "m", "role": "assistant", "content": [{"type": "text", "text": "hi"}]}}


def retry(status: int | None) -> dict[str, object]:
    return {"type": "system", "subtype": "api_retry", "attempt": 1, "error_status": status, "error": "e"}


def line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"


def test_events_are_emitted_line_by_line() -> None:
    seen: list[Event] = []
    watch = ClaudeOutputReader(seen.append)
    watch.line(line(INIT))
    assert [type(event) for event in seen] == [SessionStarted]
    watch.line(line(TEXT))
    assert any(isinstance(event, AssistantText) and event.text == "hi" for event in seen)
    assert watch.recorder.session_id == "s-1"
    assert not watch.stop.is_set()


def test_the_event_callback_is_optional() -> None:
    watch = ClaudeOutputReader(None)
    for value in (INIT, TEXT, retry(401)):
        watch.line(line(value))
    assert watch.recorder.session_id == "s-1"


def test_a_rejected_key_ends_the_run() -> None:
    seen: list[Event] = []
    watch = ClaudeOutputReader(seen.append)
    watch.line(line(retry(401)))
    assert watch.stop.is_set()
    assert [event.status for event in seen if isinstance(event, RequestRetried)] == [401]  # and it is reported


@pytest.mark.parametrize("status", [None, 400, 403, 429, 500, 529])
def test_other_statuses_do_not_end_the_run(status: int | None) -> None:
    watch = ClaudeOutputReader(None)
    watch.line(line(retry(status)))
    assert not watch.stop.is_set()


@pytest.mark.parametrize("raw", [b"", b"\n", b"no json\n", b'{"type":', b"[1]\n", b"null\n", b"\xff\xfe\n"])
def test_invalid_lines_do_not_end_the_run(raw: bytes) -> None:
    watch = ClaudeOutputReader(None)
    watch.line(raw)
    assert not watch.stop.is_set()


def test_watches_are_independent() -> None:
    one, other = ClaudeOutputReader(None), ClaudeOutputReader(None)
    one.line(line(INIT))
    one.on_rejected_key()
    assert other.recorder.session_id is None
    assert not other.stop.is_set()


def test_a_renewable_login_gets_one_more_attempt() -> None:
    watch = ClaudeOutputReader(None, key_may_recover=True)
    watch.on_rejected_key()
    assert not watch.stop.is_set()
    watch.on_rejected_key()
    assert watch.stop.is_set()


def test_a_secret_across_two_pieces_of_a_text_is_masked() -> None:
    secret = "hunter2-distinct-aaaa"
    events: list[Event] = []
    watch = ClaudeOutputReader(events.append, redactor=Redactor([secret]))
    for piece in ("It is hunter2-d", "istinct-aaaa, 漢", " and hun"):
        delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
        watch.line(line({"type": "stream_event", "event": delta, "parent_tool_use_id": None}))
    message = {"id": "m", "role": "assistant", "model": "x", "content": [{"type": "text", "text": "whole"}]}
    watch.line(line({"type": "assistant", "message": message, "parent_tool_use_id": None}))
    pieces = [event.text for event in events if isinstance(event, AssistantTextDelta)]
    assert "".join(pieces) == "It is [REDACTED], 漢 and hun"
