"""A path split over deltas is found with any chunking, and the rest is unchanged."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from cassette_helpers import HERE, SSE, THERE, places, whole
from hypothesis import given
from hypothesis import strategies as st

from talking import parse_events
from youbencha.gateway.cassette.answers import (
    DeltaField,
    PlaceholderWriter,
    Span,
    delta_fields,
    fill,
    record_answer,
    replay_answer,
    rewrite,
)
from youbencha.gateway.cassette.matching import path_forms, placeholder_texts
from youbencha.process import Redactor

SECRET = "correct-horse-battery-staple"
WORDS = st.sampled_from(
    [
        f" {HERE}",
        f" {HERE}/a",
        f" {HERE}b",
        f" x{HERE}",
        "{{workspace}}",
        "{{=home}}",
        "{",
        "{{",
        "}}",
        "é\U0001f600",
        '"',
        "\\n",
        " x",
    ]
)
TEXTS = st.lists(WORDS, max_size=8).map("".join)
CUTS = st.lists(st.integers(0, 400), max_size=12)


def pieces(text: str, cuts: list[int]) -> list[str]:
    at = sorted({0, *(cut % (len(text) + 1) for cut in cuts), len(text)})
    return [text[start:end] for start, end in pairwise(at)]


def replayed(events: list[dict[str, Any]], *, secrets: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    raw = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
    writer = PlaceholderWriter(path_forms(places()), {})
    kept = record_answer(200, SSE, [(1.0, raw)], writer, Redactor(secrets))
    assert kept is not None
    for secret in secrets:
        assert secret not in json.dumps(kept)
    return parse_events(whole(replay_answer(kept, fill(placeholder_texts(places(THERE))), "instant")))


def moved(text: str) -> str:
    """Only where the path begins and ends: a longer one is another."""
    longer = {f"{HERE}b": "\0", f" x{HERE}": "\1"}
    for path, mark in longer.items():
        text = text.replace(path, mark)
    text = text.replace(str(HERE), str(THERE))
    for path, mark in longer.items():
        text = text.replace(mark, path)
    return text


def anthropic(kind: str, field: str, parts: list[str]) -> list[dict[str, Any]]:
    deltas = [
        {"type": "content_block_delta", "index": 3, "delta": {"type": kind, field: part}, "n": n}
        for n, part in enumerate(parts)
    ]
    return [{"type": "message_start"}, *deltas, {"type": "message_stop"}]


@given(text=TEXTS, cuts=CUTS)
def test_any_chunking_of_a_text(text: str, cuts: list[int]) -> None:
    given_events = anthropic("text_delta", "text", pieces(text, cuts))
    got = replayed(given_events)
    assert "".join(event["delta"]["text"] for event in got[1:-1]) == moved(text)
    assert [event.get("n") for event in got] == [event.get("n") for event in given_events]


@given(text=TEXTS, cuts=CUTS)
def test_any_chunking_of_json(text: str, cuts: list[int]) -> None:
    got = replayed(anthropic("input_json_delta", "partial_json", pieces(json.dumps({"path": text}), cuts)))
    assert json.loads("".join(event["delta"]["partial_json"] for event in got[1:-1])) == {"path": moved(text)}


@given(cuts=CUTS, before=TEXTS)
def test_a_secret_in_pieces(cuts: list[int], before: str) -> None:
    text = f"{before} {SECRET} after"
    got = replayed(anthropic("text_delta", "text", pieces(text, cuts)), secrets=(SECRET,))
    assert "".join(event["delta"]["text"] for event in got[1:-1]) == moved(text.replace(SECRET, "[REDACTED]"))


def test_parallel_texts_do_not_mix() -> None:
    """Half a path in one block, half in another, is no path; and the blocks may come in turns."""
    half = len(str(HERE)) // 2
    one, two = str(HERE)[:half], str(HERE)[half:]
    events = [
        {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}}
        for index, text in ((0, one), (1, one), (0, two), (2, two))
    ]
    got = [event["delta"]["text"] for event in replayed([*events, {"type": "message_stop"}])[:-1]]
    assert got == ["", one, str(THERE), two]


@pytest.mark.parametrize("kind", ["response.output_text.delta", "response.function_call_arguments.delta"])
def test_responses(kind: str) -> None:
    parts = pieces(f"at {HERE}/a", [10, 20])
    events = [{"type": kind, "item_id": "i", "output_index": 0, "delta": part} for part in parts]
    got = replayed([*events, {"type": "response.completed"}])
    assert "".join(event["delta"] for event in got[:-1]) == f"at {THERE}/a"


def test_chat_calls_and_gemini_texts_are_found() -> None:
    calls = [{"index": 1, "function": {"arguments": "{"}}]
    chunk = {"choices": [{"index": 0, "delta": {"content": "a", "tool_calls": calls}}]}
    assert [(field.stream, field.text, field.is_json) for field in delta_fields(chunk)] == [
        (("choice", 0, "content"), "a", False),
        (("call", 0, 1), "{", True),
    ]
    parts = [{"text": "hm", "thought": True}, {"text": "yes"}, {"functionCall": {}}]
    found = delta_fields({"candidates": [{"index": 0, "content": {"parts": parts}}]})
    assert [(field.stream, field.text) for field in found] == [
        (("candidate", 0, True), "hm"),
        (("candidate", 0, None), "yes"),
    ]


@given(parts=st.lists(st.text("abc", max_size=4), min_size=1, max_size=6), data=st.data())
def test_rewriting_in_pieces_equals_rewriting_the_whole_text(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts)
    ends = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=6)))
    spans = [Span(start, end, "<>") for start, end in zip(ends[::2], ends[1::2], strict=False)]
    expected, done = "", 0
    for span in spans:
        expected += text[done : span.start] + span.text
        done = span.end
    fields = [DeltaField(("x",), {"t": part}, "t", is_json=False) for part in parts]
    rewrite(fields, spans)
    assert "".join(field.text for field in fields) == expected + text[done:]
