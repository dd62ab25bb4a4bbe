"""Texts that come in pieces, over many events of a stream, and how to change one without a look at the pieces. Pure.

All four APIs do it, each in its own way; which one it is can be seen from the event itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

Stream = tuple[object, ...]
"""Which text a piece belongs to."""


class Slot(NamedTuple):
    """Where a piece stands."""

    stream: Stream
    holder: dict[str, Any]
    key: str
    is_json: bool
    """The whole text, of which this is a piece, is JSON."""

    @property
    def text(self) -> str:
        return str(self.holder[self.key])


class Span(NamedTuple):
    """A stretch of a text, and what shall stand there instead."""

    start: int
    end: int
    text: str


def slots_of(data: Any) -> Iterator[Slot]:
    """The pieces of texts in one event."""
    if not isinstance(data, dict):
        return
    kind = data.get("type")
    if kind == "content_block_delta":
        yield from _anthropic(data)
    elif isinstance(kind, str) and kind.endswith(".delta") and isinstance(data.get("delta"), str):
        place = (kind, *(data.get(name) for name in ("item_id", "output_index", "content_index", "summary_index")))
        yield Slot(place, data, "delta", "arguments" in kind)
    for choice in _objects(data.get("choices")):
        yield from _chat(choice)
    for candidate in _objects(data.get("candidates")):
        yield from _gemini(candidate)


def rewrite(slots: Sequence[Slot], spans: Sequence[Span]) -> None:
    """Changes the text that the slots hold together. A span that several of them share goes whole into the last."""
    starts = [0]
    for slot in slots:
        starts.append(starts[-1] + len(slot.text))
    old = [slot.text for slot in slots]
    new = [""] * len(slots)
    position, at = 0, 0
    for span in (*spans, Span(starts[-1], starts[-1], "")):
        while position < span.start:  # what stays, stays where it is
            while starts[at + 1] <= position:
                at += 1
            end = min(span.start, starts[at + 1])
            new[at] += old[at][position - starts[at] : end - starts[at]]
            position = end
        if span.end > span.start:
            while starts[at + 1] < span.end:
                at += 1
            new[at] += span.text
            position = span.end
    for slot, text in zip(slots, new, strict=True):
        slot.holder[slot.key] = text


def _anthropic(data: dict[str, Any]) -> Iterator[Slot]:
    delta = data.get("delta")
    for key in ("text", "thinking", "partial_json"):
        if isinstance(delta, dict) and isinstance(delta.get(key), str):
            yield Slot(("block", data.get("index"), key), delta, key, key == "partial_json")


def _chat(choice: dict[str, Any]) -> Iterator[Slot]:
    delta, index = choice.get("delta"), choice.get("index")
    if not isinstance(delta, dict):
        return
    for key in ("content", "reasoning_content", "reasoning", "refusal"):
        if isinstance(delta.get(key), str):
            yield Slot(("choice", index, key), delta, key, is_json=False)
    for call in _objects(delta.get("tool_calls")):
        function = call.get("function")
        if isinstance(function, dict) and isinstance(function.get("arguments"), str):
            yield Slot(("call", index, call.get("index")), function, "arguments", is_json=True)


def _gemini(candidate: dict[str, Any]) -> Iterator[Slot]:
    content = candidate.get("content")
    for part in _objects(content.get("parts") if isinstance(content, dict) else None):
        if isinstance(part.get("text"), str):
            yield Slot(("candidate", candidate.get("index"), part.get("thought")), part, "text", is_json=False)


def _objects(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
