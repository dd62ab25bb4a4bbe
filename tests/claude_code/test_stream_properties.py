"""What holds for any input: nothing crashes, nothing is lost, order and grouping do not matter."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
from stream_samples import (
    INIT,
    RESULT,
    TRANSCRIPTS,
    assistant,
    feed,
    line,
    lines,
    log_of,
    parse_line,
    text,
    tool_result,
    user,
)

from endings import run_ending
from youbencha.adapters.claude_code.options import ClaudeCode
from youbencha.adapters.cli_agent.stream import MALFORMED_WARNINGS
from youbencha.adapters.cli_agent.verdict import judge
from youbencha.events import AssistantText, AssistantTextDelta, Event, ToolReturned, WarningRaised
from youbencha.log.model import YouBenchaLog

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
REAL = [
    json.loads(one)
    for path in sorted(TRANSCRIPTS.glob("*.ndjson"))
    for one in path.read_bytes().split(b"\n")
    if one.startswith(b"{")
]
AT = "2026-01-01T00:00:00Z"


def check(data: bytes) -> None:
    """Every way through the package, on the same data."""
    for one in data.split(b"\n"):
        events = parse_line(one)
        assert all(isinstance(event, Event) for event in events)
        assert len([event for event in events if isinstance(event, WarningRaised)]) <= 1
    session = feed(data)[0].session()
    for code in (0, 1, None):
        ending = run_ending(code, output=data.decode("utf-8", "replace"), facts=session.facts)
        verdict = judge(ClaudeCode, ending, at=AT)
        assert (verdict.status == "success") == (not verdict.errors)
    for log in (log_of(data), log_of(data, session=session)):
        assert YouBenchaLog.model_validate_json(log.model_dump_json()).messages == log.messages


@given(st.binary(max_size=400))
def test_any_bytes(data):
    check(data)


@given(st.text(alphabet='{}[]":,typeassistantresult\\ud83d\x1b[0m\r\n 01', max_size=200))
def test_any_almost_json(data):
    check(data.encode())


@given(ANYTHING)
def test_any_json(value):
    check(json.dumps(value).encode())


@st.composite
def disturbed(draw: st.DrawFn) -> bytes:
    """A real record with anything in place of one of its values, at any depth."""
    record = json.loads(json.dumps(draw(st.sampled_from(REAL))))
    place = record
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = draw(st.sampled_from(keys))
        inner = place[key]
        if isinstance(inner, dict | list) and inner and draw(st.booleans()):
            place = inner
            continue
        place[key] = draw(ANYTHING)
        return json.dumps(record).encode()


@given(disturbed())
def test_anything_in_any_field(one):
    check(lines(line(**INIT), one, line(**RESULT)))


@given(st.lists(st.sampled_from(REAL), max_size=12), st.randoms(use_true_random=False))
def test_any_sequence_of_real_lines_gives_the_events_of_each(records, random):
    dumped = [json.dumps(record).encode() for record in records]
    alone = [type(event) for one in dumped for event in parse_line(one)]
    random.shuffle(dumped)
    together = [type(event) for one in dumped for event in parse_line(one)]
    assert sorted(map(str, alone)) == sorted(map(str, together))
    check(b"\n".join(dumped))


@given(st.lists(st.text(), max_size=8))
def test_no_text_is_lost(parts):
    stream = lines(line(**INIT), *(assistant(text(part), id=str(at)) for at, part in enumerate(parts)))
    _, events = feed(stream)
    assert "".join(event.text for event in events if isinstance(event, AssistantText)) == "".join(parts)
    assert not any(isinstance(event, WarningRaised) for event in events)


@given(st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\x1b")), max_size=8))
def test_no_text_is_missing_in_the_log(parts):
    stream = lines(line(**INIT), *(assistant(text(part)) for part in parts), line(**RESULT))
    said = [part for part in parts if part]
    assert [message.content for message in log_of(stream).messages] == (said or [RESULT["result"]])


@given(st.text(min_size=1), st.integers(1, 7))
def test_deltas_add_up_to_the_text(said, size):
    cut = [said[at : at + size] for at in range(0, len(said), size)]
    deltas = [{"type": "content_block_delta", "delta": {"type": "text_delta", "text": part}} for part in cut]
    events = [event for delta in deltas for event in parse_line(line(type="stream_event", event=delta))]
    assert "".join(event.text for event in events if isinstance(event, AssistantTextDelta)) == said


@given(st.text(), st.booleans())
def test_tool_results_are_complete(content, as_blocks):
    (event,) = parse_line(user(tool_result([text(content)] if as_blocks else content)))
    assert isinstance(event, ToolReturned)
    assert event.content == content


@given(st.lists(st.binary(max_size=20), max_size=60))
def test_warnings_are_bounded(noise):
    session, events = feed(b"\n".join(noise))
    warned = [event for event in events if isinstance(event, WarningRaised)]
    assert len(warned) <= MALFORMED_WARNINGS
    assert session.facts().malformed_lines >= len(warned)
