"""Merging, splitting and bounding output: for any bytes, any chunks, any order, nothing is lost or torn."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from youbencha.process import Redactor, Stream
from youbencha.process.output import Capture, LineMerger, LineSplitter, truncation_marker, whole_characters

# Few letters, so that lines, ends of lines and halves of characters meet often.
PIECE = st.lists(st.sampled_from([b"a", b"bc", b"\n", "é".encode(), "🎉".encode(), b"\xff", b"\xe2\x82"])).map(b"".join)
CHUNKS = st.lists(st.tuples(st.sampled_from(Stream), PIECE), max_size=40)


def sent(chunks: list[tuple[Stream, bytes]], stream: Stream) -> bytes:
    return b"".join(data for which, data in chunks if which is stream)


@given(
    st.lists(st.tuples(st.sampled_from(Stream), st.lists(st.integers(0, 9), max_size=4), st.booleans()), max_size=40)
)
def test_merging_keeps_every_line_whole_and_each_stream_in_order(chunks: list[tuple[Stream, list[int], bool]]) -> None:
    """Bytes that tell where they came from: capital letters from one stream, small ones from the other."""
    merger, merged, expected = LineMerger(), b"", {Stream.OUT: b"", Stream.ERR: b""}
    for stream, numbers, ends_line in [*chunks, (Stream.OUT, [], True), (Stream.ERR, [], True)]:
        data = bytes((65 if stream is Stream.OUT else 97) + number for number in numbers) + b"\n" * ends_line
        expected[stream] += data
        merged += merger.feed(stream, data)
    merged += merger.finish()
    lines = merged.split(b"\n")
    assert not any(re.search(rb"[A-Z]", line) and re.search(rb"[a-z]", line) for line in lines)
    for stream, letters in ((Stream.OUT, rb"[A-Z]"), (Stream.ERR, rb"[a-z]")):
        assert [line for line in lines if re.search(letters, line)] == expected[stream].split()
    assert merged.count(b"\n") == sum(data.count(b"\n") for data in expected.values())


def test_lines_of_both_streams_stay_whole() -> None:
    merger = LineMerger()
    fed = [
        merger.feed(Stream.OUT, b'{"a": '),
        merger.feed(Stream.ERR, b"warning\n"),
        merger.feed(Stream.OUT, b"1}\n{"),
        merger.feed(Stream.ERR, b"another"),
        merger.feed(Stream.OUT, b"}\n"),
        merger.feed(Stream.ERR, b" one\n"),
    ]
    assert fed == [b'{"a": ', b"", b"1}\nwarning\n{", b"", b"}\nanother", b" one\n"]
    assert merger.finish() == b""


def test_an_endless_line_delays_the_other_stream_only_up_to_a_limit() -> None:
    merger = LineMerger(max_held=10)
    assert merger.feed(Stream.OUT, b"no end") == b"no end"
    assert merger.feed(Stream.ERR, b"12345\n") == b""
    assert merger.feed(Stream.ERR, b"67890\n") == b"12345\n67890\n"
    assert merger.feed(Stream.OUT, b" yet\n") == b" yet\n"


@given(st.lists(PIECE), st.integers(1, 6))
def test_splitting_cuts_lines_at_the_maximum_length(chunks: list[bytes], longest: int) -> None:
    lines: list[bytes] = []
    splitter = LineSplitter(lines.append, longest)
    for chunk in chunks:
        splitter.feed(chunk)
    splitter.finish()
    *whole, last = b"".join(chunks).split(b"\n")
    assert lines == [line[:longest] for line in whole] + ([last[:longest]] if last else [])


@given(PIECE)
def test_whole_characters_never_splits_one(data: bytes) -> None:
    whole = whole_characters(data)
    assert len(data) - 3 <= whole <= len(data)
    assert data[:whole].decode(errors="replace") + data[whole:].decode(errors="replace") == data.decode(
        errors="replace"
    )


@given(st.text(), st.integers(0, 8))
def test_whole_characters_of_real_text(text: str, cut: int) -> None:
    data = text.encode()[: len(text.encode()) - cut] if cut else text.encode()
    data[: whole_characters(data)].decode()


@given(st.lists(PIECE), st.integers(0, 30))
def test_text_and_log_are_the_beginning_and_a_mark(chunks: list[bytes], limit: int) -> None:
    log = io.BytesIO()
    capture = Capture(redactor=Redactor(), limit=limit, max_line_bytes=100, log=log)
    for chunk in chunks:
        capture.feed(Stream.OUT, chunk)
    capture.finish()
    everything = b"".join(chunks)
    captured = capture.take()
    assert (captured.end is not None) == capture.truncated == (len(everything) > limit)
    assert log.getvalue().decode(errors="replace") == captured.output == captured.printed
    if not capture.truncated:
        assert log.getvalue() == everything
        return
    kept = log.getvalue().removesuffix(truncation_marker(limit))
    assert everything.startswith(kept)
    assert limit - 3 <= len(kept) <= limit


@given(st.integers(0, 60))
def test_a_secret_across_the_limit_is_masked(before: int) -> None:
    log = io.BytesIO()
    capture = Capture(redactor=Redactor(["hunter2-hunter2"]), limit=50, max_line_bytes=100, log=log)
    capture.feed(Stream.OUT, b"." * before + b"hunter2-hunter2" + b"." * 100)
    capture.finish()
    captured = capture.take()
    assert "hunter" not in captured.output
    assert b"hunter" not in log.getvalue()
    assert captured.end is not None
    assert "hunter" not in captured.end.text
    assert captured.printed.startswith(("." * before + "hunter2-hunter2")[:50])


@given(CHUNKS)
def test_the_whole_capture_keeps_every_byte(chunks: list[tuple[Stream, bytes]]) -> None:
    log, lines = io.BytesIO(), list[bytes]()
    capture = Capture(redactor=Redactor(), limit=10_000, max_line_bytes=10_000, log=log, on_line=lines.append)
    for stream, data in chunks:
        capture.feed(stream, data)
    capture.finish()
    assert capture.total_bytes == len(log.getvalue()) == sum(len(data) for _, data in chunks)
    assert sorted(log.getvalue()) == sorted(b"".join(data for _, data in chunks))
    assert b"\n".join(lines) == sent(chunks, Stream.OUT).removesuffix(b"\n")


class TornDisk(io.RawIOBase):
    """Takes a part of each write, as an unbuffered file may."""

    def __init__(self) -> None:
        self.got = b""

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.got += bytes(data[:3])
        return min(3, len(data))


def test_a_log_with_partial_writes_gets_everything() -> None:
    disk = TornDisk()
    capture = Capture(redactor=Redactor(), limit=100, max_line_bytes=100, log=disk)  # type: ignore[arg-type]
    capture.feed(Stream.OUT, b"0123456789")
    assert disk.got == b"0123456789"
    assert capture.log_error is None


@pytest.mark.parametrize("limit", [1024 * 1024, 10 * 1024 * 1024])
def test_the_truncation_mark_names_the_limit(limit: int) -> None:
    assert f"[OUTPUT TRUNCATED: the limit of {limit // 1048576}MB ({limit} bytes)".encode() in truncation_marker(limit)
