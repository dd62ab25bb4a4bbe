"""Parsing of server-sent events in any chunking."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from metered_streams import chunkings

from youbencha.gateway.sse import SseEvent, SseParser, write_event


def split(*chunks: bytes, **options: int) -> list[SseEvent]:
    parser = SseParser(**options)  # type: ignore[arg-type]
    return [event for chunk in chunks for event in parser.feed(chunk)]


@pytest.mark.parametrize(
    ("raw", "events"),
    [
        (b"data: a\n\n", [(b"", b"a")]),
        (b"event: e\ndata: a\n\n", [(b"e", b"a")]),
        (b"data: a\nevent: e\n\n", [(b"e", b"a")]),
        (b"event: e\nevent: f\ndata: a\n\n", [(b"f", b"a")]),
        (b"data:a\n\n", [(b"", b"a")]),
        (b"data:  a\n\n", [(b"", b" a")]),
        (b"data: a\ndata: b\ndata\n\n", [(b"", b"a\nb\n")]),
        (b": comment\n\n:\nid: 3\nretry: 5\ndata: a\nother\n\n", [(b"", b"a")]),
        (b"event: ping\n\ndata: a\n\n", [(b"", b"a")]),
        (b"\n\n\n\n\ndata: a\n\n\n\n\nevent: e\ndata: b\n\n\n", [(b"", b"a"), (b"e", b"b")]),
        (b"\xef\xbb\xbfdata: a\n\n", [(b"", b"a")]),
        (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [(b"", b"a")]),
        (b"event: data: e\ndata: a\n\n", [(b"data: e", b"a")]),
        (b"data: a: data: b\n\n", [(b"", b"a: data: b")]),
        (b"data: \n\n", [(b"", b"")]),
        (b"data: a\n", []),
        (b"data: a\n\ndata: b", [(b"", b"a")]),
        (b"event: " + b"e" * 500 + b"\ndata: a\n\n", [(b"e" * 500, b"a")]),
        ("data: ü🙂\n\n".encode(), [(b"", "ü🙂".encode())]),
    ],
)
def test_parsing_of_events(raw: bytes, events: list[SseEvent]) -> None:
    for end in (b"\n", b"\r\n", b"\r"):
        given, wanted = raw.replace(b"\n", end), events
        assert split(given) == wanted
        assert split(*(bytes([byte]) for byte in given)) == wanted


def test_an_event_is_complete_with_its_last_byte() -> None:
    parser = SseParser()
    assert parser.feed(b"data: a\r\n") == []
    assert parser.feed(b"\r") == [(b"", b"a")]
    assert parser.feed(b"\ndata: b\n") == []
    assert parser.feed(b"\n") == [(b"", b"b")]


LINES = st.sampled_from(
    [b"data: a", b"data: bb", b"event: e", b"event: d\ndata: x", b": c", b"\xef\xbb\xbf", b"", b"ata", b"\n", b"\r\n"]
)
STREAMS = st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\r", b"\r\n", b"\n\n", b"\r\n\r\n"]))).map(
    lambda lines: b"".join(line + end for line, end in lines)
)


def parsed(chunks: list[bytes], most: int) -> tuple[list[SseEvent], int]:
    parser = SseParser(skim=b"event: d\ndata: ", max_event_bytes=most)
    found = [event for chunk in chunks for event in parser.feed(chunk)]
    return found + parser.finish(), parser.dropped


@settings(deadline=None)
@given(raw=STREAMS, most=st.integers(1, 30), data=st.data())
@example(raw=b"data: aaaa\n\n\ndata: b\n\n", most=8, data=None)
def test_any_chunking_gives_the_same_events(raw: bytes, most: int, data: st.DataObject | None) -> None:
    chunks = data.draw(chunkings(raw)) if data else [bytes([byte]) for byte in raw]
    assert parsed([raw], most) == parsed(chunks, most) == parsed([raw + b"\n\n"], most)


@pytest.mark.parametrize("size", range(1, 30))
def test_a_large_event_is_dropped_and_counted(size: int) -> None:
    """However it comes, and whatever is around it."""
    event = b"data: " + b"x" * size
    for raw in (event + b"\n\ndata: y\n\n", b"\ndata: z\n\n" + event + b"\r\n\r\n\n\ndata: y\n\n"):
        for step in (1, 2, 7, 1000):
            parser = SseParser(max_event_bytes=20)
            chunks = [raw[start : start + step] for start in range(0, len(raw), step)]
            found = [data for chunk in chunks for _, data in parser.feed(chunk)]
            assert (b"x" * size in found) is (len(event) <= 20)
            assert found[-1] == b"y"
            assert parser.dropped == (len(event) > 20)


def test_dropped_events_are_not_buffered() -> None:
    parser = SseParser(max_event_bytes=1000)
    for _ in range(1000):
        parser.feed(b"x" * 100)
        assert len(parser._pending) <= 1100
    assert (parser.finish(), parser.dropped) == ([], 1)


@pytest.mark.parametrize("last", [b"data: b", b"data: b\n", b"data: b\r\n", b"data: b\r"])
def test_a_last_event_without_a_blank_line(last: bytes) -> None:
    parser = SseParser()
    assert parser.feed(b"data: a\n\n" + last) == [(b"", b"a")]
    assert parser.finish() == [(b"", b"b")]
    assert parser.finish() == []


def test_events_with_the_skim_prefix_are_skipped() -> None:
    parser = SseParser(skim=b"event: d\ndata: ")
    assert parser.feed(b"event: d\ndata: x\n\nevent: e\ndata: y\n\n") == [(b"e", b"y")]


@given(name=st.sampled_from([b"", b"e", "ü\u2028".encode()]), lines=st.lists(st.binary(max_size=9), min_size=1))
def test_written_events_can_be_parsed(name: bytes, lines: list[bytes]) -> None:
    data = b"\n".join(line.replace(b"\r", b"").replace(b"\n", b"") for line in lines)
    assert split(write_event(name, data)) == [(name, data)]
