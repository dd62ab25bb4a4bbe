"""Answers as the scripted model sends them, for the tests of the meters: real bytes, fetched once."""

from __future__ import annotations

import asyncio
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import strategies as st

from other_wires import CLIENTS
from talking import Heard, ask, scripted
from youbencha.gateway.metering import Metered
from youbencha.gateway.wires import WIRES, WireName
from youbencha.scripted_model import ScriptedModel

WIRE_NAMES: tuple[WireName, ...] = ("anthropic-messages", "openai-chat", "openai-responses", "gemini")

SCRIPT = """
model: the-model
turns:
- thinking: Let me see… “quoted” 🙂
  text:
  - "First line\\nsecond"
  - "ünïcödé \\U0001F600 and data: {\\"usage\\": {\\"input_tokens\\": 9}}\\n\\nevent: error"
  usage:
    input_tokens: 1234
    output_tokens: 56
    cache_read_input_tokens: 700
    cache_creation_input_tokens: 80
    reasoning_tokens: 17
  tools:
  - {name: shell, input: {command: "echo ünï > 'a b'", text: "[DONE]"}}
  - {name: shell}
  times: forever
"""
TEXT = "Let me see… “quoted” 🙂First line\nsecondünïcödé 😀 and data: "
"""A part of what the answer has to say."""


class Answer(NamedTuple):
    wire: WireName
    content_type: str
    raw: bytes

    @property
    def is_stream(self) -> bool:
        return self.content_type.startswith("text/event-stream")

    def metered(self, chunks: list[bytes] | None = None) -> Metered:
        meter = WIRES[self.wire].meter(self.content_type)
        for chunk in [self.raw] if chunks is None else chunks:
            meter.feed(chunk)
        return meter.result()


async def fetch(model: ScriptedModel, wire: WireName, *, stream: bool, with_usage: bool = True) -> Answer:
    heard = await _ask(model, wire, stream, with_usage)
    return Answer(wire, heard.headers["content-type"], heard.raw)


async def _ask(model: ScriptedModel, wire: WireName, stream: bool, with_usage: bool) -> Heard:
    if wire == "anthropic-messages":
        return await ask(model, stream=stream)
    (client,) = (client for client in CLIENTS if client.wire == wire)
    without = {} if with_usage else {"stream_options": None}
    return await client.ask(model, stream=stream, **without)


@lru_cache
def answers(script: str = SCRIPT) -> tuple[Answer, ...]:
    """One of each wire, as a stream and in one piece."""

    async def all_of_them() -> tuple[Answer, ...]:
        async with scripted(script) as model:
            return tuple([await fetch(model, wire, stream=stream) for wire in WIRE_NAMES for stream in (True, False)])

    return asyncio.run(all_of_them())


every_answer = pytest.mark.parametrize(
    ("wire", "stream"), [(wire, stream) for wire in WIRE_NAMES for stream in (True, False)]
)


def answer(wire: WireName, stream: bool = True) -> Answer:
    (found,) = (answer for answer in answers() if answer.wire == wire and answer.is_stream == stream)
    return found


def cut_at(raw: bytes, places: list[int]) -> list[bytes]:
    bounds = [0, *sorted(places), len(raw)]
    return [raw[start:end] for start, end in pairwise(bounds)]


def chunkings(raw: bytes) -> st.SearchStrategy[list[bytes]]:
    """The same bytes in any pieces, empty ones too; or each on its own."""
    places = st.lists(st.integers(0, len(raw)), max_size=40)
    return st.one_of(places.map(lambda found: cut_at(raw, found)), st.just([bytes([byte]) for byte in raw]))
