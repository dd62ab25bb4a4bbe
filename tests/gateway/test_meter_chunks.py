"""With any chunking or truncation, a meter reports what is known, and never fails."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metered_streams import WIRE_NAMES, Answer, answer, chunkings, cut_at, every_answer

from youbencha.gateway.metering import BodyMeter, Metered, StreamMeter
from youbencha.gateway.wires import WIRES, WireName
from youbencha.gateway.wires.chat import ChatUsage
from youbencha.usage import Tokens

every_wire = pytest.mark.parametrize("wire", WIRE_NAMES)
a_few = settings(max_examples=settings().max_examples // 6)
"""Few, because each test runs them for every answer."""


def all_tokens(metered: Metered) -> int:
    return sum(number or 0 for number in metered.tokens)


@every_answer
@a_few
@given(data=st.data())
def test_any_chunking_gives_the_same(wire: WireName, stream: bool, data: st.DataObject) -> None:
    whole = answer(wire, stream)
    assert whole.metered(data.draw(chunkings(whole.raw))) == whole.metered()


@every_wire
@pytest.mark.parametrize("end", [b"\r\n", b"\r"])
@a_few
@given(data=st.data())
def test_other_line_ends(wire: WireName, end: bytes, data: st.DataObject) -> None:
    whole = answer(wire)
    other = whole.raw.replace(b"\n", end)
    assert whole.metered(data.draw(chunkings(other))) == whole.metered()


@every_answer
def test_cut_off_anywhere(wire: WireName, stream: bool) -> None:
    """In the middle of an event, of a character, of a number: never more than the whole, never complete."""
    whole = answer(wire, stream)
    everything = whole.metered()
    meter = WIRES[wire].meter(whole.content_type)
    for place in range(len(whole.raw)):
        seen = meter.result()
        assert not seen.complete, place
        assert all_tokens(seen) <= all_tokens(everything)
        assert (seen.tokens.output or 0) <= (everything.tokens.output or 0)
        assert stream or seen.tokens == Tokens()
        meter.feed(whole.raw[place : place + 1])
    assert meter.result() == everything


@every_wire
def test_counts_never_decrease_within_a_stream(wire: WireName) -> None:
    whole = answer(wire)
    meter = WIRES[wire].meter(whole.content_type)
    seen = []
    for event in whole.raw.split(b"\n\n"):
        seen.append(meter.result())
        meter.feed(event + b"\n\n")
    sums = [all_tokens(each) for each in seen]
    assert sums == list(accumulate(sums, max))


@every_answer
@given(chunks=st.lists(st.binary(max_size=200), max_size=20))
def test_garbage_never_raises(wire: WireName, stream: bool, chunks: list[bytes]) -> None:
    assert not answer(wire, stream).metered(chunks).complete


PIECES = st.sampled_from(
    [b"data: ", b"data:", b"event: ", b"\n", b"\r\n", b"\r", b"\n\n", b":", b"[DONE]", b"{}", b"[]", b"null", b"1e999",
     b'{"type":"message_start","message":', b'{"type":"message_delta","usage":', b'{"type":"message_stop"}', b"}", b"{",
     b'"usage":', b'{"choices":[', b'{"delta":', b'"error":', b'{"usageMetadata":', b'"candidates":[{}]',
     b"\xef\xbb\xbf", b'{"type":"response.completed","response":',
     b'{"input_tokens":1}', b'"\\ud800"', b"content_block_delta",
     b"\xff"]
)  # fmt: skip


@every_answer
@a_few
@given(pieces=st.lists(PIECES, max_size=40))
def test_similar_input_never_raises(wire: WireName, stream: bool, pieces: list[bytes]) -> None:
    given = answer(wire, stream)
    assert given.metered(pieces) == given.metered([b"".join(pieces)])


@every_answer
@a_few
@given(data=st.data())
def test_a_damaged_answer_never_raises(wire: WireName, stream: bool, data: st.DataObject) -> None:
    whole = answer(wire, stream)
    raw = bytearray(whole.raw)
    for place in data.draw(st.lists(st.integers(0, len(raw) - 1), min_size=1, max_size=8)):
        raw[place] = data.draw(st.integers(0, 255))
    whole.metered([bytes(raw)])


# -- too large


def test_a_body_that_is_too_large_is_not_kept() -> None:
    whole = answer("openai-chat", False)
    for most, complete in ((len(whole.raw), True), (len(whole.raw) - 1, False)):
        meter = BodyMeter(ChatUsage, max_bytes=most)
        for chunk in cut_at(whole.raw, [10, 200]):
            meter.feed(chunk)
        assert meter.result().complete is complete


def test_a_large_event_hides_nothing_after_it() -> None:
    whole = answer("openai-chat")
    meter = StreamMeter(ChatUsage())
    large = b"data: " + b"x" * (17 * 1024 * 1024)
    for chunk in (large[:100], large[100:], b"\n", b"\n", whole.raw):
        meter.feed(chunk)
    assert meter.result() == whole.metered()


def test_content_types() -> None:
    whole = answer("gemini")
    for content_type in ("text/event-stream", "Text/Event-Stream; charset=utf-8"):
        assert Answer("gemini", content_type, whole.raw).metered().complete
    assert not Answer("gemini", "", whole.raw).metered().complete
