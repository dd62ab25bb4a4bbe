"""The events file: what agents write into it, and what the loop reads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from systems import posix_only
from youbencha.errors import YouBenchaError
from youbencha.loop.topics import MAX_PAYLOAD, TopicEvent, TopicLog, events_of_project, find_project


@pytest.fixture
def log(tmp_path: Path) -> TopicLog:
    (tmp_path / ".ralph").mkdir()
    return TopicLog(tmp_path / ".ralph" / "events.jsonl", tmp_path)


def test_what_is_appended_is_read_once(log: TopicLog) -> None:
    log.append(TopicEvent("build.done", "tests: pass", "2026-01-01T00:00:00Z"))
    first = log.read_new()
    assert first.events == (TopicEvent("build.done", "tests: pass", "2026-01-01T00:00:00Z"),)
    assert log.read_new(first.offset) == ((), first.offset, ())
    log.append(TopicEvent("review.done"))
    assert [event.topic for event in log.read_new(first.offset).events] == ["review.done"]


def test_the_line_is_what_the_original_writes(log: TopicLog) -> None:
    log.append(TopicEvent("a", "", "T"))
    log.append(TopicEvent("b", '{"tests": "pass"}', "T"), as_json=True)
    lines = [json.loads(line) for line in log.file.read_text().splitlines()]
    assert lines == [
        {"topic": "a", "payload": None, "ts": "T"},
        {"topic": "b", "payload": {"tests": "pass"}, "ts": "T"},
    ]


def test_a_missing_file_has_no_events(log: TopicLog) -> None:
    assert log.read_new(0) == ((), 0, ())


def test_a_line_that_is_still_being_written_is_read_when_it_is_complete(log: TopicLog) -> None:
    line = b'{"topic": "build.done", "payload": "\xc3\xa4"}\n'
    for cut in range(1, len(line) - 1):
        log.file.write_bytes(line[:cut])
        found = log.read_new()
        assert found.malformed == ()
        if found.events:  # complete, but for the line's end
            assert (found.events[0].topic, found.offset) == ("build.done", cut)
        else:
            assert found.offset == 0
    log.file.write_bytes(line)
    assert log.read_new().events == (TopicEvent("build.done", "ä"),)


def test_a_last_line_without_an_end_is_neither_lost_nor_joined_with_the_next(log: TopicLog) -> None:
    log.file.write_text('{"topic": "a"}')
    assert [event.topic for event in log.read_new().events] == ["a"]
    log.append(TopicEvent("b"))
    assert [event.topic for event in log.read_new().events] == ["a", "b"]
    assert [event.topic for event in log.read_new(len('{"topic": "a"}')).events] == ["b"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"not JSON", "is not a JSON object"),
        (b"[1]", "is not a JSON object"),
        (b'{"payload": "x"}', "has no valid `topic`"),
        (b'{"topic": 1}', "has no valid `topic`"),
        (b'{"topic": "two words"}', "has no valid `topic`"),
        (b'{"topic": "\\u001b[2J"}', "has no valid `topic`"),
        (b'{"topic": "' + b"x" * 300 + b'"}', "has no valid `topic`"),
        (b'{"topic": "a", "payload": "' + b"x" * 300_000 + b'"}', "is longer than 262,144 bytes"),
        (b"[" * 100_000, "is not a JSON object"),
        (b"\xff\xfe", "is not a JSON object"),
    ],
)
def test_a_malformed_line_is_reported_and_skipped(log: TopicLog, line: bytes, problem: str) -> None:
    log.file.write_bytes(b'{"topic": "before"}\n' + line + b'\n\n{"topic": "after", "ts": 5}\n')
    found = log.read_new()
    assert [event.topic for event in found.events] == ["before", "after"]
    assert [each.problem for each in found.malformed] == [problem]
    assert len(found.malformed[0].text) < 200
    assert found.offset == log.file.stat().st_size


@pytest.mark.parametrize(
    ("payload", "text"),
    [("null", ""), ('"text"', "text"), ('{"a": [1, "ü"]}', '{"a":[1,"ü"]}'), ("7", "7"), ("false", "false")],
)
def test_payloads(log: TopicLog, payload: str, text: str) -> None:
    log.file.write_text(f'{{"topic": "a", "payload": {payload}}}\n', encoding="utf-8")
    assert log.read_new().events == (TopicEvent("a", text),)


def test_a_huge_payload_is_cut(log: TopicLog) -> None:
    log.append(TopicEvent("a", "x" * 50_000))
    assert len(log.read_new().events[0].payload) < MAX_PAYLOAD + 20


def test_many_events_are_read_piece_by_piece(log: TopicLog) -> None:
    log.file.write_text("".join(f'{{"topic": "t{number}"}}\n' for number in range(2500)))
    assert len(log.read_new().events) == 1000
    events, malformed = log.read_all()
    assert ([event.topic for event in events], malformed) == ([f"t{number}" for number in range(2500)], [])


def test_a_file_that_became_shorter_is_read_from_its_start(log: TopicLog) -> None:
    log.append(TopicEvent("first", "x" * 100))
    offset = log.read_new().offset
    log.file.write_text('{"topic": "new"}\n')
    found = log.read_new(offset)
    assert [event.topic for event in found.events] == ["new"]
    assert "became shorter" in found.malformed[0].problem


@posix_only("links and pipes")
@pytest.mark.parametrize("kind", ["link", "link to the directory", "pipe", "directory"])
def test_what_is_not_a_file_is_neither_read_nor_written(tmp_path: Path, kind: str) -> None:
    secret = tmp_path / "outside" / "events.jsonl"
    secret.parent.mkdir()
    secret.write_text('{"topic": "secret"}\n')
    project = tmp_path / "project"
    project.mkdir()
    file = project / ".ralph" / "events.jsonl"
    if kind == "link to the directory":
        (project / ".ralph").symlink_to(secret.parent)
    else:
        file.parent.mkdir()
        {"link": lambda: file.symlink_to(secret), "pipe": lambda: os.mkfifo(file), "directory": file.mkdir}[kind]()
    log = TopicLog(file, project)
    with pytest.raises(OSError, match=r"link|regular|directory"):
        log.read_new()
    with pytest.raises(OSError, match=r"link|regular|directory"):
        log.append(TopicEvent("mine"))
    assert secret.read_text() == '{"topic": "secret"}\n'


APPEND = """
import sys; from pathlib import Path
from youbencha.loop.topics import TopicEvent, TopicLog
log = TopicLog(Path(sys.argv[1]))
for number in range(200):
    log.append(TopicEvent(f"{sys.argv[2]}.{number}", "x" * (number * 40)))
"""


def test_several_processes_can_publish_at_once(log: TopicLog) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", APPEND, str(log.file), str(number)]) for number in range(4)]
    assert [writer.wait(60) for writer in writers] == [0] * 4
    events, malformed = log.read_all()
    assert malformed == []
    assert sorted(event.topic for event in events) == sorted(f"{a}.{b}" for a in range(4) for b in range(200))


@given(
    st.lists(st.binary(max_size=60) | st.sampled_from([b'{"topic": "a"}', b'{"topic":"b","payload":{}}']), max_size=8)
)
def test_reading_in_pieces_finds_the_same_as_reading_at_once(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]
) -> None:
    file = tmp_path_factory.mktemp("pieces") / "events.jsonl"
    log = TopicLog(file)
    data = b"".join(line + b"\n" for line in lines)
    found: list[TopicEvent] = []
    offset = 0
    for end in (*range(0, len(data), 17), len(data)):
        file.write_bytes(data[:end])
        new = log.read_new(offset)
        found += new.events
        offset = new.offset
    file.write_bytes(data)
    at_once = log.read_all()[0]
    assert (found, offset) == (list(at_once), len(data))


def test_where_the_project_is(tmp_path: Path) -> None:
    deep = tmp_path / "project" / "src" / "deep"
    deep.mkdir(parents=True)
    (tmp_path / "project" / ".git").mkdir()
    assert find_project({}, deep) == tmp_path / "project"
    (tmp_path / "project" / "src" / ".ralph").mkdir()
    assert find_project({}, deep) == tmp_path / "project" / "src"
    events = str(tmp_path / "elsewhere" / ".ralph" / "events-1.jsonl")
    assert find_project({"RALPH_EVENTS_FILE": events}, deep) == tmp_path / "elsewhere"
    assert find_project({"RALPH_WORKSPACE_ROOT": "/given", "RALPH_EVENTS_FILE": events}, deep) == Path("/given")


def test_which_events_file_is_used(tmp_path: Path) -> None:
    ralph = tmp_path / ".ralph"
    assert events_of_project({}, tmp_path).file == ralph / "events.jsonl"
    ralph.mkdir()
    (ralph / "current-events").write_text(".ralph/events-20260101.jsonl\n")
    assert events_of_project({}, tmp_path).file == ralph / "events-20260101.jsonl"
    chosen = {"RALPH_EVENTS_FILE": str(ralph / "events-7.jsonl")}
    assert events_of_project(chosen, tmp_path).file == ralph / "events-7.jsonl"
    for outside in ("/etc/passwd", "../other/events.jsonl", ".ralph/../../x"):
        (ralph / "current-events").write_text(outside)
        with pytest.raises(YouBenchaError, match=r"not in \.ralph"):
            events_of_project({}, tmp_path)
