"""The usage event that only the gateway requested: requested, and hidden from the client."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metered_streams import SCRIPT, answer, chunkings, fetch

from other_wires import CHAT
from talking import scripted, send
from youbencha.gateway.wires.chat import OpenAIChat, UsageChunkFilter

USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":1}}\n\n'


def requesting_usage(body: bytes, parsed: Any) -> tuple[bytes, bool]:
    """The body to send, and whether it requests a usage that the client does not."""
    sent, stream_filter = OpenAIChat().request_usage(body, parsed)
    return sent, stream_filter is not None


def filtered(chunks: list[bytes]) -> bytes:
    passing = UsageChunkFilter()
    return b"".join(passing.feed(chunk) for chunk in chunks) + passing.finish()


def without_usage(raw: bytes) -> bytes:
    events = raw.split(b"\n\n")
    return b"\n\n".join(event for event in events if b'"choices":[],' not in event)


def test_only_the_usage_event_is_removed_from_a_real_stream() -> None:
    raw = answer("openai-chat").raw
    assert filtered([raw]) == without_usage(raw)
    assert len(without_usage(raw)) < len(raw)


@settings(max_examples=60, deadline=None)
@given(end=st.sampled_from([b"\n", b"\r\n", b"\r"]), data=st.data())
def test_any_chunking_passes_the_same_bytes(end: bytes, data: st.DataObject) -> None:
    raw = answer("openai-chat").raw
    chunks = data.draw(chunkings(raw.replace(b"\n", end)))
    assert filtered(chunks) == without_usage(raw).replace(b"\n", end)


EVENTS = st.lists(
    st.sampled_from(
        [USAGE, USAGE.replace(b"\n", b"\r\n"), USAGE.replace(b"\n", b"\r"), USAGE[:-1], b"\n", b"\r", b"\r\n",
         b'data: {"choices": [ ],\ndata: "usage":{}}\n\n', b"data: a\n\n", b"data: b\r\n\r\n", b"event: c\r\r", b"\xff"]
    )
).map(b"".join)  # fmt: skip


@settings(deadline=None)
@given(raw=EVENTS, data=st.data())
def test_any_chunking_of_unusual_streams(raw: bytes, data: st.DataObject) -> None:
    assert filtered(data.draw(chunkings(raw))) == filtered([raw])


@settings(deadline=None)
@given(chunks=st.lists(st.binary(max_size=100)))
def test_everything_else_passes(chunks: list[bytes]) -> None:
    assert filtered(chunks) == b"".join(chunks)


@pytest.mark.parametrize(
    "data",
    [
        b'{"choices":[],"prompt_filter_results":[]}',
        b'{"choices":[],"usage":null}',
        b'{"choices":[{"delta":{"content":"\\"choices\\":[] \\"usage\\":{}"}}],"usage":{"prompt_tokens":1}}',
        b'{"usage":{"prompt_tokens":1}}',
        b'{"choices":[],"usage":{"prompt_tokens":1}',
        b'["choices", {"choices":[],"usage":{}}]',
        b"[DONE]",
    ],
)
def test_events_that_are_not_usage_events(data: bytes) -> None:
    raw = b"data: " + data + b"\n\n"
    assert filtered([raw]) == raw


@pytest.mark.parametrize(
    "event",
    [
        USAGE,
        USAGE.replace(b":", b" : ").replace(b"data :", b"data:"),
        b"event: x\nid: 4\n" + USAGE,
        b'data: {"choices":[],\ndata: "usage":{}}\n\n',
    ],
)
def test_usage_events(event: bytes) -> None:
    assert filtered([b"data: a\n\n" + event + b"data: b\n\n"]) == b"data: a\n\ndata: b\n\n"


def test_only_an_incomplete_event_is_held_back() -> None:
    passing = UsageChunkFilter()
    assert passing.feed(b"data: a\n\nda") == b"data: a\n\n"
    assert passing.feed(b"ta: b\n") == b""
    assert passing.feed(b"\n") == b"data: b\n\n"
    assert passing.feed(b"data: c\r\n\r") == b"data: c\r\n\r"
    assert passing.feed(b"\n") == b"\n"
    assert passing.feed(USAGE[:20]) == b""
    assert passing.feed(USAGE[20:] + b"data: [D") == b""
    assert passing.finish() == b"data: [D"
    assert passing.finish() == b""


def test_the_event_may_be_last_and_incomplete() -> None:
    assert filtered([b"data: a\n\n", USAGE[:-1]]) == b"data: a\n\n"


def test_a_large_event_is_passed_on_immediately() -> None:
    large = b'data: {"usage":{},"choices":[],"x":"' + b"x" * 100_000 + b'"}\n\n'
    passing = UsageChunkFilter()
    begun = passing.feed(large[:90_000])
    assert len(begun) >= 89_990
    assert begun + passing.feed(large[90_000:] + USAGE + b"data: a\n\n") == large + b"data: a\n\n"
    assert filtered([large, USAGE]) == large


# -- asking


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({}, True),
        ({"stream_options": None}, True),
        ({"stream_options": {}}, True),
        ({"stream_options": {"include_usage": False, "include_obfuscation": False}}, True),
        ({"stream_options": {"include_usage": True}}, False),
        ({"stream_options": "wrong"}, False),
        ({"stream": False}, False),
        ({"stream": "true"}, False),
        ({"stream": None}, False),
    ],
)
def test_usage_is_requested_once(options: dict[str, Any], asked: bool) -> None:
    request = {"model": "m", "stream": True, "seed": 2**70, "user": "ü"} | options
    body = json.dumps(request).encode()
    changed, was_added = requesting_usage(body, json.loads(body))
    assert was_added is asked
    if not asked:
        assert changed == body
        return
    given = options.get("stream_options") or {}
    assert json.loads(changed) == request | {"stream_options": given | {"include_usage": True}}


def test_the_clients_bytes_are_kept() -> None:
    body = b' \n{ "stream" : true, "temperature": 1.10, "user": "\\u00fc" }\n'
    changed, _ = requesting_usage(body, json.loads(body))
    assert changed.replace(b'"stream_options":{"include_usage":true},', b"") == body


def test_a_body_that_cannot_be_serialized_is_unchanged() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    assert requesting_usage(b"{}", {"stream": True, "stream_options": {}, "deep": deep}) == (b"{}", False)


async def test_the_client_gets_the_stream_it_requested() -> None:
    async with scripted(SCRIPT) as model:
        body = json.dumps({**CHAT.body, "stream_options": None, "stream": True}).encode()
        asking, was_added = requesting_usage(body, json.loads(body))
        headers = {**CHAT.key, "content-type": "application/json"}
        heard = await send(model, "POST", CHAT.path, data=asking, headers=headers)
        plain = await fetch(model, "openai-chat", stream=True, with_usage=False)
    assert was_added
    assert b'"choices":[],"usage":{' in heard.raw
    seen = filtered([heard.raw])
    assert b'"usage":{' not in seen
    assert seen.count(b"\n\n") == plain.raw.count(b"\n\n")
    assert seen.endswith(b"data: [DONE]\n\n")
