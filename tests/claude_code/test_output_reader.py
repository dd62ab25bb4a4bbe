"""The reader of a session's output: it passes events on, and notices a rejected key, also in the debug log."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from youbencha.adapters.claude_code import output
from youbencha.adapters.claude_code.output import ClaudeOutputReader, debug_log_read
from youbencha.events import AssistantText, AssistantTextDelta, Event, RequestRetried, SessionStarted
from youbencha.process import Redactor

BODY = '{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}'
STAMP = "2026-11-15T20:36:57.645Z "
STREAMING = f"[ERROR] Error streaming, falling back to non-streaming mode: 401 {BODY}"
ANSWER = "[DEBUG] Stream started - received first chunk"
ATTEMPT = f"[ERROR] API error (attempt 1/11): 401 401 {BODY}"

REJECTED = {
    "1.0.128": STREAMING,
    "2.0.62": STAMP + STREAMING,
    "2.1.30": STAMP + ATTEMPT,
    "2.1.30, later": STAMP + ATTEMPT.replace("1/11", "10/11"),
}
OTHERWISE = {
    "429": STAMP + ATTEMPT.replace("401 401", "429 429"),
    "429, streaming": STREAMING.replace("401", "429"),
    "529": STAMP + ATTEMPT.replace("401 401", "529 529"),
    "a 429 that speaks of 401": STAMP + ATTEMPT.replace("401 401", "429 429").replace("invalid", "401 {"),
    "inside a line": f"{STAMP}[DEBUG] the tool said: {STREAMING}",
    "indented": "  " + STREAMING,
    "quoted": f'"{STREAMING}"',
    "another level": STAMP + STREAMING.replace("ERROR", "DEBUG"),
    "a word before": "lizZ " + STREAMING,
    "a tool's own 401": f"{STAMP}[ERROR] WebFetch failed: 401 {BODY}",
    "no body": "[ERROR] Error streaming, falling back to non-streaming mode: 401",
    "nothing": "",
}
SOON_S, LONG_S = 0.01, 10.0


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "_POLL_S", SOON_S)
    monkeypatch.setattr(output, "_ANSWER_TIMEOUT_S", SOON_S * 4)


class Bench:
    """A watcher over files that the test writes."""

    def __init__(self, home: Path, session: str | None = "s-1") -> None:
        self.cwd = home / "my workspace"
        self.env = {"HOME": str(home)}
        self.session = session
        self.own = home / ".claude" / "debug" / f"{session}.txt"
        slug = "".join(c if c.isascii() and c.isalnum() else "-" for c in str(self.cwd))
        self.shared = home / ".local" / "state" / "claude-cli-nodejs" / slug / "debug-logs" / "debug.txt"
        for path in (self.own, self.shared):
            path.parent.mkdir(parents=True)
        self.rejected = asyncio.Event()

    def watching(self) -> AbstractAsyncContextManager[None]:
        return debug_log_read(lambda: self.session, self.rejected.set, env=self.env, cwd=self.cwd)

    async def is_rejected(self) -> bool:
        try:
            await asyncio.wait_for(self.rejected.wait(), LONG_S)
        except TimeoutError:
            return False
        return True

    async def stays_quiet(self) -> bool:
        await asyncio.sleep(SOON_S * 8)
        return not self.rejected.is_set()


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


@pytest.mark.parametrize("line", REJECTED.values(), ids=list(REJECTED))
@pytest.mark.parametrize("place", ["own", "shared"])
async def test_a_rejected_key_is_detected(line: str, place: str, tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.watching():
        append(getattr(bench, place), f"{STAMP}[DEBUG] before\n{line}\n{STAMP}[DEBUG] after\n")
        assert await bench.is_rejected()


@pytest.mark.parametrize("line", OTHERWISE.values(), ids=list(OTHERWISE))
async def test_other_lines_are_not_a_rejected_key(line: str, tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.watching():
        append(bench.own, f"before\n{line}\nafter\n")
        assert await bench.stays_quiet()
        append(bench.own, REJECTED["2.0.62"] + "\n")  # and it has not gone to sleep
        assert await bench.is_rejected()


@pytest.mark.parametrize("lines", [(ATTEMPT, ANSWER), (ANSWER, ATTEMPT)], ids=["before", "after"])
async def test_a_rejection_of_another_model_is_not_final(lines: tuple[str, str], tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.watching():
        append(bench.own, "".join(f"{STAMP}{line}\n" for line in lines))
        assert await bench.stays_quiet()


async def test_earlier_lines_of_the_shared_file_are_skipped(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    append(bench.shared, STREAMING + "\n")
    async with bench.watching():
        assert await bench.stays_quiet()
        append(bench.shared, "something new\n")
        assert await bench.stays_quiet()
        append(bench.shared, STREAMING + "\n")
        assert await bench.is_rejected()


async def test_a_truncated_shared_file_is_read_from_its_start(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    append(bench.shared, "an old line\n" * 100)
    async with bench.watching():
        bench.shared.write_text(STREAMING + "\n")
        assert await bench.is_rejected()


async def test_the_session_id_may_come_later(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.session = None
    append(bench.own, STREAMING + "\n")
    async with bench.watching():
        assert await bench.stays_quiet()
        bench.session = "s-1"
        assert await bench.is_rejected()


async def test_another_sessions_file_is_ignored(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.watching():
        append(bench.own.with_name("s-2.txt"), STREAMING + "\n")
        assert await bench.stays_quiet()


async def test_a_line_written_in_pieces(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    line = REJECTED["2.1.30"]
    end = line.index("{") + 1
    async with bench.watching():
        append(bench.own, "before\n")
        for character in range(0, end - 1, 7):
            append(bench.own, line[character : min(character + 7, end - 1)])
            await asyncio.sleep(SOON_S * 1.5)
        assert await bench.stays_quiet()
        append(bench.own, "{\n")
        assert await bench.is_rejected()


async def test_the_middle_of_a_long_line_is_not_a_line(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.watching():
        append(bench.own, "x" * 10_000)
        assert await bench.stays_quiet()
        append(bench.own, STREAMING)
        assert await bench.stays_quiet()


async def test_far_into_a_large_log(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.watching():
        append(bench.own, f"{STAMP}[DEBUG] an ordinary line of some length, of which there are many\n" * 80_000)
        append(bench.own, REJECTED["2.0.62"] + "\n")
        assert await bench.is_rejected()


async def test_a_large_log_is_not_read_again(tmp_path: Path) -> None:
    """Read anew each time, four megabytes kept the loop busy for 0.1 s, four times a second."""
    bench = Bench(tmp_path)
    append(bench.own, f"{STAMP}[DEBUG] an ordinary line of some length, of which there are many\n" * 50_000)
    async with bench.watching():
        await asyncio.sleep(1.0)
        before, began = time.process_time(), time.monotonic()
        await asyncio.sleep(20 * SOON_S)
        assert time.process_time() - before < 0.5 * (time.monotonic() - began)


async def test_directories_of_the_log_files(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.env |= {"CLAUDE_CONFIG_DIR": str(tmp_path / "moved"), "XDG_STATE_HOME": str(tmp_path / "state")}
    moved = tmp_path / "moved" / "debug" / "s-1.txt"
    moved.parent.mkdir(parents=True)
    async with bench.watching():
        append(bench.own, STREAMING + "\n")
        append(bench.shared, STREAMING + "\n")
        assert await bench.stays_quiet()
        append(moved, STREAMING + "\n")
        assert await bench.is_rejected()


@pytest.mark.skipif(sys.platform == "win32", reason="pipes")
async def test_a_pipe_instead_of_the_log_does_not_block(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    os.mkfifo(bench.own)
    async with bench.watching():
        assert await bench.stays_quiet()
        append(bench.shared, STREAMING + "\n")
        assert await bench.is_rejected()


async def test_each_attempt_is_reported_once(tmp_path: Path) -> None:
    """An attempt may be logged twice: as a stream that failed, and by its number."""
    bench = Bench(tmp_path)
    said: list[None] = []
    async with debug_log_read(lambda: "s-1", lambda: said.append(None), env=bench.env, cwd=bench.cwd):
        for attempt in (1, 2, 3):
            append(bench.own, f"{STREAMING}\n{ATTEMPT}\n")
            async with asyncio.timeout(LONG_S):
                while len(said) < attempt:
                    await asyncio.sleep(0.01)
            assert len(said) == attempt


INIT = {"type": "system", "subtype": "init", "session_id": "s-1", "model": "claude-x"}
TEXT = {"type": "assistant", "message": {"id": "m", "role": "assistant", "content": [{"type": "text", "text": "hi"}]}}


def retry(status: int | None) -> dict[str, object]:
    return {"type": "system", "subtype": "api_retry", "attempt": 1, "error_status": status, "error": "e"}


def line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"


def test_events_are_emitted_line_by_line() -> None:
    seen: list[Event] = []
    reader = ClaudeOutputReader(seen.append)
    reader.line(line(INIT))
    assert [type(event) for event in seen] == [SessionStarted]
    reader.line(line(TEXT))
    assert any(isinstance(event, AssistantText) and event.text == "hi" for event in seen)
    assert reader.recorder.session_id == "s-1"
    assert not reader.stop.is_set()


def test_the_event_callback_is_optional() -> None:
    reader = ClaudeOutputReader(None)
    for value in (INIT, TEXT, retry(401)):
        reader.line(line(value))
    assert reader.recorder.session_id == "s-1"


def test_a_rejected_key_ends_the_run() -> None:
    seen: list[Event] = []
    reader = ClaudeOutputReader(seen.append)
    reader.line(line(retry(401)))
    assert reader.stop.is_set()
    assert [event.status for event in seen if isinstance(event, RequestRetried)] == [401]  # and it is reported


@pytest.mark.parametrize("status", [None, 400, 403, 429, 500, 529])
def test_other_statuses_do_not_end_the_run(status: int | None) -> None:
    reader = ClaudeOutputReader(None)
    reader.line(line(retry(status)))
    assert not reader.stop.is_set()


@pytest.mark.parametrize("raw", [b"", b"\n", b"no json\n", b'{"type":', b"[1]\n", b"null\n", b"\xff\xfe\n"])
def test_invalid_lines_do_not_end_the_run(raw: bytes) -> None:
    reader = ClaudeOutputReader(None)
    reader.line(raw)
    assert not reader.stop.is_set()


def test_watches_are_independent() -> None:
    one, other = ClaudeOutputReader(None), ClaudeOutputReader(None)
    one.line(line(INIT))
    one.on_rejected_key()
    assert other.recorder.session_id is None
    assert not other.stop.is_set()


def test_a_renewable_login_gets_one_more_attempt() -> None:
    reader = ClaudeOutputReader(None, key_may_recover=True)
    reader.on_rejected_key()
    assert not reader.stop.is_set()
    reader.on_rejected_key()
    assert reader.stop.is_set()


def test_a_secret_across_two_pieces_of_a_text_is_masked() -> None:
    secret = "hunter2-distinct-aaaa"
    events: list[Event] = []
    reader = ClaudeOutputReader(events.append, redactor=Redactor([secret]))
    for piece in ("It is hunter2-d", "istinct-aaaa, 漢", " and hun"):
        delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
        reader.line(line({"type": "stream_event", "event": delta, "parent_tool_use_id": None}))
    message = {"id": "m", "role": "assistant", "model": "x", "content": [{"type": "text", "text": "whole"}]}
    reader.line(line({"type": "assistant", "message": message, "parent_tool_use_id": None}))
    pieces = [event.text for event in events if isinstance(event, AssistantTextDelta)]
    assert "".join(pieces) == "It is [REDACTED], 漢 and hun"
