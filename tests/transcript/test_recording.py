"""Recordings: every event, bounded, without secrets, and read without trust."""

from __future__ import annotations

import json
import os
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from youbencha import events
from youbencha.events import (
    AssistantText,
    AssistantTextDelta,
    Event,
    IterationEnded,
    IterationStarted,
    LoopWaiting,
    ProcessStarted,
    ToolCalled,
    ToolReturned,
    TopicPublished,
    WarningRaised,
)
from youbencha.files import open_file
from youbencha.json_lines import decode_event
from youbencha.log.session import CallMetered, TurnTaken
from youbencha.process import Redactor
from youbencha.transcript.lines import Progress
from youbencha.transcript.recording import TYPE_NAMES, Recorder, RecordingReader, event_from_json, event_to_json
from youbencha.usage import Tokens

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
WHOLE = st.integers(-(2**63) + 1, 2**63 - 1)
NUMBER = st.floats(0, 2e11) | st.integers(0, 10**9)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | WHOLE | st.floats(-2e11, 2e11) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "str": TEXT,
    "int": WHOLE,
    "float": NUMBER,
    "bool": st.booleans(),
    "tuple[str, ...]": st.lists(TEXT, max_size=3).map(tuple),
    "Mapping[str, Any]": st.dictionaries(TEXT, JSON, max_size=3),
    "Tokens": st.builds(Tokens, *[st.none() | st.integers(0, 10**9)] * 4),
}


def values_of(annotation: str) -> st.SearchStrategy[Any]:
    optional = annotation.endswith(" | None")
    values = VALUES[annotation.removesuffix(" | None")]
    return st.none() | values if optional else values


def events_of(each: type[Event]) -> st.SearchStrategy[Event]:
    return st.builds(each, **{field.name: values_of(str(field.type)) for field in fields(each)})


ANY_EVENT = st.one_of([events_of(each) for each in TYPE_NAMES])


def parsed(line: bytes) -> Event | None:
    record = decode_event(line.strip())
    assert not isinstance(record, str)
    return event_from_json(record)


def read(file: Path) -> list[Event]:
    with open_file(file) as opened:
        return list(RecordingReader(opened))


def test_every_event_is_recorded() -> None:
    defined = {var for var in vars(events).values() if isinstance(var, type) and issubclass(var, Event)}
    assert set(TYPE_NAMES) == (defined - {Event}) | {CallMetered}
    assert TYPE_NAMES[AssistantTextDelta] == "assistant_text_delta"
    assert not any(field.name == "type" for each in TYPE_NAMES for field in fields(each))


@given(ANY_EVENT)
def test_an_event_survives_the_round_trip(event: Event) -> None:
    line = event_to_json(event)
    assert line.count(b"\n") == 1
    assert parsed(line) == event


@given(ANY_EVENT, st.data())
def test_a_damaged_event_is_read_or_skipped(event: Event, data: st.DataObject) -> None:
    record = json.loads(event_to_json(event))
    name = data.draw(st.sampled_from(sorted(record)))
    record[name] = data.draw(JSON)
    again = event_from_json(record)
    if again is not None:
        Progress().take(again)


@given(st.lists(st.binary(max_size=60) | ANY_EVENT.map(event_to_json), max_size=5))
@settings(max_examples=50)
def test_any_file_can_be_read(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]) -> None:
    file = tmp_path_factory.getbasetemp() / "any.jsonl"
    file.write_bytes(b"\n".join(lines))
    assert len(read(file)) <= sum(line.count(b"\n") + 1 for line in lines)


def test_a_session_is_written_while_it_runs_and_read_again(tmp_path: Path) -> None:
    file = tmp_path / "recording.jsonl"
    said = [IterationStarted(iteration=1, backend="claude", model=None), AssistantText(text="Hello"), ended(1)]
    recorder = Recorder(file, Redactor())
    for event in (*said, TurnTaken()):  # the last is for the log only
        recorder(event)
    deadline = time.monotonic() + 10
    while file.read_bytes().count(b"\n") != 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert read(file) == said
    recorder.close()
    assert read(file) == said


def ended(number: int) -> IterationEnded:
    return IterationEnded(
        iteration=number,
        outcome="completed",
        reason=None,
        duration_ms=5,
        input_tokens=1,
        output_tokens=2,
        cost_usd=None,
        files_changed=0,
    )


def recorded(file: Path, *happened: Event, max_bytes: int = 1 << 20, secrets: tuple[str, ...] = ()) -> list[Event]:
    problems: list[Event] = []
    recorder = Recorder(file, Redactor(secrets), max_bytes=max_bytes, on_problem=problems.append)
    for event in happened:
        recorder(event)
    recorder.close()
    assert problems == []
    return read(file)


def test_pieces_of_text_within_a_moment_are_one_line(tmp_path: Path) -> None:
    pieces = [AssistantTextDelta(text=text, at=at) for text, at in (("Hel", 1.0), ("lo", 1.05), (" you", 1.5))]
    other = AssistantTextDelta(text="sub", parent="toolu_1", at=1.51)
    assert recorded(tmp_path / "r", *pieces, other, AssistantText(text="Hello you", at=2.0)) == [
        AssistantTextDelta(text="Hello", at=1.0),
        AssistantTextDelta(text=" you", at=1.5),
        other,
        AssistantText(text="Hello you", at=2.0),
    ]


def test_a_long_result_is_cut_with_a_mark(tmp_path: Path) -> None:
    long = "x" * 1_000_000
    nested = {"edits": [{"text": long}]}
    (returned, written, edited) = recorded(
        tmp_path / "r",
        ToolReturned(call_id="1", content=long, is_error=False),
        ToolCalled(call_id="2", name="Write", arguments={"file_path": "a.py", "content": long}),
        ToolCalled(call_id="3", name="Edit", arguments=nested),
    )
    assert isinstance(returned, ToolReturned)
    assert returned.content == "x" * 49_152 + "\n[934,464 characters cut]\n" + "x" * 16_384
    assert returned.cut == 934_464
    assert isinstance(written, ToolCalled)
    assert written.arguments["file_path"] == "a.py"
    assert isinstance(edited, ToolCalled)
    assert edited.arguments["cut"].startswith('{"edits":')
    assert (tmp_path / "r").stat().st_size < 400_000


def test_the_file_stays_within_its_limit(tmp_path: Path) -> None:
    pieces = [AssistantTextDelta(text="word " * 100, at=float(number)) for number in range(100)]
    results = [ToolReturned(call_id=str(number), content="y" * 500, is_error=False) for number in range(200)]
    topics = [TopicPublished(topic="build.done", payload=str(number), source="agent") for number in range(3)]
    answers = [AssistantText(text=f"{number}") for number in range(3)]
    read_again = recorded(tmp_path / "r", *pieces, *results, *answers, *topics, ended(1), max_bytes=64 << 10)
    assert (tmp_path / "r").stat().st_size <= 64 << 10
    kinds = [type(event) for event in read_again]
    assert 0 < kinds.count(AssistantTextDelta) < 40  # a quarter of the room
    assert 0 < kinds.count(ToolReturned) < 200
    *_, full, first, second, third, answer, left_out, end = read_again
    assert isinstance(full, WarningRaised)
    assert full.code == "RECORDING_FULL"
    assert [first, second, third] == topics
    assert answer == answers[-1]
    assert isinstance(left_out, WarningRaised)
    assert left_out.message == f"{202 - kinds.count(ToolReturned)} events left out, because the recording is full."
    assert isinstance(end, IterationEnded)


def test_each_iteration_has_its_own_room(tmp_path: Path) -> None:
    results = [ToolReturned(call_id=str(number), content="y" * 500, is_error=False) for number in range(200)]
    events = recorded(
        tmp_path / "r", start(1), *results, ended(1), start(2), *results[:9], ended(2), max_bytes=64 << 10
    )
    assert events[-10:-1] == results[:9]


def test_an_agent_that_publishes_without_end_does_not_exceed_the_limit(tmp_path: Path) -> None:
    topics = [TopicPublished(topic="t", payload="z" * 900, source="agent") for _ in range(200)]
    recorded(tmp_path / "r", *topics, max_bytes=64 << 10)
    assert (tmp_path / "r").stat().st_size <= (64 << 10) + 300  # and the line that says so


def test_secrets_are_masked(tmp_path: Path) -> None:
    secret = 'hunter2"hunter2'
    recorded(
        tmp_path / "r",
        TopicPublished(topic="t", payload=f"it is {secret}", source="agent"),
        ToolCalled(call_id="1", name="Bash", arguments={"command": ["echo", secret], "code": secret, secret: {}}),
        AssistantTextDelta(text='hunter2"', at=1.0),
        AssistantTextDelta(text="hunter2", at=1.01),
        ToolReturned(call_id=None, content="sk-ant-api03-abcdefghijkl", is_error=False),
        secrets=(secret,),
    )
    written = (tmp_path / "r").read_text()
    assert "hunter2" not in written
    assert "api03" not in written
    assert written.count("[REDACTED]") == 6


def test_texts_of_the_harness_are_never_masked(tmp_path: Path) -> None:
    words = ("completed", "topic_published", "loop_waiting", "cooldown", "EVENTS_DROPPED", "agent_text")
    events = [
        LoopWaiting(reason="cooldown", until=1.0, kind="cooldown", at=0.5),
        WarningRaised(code="EVENTS_DROPPED", message="EVENTS_DROPPED"),
    ]
    recorded(tmp_path / "r", *events, secrets=words)
    first, second = map(json.loads, (tmp_path / "r").read_text().splitlines())
    assert (first["type"], first["kind"], first["reason"]) == ("loop_waiting", "cooldown", "[REDACTED]")
    assert (second["code"], second["message"]) == ("EVENTS_DROPPED", "[REDACTED]")


def test_a_recording_goes_on_after_a_kill(tmp_path: Path) -> None:
    file = tmp_path / "r"
    recorded(file, ended(1))
    with file.open("ab") as opened:
        opened.write(b'{"type":"assistant_te')
    assert recorded(file, ended(2), max_bytes=file.stat().st_size + 1000)[1:] == [ended_at(file, 2)]
    with open_file(file) as opened_again:
        reader = RecordingReader(opened_again)
        assert len(list(reader)) == 2
        assert reader.skipped == 1


def ended_at(file: Path, number: int) -> Event:
    return next(event for event in read(file) if isinstance(event, IterationEnded) and event.iteration == number)


def test_events_of_other_versions_are_skipped_and_counted(tmp_path: Path) -> None:
    file = tmp_path / "r"
    lines = [
        b'{"type":"from_the_future","at":1.0}',
        b'{"type":"guidance_given","at":1.0,"text":"go on","and":"a new field"}',
        b'{"type":"guidance_given","at":1.0}',
        b'{"type":"guidance_given","at":"now","text":"x"}',
        b'{"type":"guidance_given","at":1e300,"text":"x"}',
        b'["a"]',
        b"\xff\xfe",
        b"",
        b'{"type":"guidance_given","text":"' + b"x" * (5 << 20) + b'"}',
    ]
    file.write_bytes(b"\n".join(lines))
    with open_file(file) as opened:
        reader = RecordingReader(opened)
        assert list(reader) == [events.GuidanceGiven(at=1.0, text="go on")]
        assert reader.skipped == 7


def test_arguments_nested_without_end_do_not_stop_the_loop(tmp_path: Path) -> None:
    nested: dict[str, Any] = {}
    for _ in range(2000):
        nested = {"a": nested}
    assert recorded(tmp_path / "r", ToolCalled(call_id=None, name="X", arguments=nested, at=1.0)) == [
        ToolCalled(call_id=None, name="X", arguments={}, at=1.0)
    ]


def problems_of(file: Path) -> list[Event]:
    problems: list[Event] = []
    recorder = Recorder(file, Redactor(), on_problem=problems.append)
    for _ in range(3):
        recorder(ProcessStarted(pid=1, executable="x"))
        recorder(ended(1))
        time.sleep(0.05)
    recorder.close()
    return problems


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_one_warning() -> None:
    (problem,) = problems_of(Path("/dev/full"))
    assert isinstance(problem, WarningRaised)
    assert (problem.code, "No space left" in problem.message) == ("RECORDING_STOPPED", True)


def test_a_link_in_place_of_the_recording_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "users.txt").write_text("mine")
    (tmp_path / "r").symlink_to(tmp_path / "users.txt")
    assert len(problems_of(tmp_path / "r")) == 1
    assert (tmp_path / "users.txt").read_text() == "mine"


def test_a_recording_that_the_agent_removed_goes_on_in_a_new_file(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r", Redactor())
    recorder(start(1))
    (tmp_path / "r").unlink()
    recorder(start(2))
    recorder(ended(2))
    recorder.close()
    assert [getattr(event, "iteration", 0) for event in read(tmp_path / "r")] == [2, 2]


def test_a_link_that_the_agent_put_in_its_place_is_not_followed(tmp_path: Path) -> None:
    file, problems = tmp_path / "r", list[Event]()
    recorder = Recorder(file, Redactor(), on_problem=problems.append)
    recorder(start(1))
    file.unlink()
    file.symlink_to(tmp_path / "users.txt")
    recorder(start(2))
    recorder(ended(2))
    recorder.close()
    assert [type(problem) for problem in problems] == [WarningRaised]
    assert not (tmp_path / "users.txt").exists()


def start(number: int) -> IterationStarted:
    return IterationStarted(iteration=number, backend="claude", model=None)


def test_no_descriptor_or_thread_is_left(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    for number in range(20):
        recorded(tmp_path / str(number), ended(1))
    assert not before or len(os.listdir("/proc/self/fd")) <= before
