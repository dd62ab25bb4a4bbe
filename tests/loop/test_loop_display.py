"""A loop without the screen: lines, JSON, slow readers and closed pipes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, TextIO

import pytest

from youbencha.cli.loop_display import JsonDisplay, LinesDisplay, LoopDisplay, choose_loop_display
from youbencha.events import (
    AssistantText,
    AssistantTextDelta,
    Event,
    GuidanceGiven,
    IterationEnded,
    IterationStarted,
    LoopEnded,
    LoopStarted,
    LoopWaiting,
    RateLimitSeen,
    ToolCalled,
    ToolReturned,
    TopicPublished,
)
from youbencha.log.session import TurnTaken
from youbencha.transcript.lines import event_line
from youbencha.transcript.recording import TYPE_NAMES
from youbencha.usage import Tokens

LOOP = (
    LoopStarted(
        at=100.0,
        loop_id="bold-otter",
        directory="/home/me/project",
        backend="claude",
        model="opus",
        max_iterations=20,
        max_runtime_s=14400,
        max_cost_usd=10,
    ),
    IterationStarted(at=100.0, iteration=1, backend="claude", model="opus", hat="builder"),
    AssistantTextDelta(at=101.0, text="I look"),
    AssistantText(at=102.0, text="I look.\r\nAnd I see\rnothing\x1b[2J."),
    ToolCalled(at=103.0, call_id="1", name="Bash", arguments={"command": "make test"}),
    ToolReturned(at=105.5, call_id="1", content="2 failed", is_error=True),
    TopicPublished(at=106.0, topic="build.done", payload="all of it", source="agent"),
    IterationEnded(
        at=170.0,
        iteration=1,
        outcome="failed",
        reason="the agent exited with 1",
        duration_ms=70_000,
        input_tokens=1200,
        output_tokens=34,
        cost_usd=0.0123,
        files_changed=2,
    ),
    LoopWaiting(at=170.0, reason="after a failure", until=172.0, kind="backoff"),
    GuidanceGiven(at=171.0, text="try the other file"),
    IterationStarted(at=172.0, iteration=2, backend="claude", model=None, attempt=2),
    LoopWaiting(at=173.0, reason="paused by you", until=173.0, kind="paused"),
    LoopEnded(at=3773.0, outcome="max_cost", reason="$10.00 of $10.00 spent", exit_code=2),
)

LINES = """\
0:00:00 ▸ loop: bold-otter · claude opus · at most 20 iterations · at most 4 h 00 min · at most $10.00

0:00:00 ━━ iteration 1 of 20 · claude opus · as builder
0:00:02 ● I look.
0:00:02   nothing␛[2J.
0:00:03 ⚙ Bash make test
0:00:06   ↳ ✗ 2 failed (2.5 s)
0:00:06 ◆ build.done all of it
0:01:10 ✗ iteration 1 failed: the agent exited with 1 · 1 min 10 s · 1,200 in, 34 out · $0.0123 · 2 files changed
0:01:10 ◷ waiting 2.0 s: after a failure
0:01:11 › guidance: try the other file

0:01:12 ━━ iteration 2 of 20 · claude · attempt 2
0:01:13 ‖ paused by you
1:01:13 ✗ loop max cost: $10.00 of $10.00 spent
"""


@contextmanager
def pipe() -> Iterator[tuple[TextIO, TextIO]]:
    read, write = os.pipe()
    with os.fdopen(read) as reader, os.fdopen(write, "w") as writer:
        yield reader, writer


def printed(display: LoopDisplay, reader: TextIO, stream: TextIO, happened: tuple[Event, ...]) -> str:
    with display:
        for event in happened:
            display(event)
    stream.close()
    return reader.read()


def test_lines_of_a_loop() -> None:
    with pipe() as (reader, stream):
        assert printed(LinesDisplay(stream), reader, stream, LOOP) == LINES


def test_text_is_printed_while_it_is_written_and_not_again() -> None:
    deltas = ["\n\nOne\nT", "wo\n10%\r20%", "\r30%\n", "Th", "ree"]
    whole = "One\nTwo\n30%\nand an error\nThree\nOne"
    with pipe() as (reader, stream):
        display = LinesDisplay(stream)
        with display:
            for number, text in enumerate(deltas):
                display(AssistantTextDelta(text=text, at=float(number)))
            early = [reader.readline() for _ in range(3)]
            display(AssistantTextDelta(text="another's", parent="toolu_1", at=9.0))
            display(AssistantText(text=whole, at=10.0))
            display(AssistantText(text="More", at=11.0))
        stream.close()
        late = reader.read().splitlines()
    assert early == ["0:00:00 ● One\n", "0:00:01   Two\n", "0:00:02   30%\n"]
    assert late == ["0:00:10   and an error", "0:00:10   Three", "0:00:10   One", "0:00:11 ● More"]


def test_a_line_without_end_is_printed_with_the_finished_text() -> None:
    text = "word " * 10_000
    with pipe() as (reader, stream):
        display = LinesDisplay(stream)
        lines = printed(
            display, reader, stream, (*([AssistantTextDelta(text="word ")] * 10_000), AssistantText(text=text))
        )
    assert len(lines.splitlines()) == 2  # cut


def test_events_as_json() -> None:
    with pipe() as (reader, stream):
        text = printed(JsonDisplay(stream), reader, stream, (*LOOP, TurnTaken()))
    records = [json.loads(line) for line in text.splitlines()]
    assert len(records) == len(LOOP)
    assert records[1] == {
        "type": "iteration_started",
        "at": 100.0,
        "iteration": 1,
        "backend": "claude",
        "model": "opus",
        "hat": "builder",
        "attempt": 1,
    }


def test_choices() -> None:
    with pipe() as (_, stream):
        shown = [choose_loop_display(as_json=j, quiet=q, stream=stream) for j, q in ((True, True), (True, False))]
        assert [type(each) for each in shown] == [LoopDisplay, JsonDisplay]
        for each in shown:
            each.__exit__()
        with choose_loop_display(as_json=False, quiet=False, stream=stream) as lines:
            assert isinstance(lines, LinesDisplay)


def test_a_long_wait_is_counted_down_in_sparse_lines() -> None:
    with pipe() as (reader, stream):
        display = LinesDisplay(stream, countdown_every_s=0)
        with display:
            now = time.time()
            display(LoopWaiting(at=now, reason="usage limit", until=now + 3600, kind="usage_limit"))
            first, second = reader.readline(), reader.readline()
    assert first == "0:00:00 ◷ waiting 1 h 00 min: usage limit\n"
    assert re.fullmatch(r"0:00:0\d ◷ (59 min \d\d s|1 h 00 min) left\n", second)


@pytest.mark.parametrize("make", [LinesDisplay, JsonDisplay])
def test_a_slow_reader_does_not_hold_up_the_loop_and_gets_everything(make: type[LinesDisplay | JsonDisplay]) -> None:
    texts = tuple(AssistantText(text=f"{number} " + "x" * 1000) for number in range(2000))
    with pipe() as (reader, stream):
        display = make(stream)
        began = time.monotonic()
        for event in texts:
            display(event)  # 2 MB; the pipe takes 64 KiB
        assert time.monotonic() - began < 5
        closing = threading.Thread(target=lambda: (display.__exit__(), stream.close()))
        closing.start()
        assert len(reader.read().splitlines()) == 2000
        closing.join()


def test_a_reader_that_does_not_read_loses_lines_and_is_told() -> None:
    with pipe() as (reader, stream):
        display = JsonDisplay(stream)
        for number in range(2000):
            display(AssistantTextDelta(text="d" * 5000))
            display(AssistantText(text=f"{number} " + "x" * 10_000))
        closing = threading.Thread(target=lambda: (display.__exit__(), stream.close()))
        closing.start()
        records = [json.loads(line) for line in reader.read().splitlines()]
        closing.join()
    lost = 2000 - sum(record["type"] == "assistant_text" for record in records)
    assert lost > 0
    told = [record["message"].split(" ", 1) for record in records if record.get("code") == "EVENTS_DROPPED"]
    assert {rest for _, rest in told} == {"events left out: they could not be written in time."}
    assert sum(int(number.replace(",", "")) for number, _ in told) == lost  # twice, if the writer starts late
    assert sum(record["type"] == "assistant_text_delta" for record in records) < 1000


def test_a_closed_pipe_does_not_stop_the_loop() -> None:
    with pipe() as (reader, stream):
        display = LinesDisplay(stream)
        reader.close()
        with display:
            for _ in range(100):
                display(AssistantText(text="Hello"))


SLEEPY = """
import sys, time
from youbencha.cli.loop_display import choose_loop_display
from youbencha.events import AssistantText
with choose_loop_display(as_json=False, quiet=False) as display:
    for _ in range(300):
        display(AssistantText(text="x" * 1000))
print("the summary")
"""


def test_the_summary_follows_the_lines() -> None:
    done = subprocess.run([sys.executable, "-c", SLEEPY], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert (len(lines), lines[-1]) == (301, "the summary")


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (RateLimitSeen(status="allowed", resets_at=1.0), None),
        (RateLimitSeen(status="rejected", resets_at=None), "! the usage limit is reached"),
        (RateLimitSeen(status=None, resets_at=None), "! the provider limits the rate"),
    ],
)
def test_lines_about_usage_limits(event: Event, line: str | None) -> None:
    found = event_line(event)
    assert (found and found.plain()) == line


@pytest.mark.parametrize("kind", TYPE_NAMES, ids=TYPE_NAMES.get)
def test_no_text_of_an_event_controls_the_terminal(kind: type[Event]) -> None:
    hostile = "a\x1b[2J\x1b]0;x\x07\u202e\n\x9bb"
    values: dict[str, Any] = {
        "str": hostile,
        "Mapping[str, Any]": {"command": hostile},
        "bool": False,
    }
    values |= {"int": 1, "float": 1.0, "tuple[str, ...]": (hostile,), "Tokens": Tokens()}
    types = {field.name: str(field.type).removesuffix(" | None") for field in fields(kind)}
    line = event_line(kind(**{name: values[type_name] for name, type_name in types.items()}))
    assert line is None or line.plain().isprintable()


def test_paths_are_relative_to_the_loops_directory() -> None:
    call = ToolCalled(at=101.0, call_id="1", name="Read", arguments={"file_path": "/home/me/project/src/a.py"})
    with pipe() as (reader, stream):
        assert "⚙ Read src/a.py\n" in printed(LinesDisplay(stream), reader, stream, [LOOP[0], call])
