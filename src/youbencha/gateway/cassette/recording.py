"""An answer as it came, to an answer as it is kept, and back. Pure."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from youbencha.gateway.cassette.matching import ReplayedAnswer
from youbencha.gateway.cassette.placeholders import PlaceholderWriter, Span, masked, masked_bytes, secrets_in
from youbencha.gateway.encoding import MAX_DECODED_BYTES, Decoder, encoding_of
from youbencha.gateway.sse import SseParser, write_event
from youbencha.json_lines import dumps, loads
from youbencha.process import Redactor
from youbencha.spec.gateway import CassetteTiming

RecordedAnswer = dict[str, Any]
"""An answer as the cassette holds it."""

Chunks = Sequence[tuple[float, bytes]]

Change = Callable[[str, bool], str]

_HEADERS = ("content-type", "x-should-retry")
"""All that is kept of them: the rest is about one moment, or about one account."""

_TRANSIENT = frozenset({401, 402, 403, 408, 429})

_JSON_TEXTS = frozenset({"arguments", "partial_json"})
"""Keys whose texts are JSON themselves."""


class RecordedEvent(NamedTuple):
    ms: float
    """When it was complete."""
    name: str | None
    data: Any
    """An object or a list, if it is JSON; otherwise text, as the `[DONE]` of OpenAI's."""


def is_answer(status: int) -> bool:
    """Not weather: a limit that was reached, a server that was down, a key that was wrong."""
    return 200 <= status < 300 or (400 <= status < 500 and status not in _TRANSIENT)


def record_answer(
    status: int, headers: Mapping[str, str], chunks: Chunks, emptying: PlaceholderWriter, redactor: Redactor
) -> RecordedAnswer | None:
    """None if it is not one to keep: no answer, or not all of one."""
    lower = {name.lower(): value for name, value in headers.items()}
    decoded = _decoded(chunks, lower.get("content-encoding", ""))
    if not is_answer(status) or decoded is None:
        return None
    content = _content(status, lower.get("content-type", ""), decoded, emptying, redactor)
    if content is None:
        return None
    told = {name: lower[name] for name in _HEADERS if name in lower}
    return {"status": status, "headers": told, "ms": round(chunks[-1][0]) if chunks else 0, **content}


def replay_of(kept: RecordedAnswer, filled: Change, timing: CassetteTiming) -> ReplayedAnswer:
    """Raises KeyError, TypeError or ValueError if it is not as it was written."""
    chunks = list(_chunks(kept, filled))
    if timing == "instant":
        chunks = [(0.0, b"".join(data for _, data in chunks))]
    return ReplayedAnswer(int(kept["status"]), dict(kept["headers"]), _as_delays(chunks))


def _chunks(kept: RecordedAnswer, filled: Change) -> Iterator[tuple[float, bytes]]:
    if "events" in kept:
        for event in kept["events"]:
            data = _changed(event["data"], filled, is_json=_is_json_delta(event["data"]))
            yield float(event["ms"]), event_bytes(event.get("event", _type_of(data)), data)
    elif "json" in kept:
        yield float(kept["ms"]), dumps(_changed(kept["json"], filled)).encode()
    elif "text" in kept:
        yield float(kept["ms"]), filled(kept["text"], False).encode()
    else:
        yield float(kept["ms"]), base64.b64decode(kept["base64"])


def _as_delays(chunks: Chunks) -> list[tuple[float, bytes]]:
    befores = [0.0, *(ms for ms, _ in chunks)]
    return [(max(0.0, ms - before), data) for before, (ms, data) in zip(befores, chunks, strict=False)]


def _content(
    status: int, content_type: str, chunks: Chunks, emptying: PlaceholderWriter, redactor: Redactor
) -> dict[str, Any] | None:
    raw = b"".join(data for _, data in chunks)
    if content_type.startswith("text/event-stream"):
        events = events_in(chunks)
        if events is None:
            return None
        _empty_events(events, emptying, redactor, raw.decode("utf-8", "replace"))
        shown = [{"ms": round(event.ms), **_named(event), "data": event.data} for event in events]
        return {"events": shown} if is_complete([event.data for event in events]) else None
    emptying = emptying.among([raw.decode("utf-8", "replace")])
    if "json" in content_type:
        try:
            return {"json": _changed(loads(raw), _emptier(emptying, redactor))}
        except ValueError:
            if status < 300:
                return None  # cut off
    try:
        return {"text": _emptier(emptying, redactor)(raw.decode(), False)}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(masked_bytes(raw, redactor)).decode()}


def _named(event: RecordedEvent) -> dict[str, Any]:
    """An event is mostly called what its data says; then once is enough."""
    return {} if event.name == _type_of(event.data) else {"event": event.name}


def _type_of(data: Any) -> Any:
    return data.get("type") if isinstance(data, dict) else None


def _empty_events(events: Sequence[RecordedEvent], emptying: PlaceholderWriter, redactor: Redactor, raw: str) -> None:
    """Texts in pieces first, each as a whole; then all other texts."""
    streams: dict[object, list[DeltaField]] = {}
    for event in events:
        for slot in slots_of(event.data):
            streams.setdefault(slot.stream, []).append(slot)
    done = {(id(slot.holder), slot.key) for slots in streams.values() for slot in slots}
    emptying = emptying.among([raw, *("".join(slot.text for slot in slots) for slots in streams.values())])
    change = _emptier(emptying, redactor)
    for event in events:
        _change_within(event.data, change, done)
    for slots in streams.values():
        rewrite(slots, secrets_in("".join(slot.text for slot in slots), redactor))
        rewrite(slots, emptying.spans("".join(slot.text for slot in slots), is_json=slots[0].is_json))


def _emptier(emptying: PlaceholderWriter, redactor: Redactor) -> Change:
    return lambda text, is_json: emptying.text(masked(text, redactor), is_json=is_json)


def _changed(value: Any, change: Change, *, is_json: bool = False) -> Any:
    if isinstance(value, str):
        return change(value, is_json)
    if isinstance(value, list):
        return [_changed(each, change) for each in value]
    if isinstance(value, dict):
        return {
            key: _changed(each, change, is_json=key in _JSON_TEXTS or (is_json and key == "delta"))
            for key, each in value.items()
        }
    return value


def _change_within(value: Any, change: Change, done: set[tuple[int, str]]) -> None:
    """Where it stands, since others hold on to its parts."""
    if isinstance(value, dict | list):
        items = list(value.items() if isinstance(value, dict) else enumerate(value))
        for key, each in items:
            if not isinstance(each, str):
                _change_within(each, change, done)
            elif (id(value), key) not in done:
                value[key] = change(each, key in _JSON_TEXTS)


def _is_json_delta(data: Any) -> bool:
    return any(slot.is_json and slot.key == "delta" for slot in slots_of(data))


def _decoded(chunks: Chunks, content_encoding: str) -> Chunks | None:
    """None if it cannot be read, or ends too early."""
    encoding = encoding_of(content_encoding)
    if encoding is None or encoding == "identity":
        return None if encoding is None else chunks
    decoder = Decoder(encoding)
    decoded = [(ms, b"".join(decoder.feed(data))) for ms, data in chunks]
    return decoded if decoder.complete else None


def events_in(chunks: Chunks) -> list[RecordedEvent] | None:
    """None if one of them is too large to be kept."""
    parser = SseParser(max_event_bytes=MAX_DECODED_BYTES)
    events = [_event(ms, *event) for ms, chunk in chunks for event in parser.feed(chunk)]
    events += [_event(chunks[-1][0], *event) for event in parser.finish()] if chunks else []
    return None if parser.dropped else events


def event_bytes(name: Any, data: Any) -> bytes:
    text = data if isinstance(data, str) else dumps(data)
    return write_event(str(name or "").encode(), text.encode("utf-8", "replace"))


def _event(ms: float, name: bytes, data: bytes) -> RecordedEvent:
    text = data.decode("utf-8", "replace")
    try:
        value = loads(text)
    except ValueError:
        value = text
    return RecordedEvent(ms, name.decode("utf-8", "replace") or None, value if isinstance(value, dict | list) else text)


# Texts that come in pieces, over many events of a stream, and how to change one without a look at the pieces. Pure.
#
# All four APIs do it, each in its own way; which one it is can be seen from the event itself.

Stream = tuple[object, ...]
"""Which text a piece belongs to."""


class DeltaField(NamedTuple):
    """Where a piece stands."""

    stream: Stream
    holder: dict[str, Any]
    key: str
    is_json: bool
    """The whole text, of which this is a piece, is JSON."""

    @property
    def text(self) -> str:
        return str(self.holder[self.key])


def slots_of(data: Any) -> Iterator[DeltaField]:
    """The pieces of texts in one event."""
    if not isinstance(data, dict):
        return
    kind = data.get("type")
    if kind == "content_block_delta":
        yield from _anthropic(data)
    elif isinstance(kind, str) and kind.endswith(".delta") and isinstance(data.get("delta"), str):
        place = (kind, *(data.get(name) for name in ("item_id", "output_index", "content_index", "summary_index")))
        yield DeltaField(place, data, "delta", "arguments" in kind)
    for choice in _objects(data.get("choices")):
        yield from _chat(choice)
    for candidate in _objects(data.get("candidates")):
        yield from _gemini(candidate)


def rewrite(slots: Sequence[DeltaField], spans: Sequence[Span]) -> None:
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


def _anthropic(data: dict[str, Any]) -> Iterator[DeltaField]:
    delta = data.get("delta")
    for key in ("text", "thinking", "partial_json"):
        if isinstance(delta, dict) and isinstance(delta.get(key), str):
            yield DeltaField(("block", data.get("index"), key), delta, key, key == "partial_json")


def _chat(choice: dict[str, Any]) -> Iterator[DeltaField]:
    delta, index = choice.get("delta"), choice.get("index")
    if not isinstance(delta, dict):
        return
    for key in ("content", "reasoning_content", "reasoning", "refusal"):
        if isinstance(delta.get(key), str):
            yield DeltaField(("choice", index, key), delta, key, is_json=False)
    for call in _objects(delta.get("tool_calls")):
        function = call.get("function")
        if isinstance(function, dict) and isinstance(function.get("arguments"), str):
            yield DeltaField(("call", index, call.get("index")), function, "arguments", is_json=True)


def _gemini(candidate: dict[str, Any]) -> Iterator[DeltaField]:
    content = candidate.get("content")
    for part in _objects(content.get("parts") if isinstance(content, dict) else None):
        if isinstance(part.get("text"), str):
            yield DeltaField(("candidate", candidate.get("index"), part.get("thought")), part, "text", is_json=False)


def _objects(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


# Whether a stream came to its end. Pure.
#
# One that was cut off says nothing of what the model would have answered, so it is not kept.

_LAST = frozenset({"message_stop", "response.completed", "response.incomplete"})

_BEGUN = ("message_", "content_block_", "response.")

_FAILED = frozenset({"error", "response.failed"})


def is_complete(events: Sequence[Any]) -> bool:
    objects = [each for each in events if isinstance(each, dict)]
    kinds = [str(each.get("type", "")) for each in objects]
    if any(kind in _FAILED for kind in kinds) or any("error" in each and each["error"] for each in objects):
        return False
    if any(kind.startswith(_BEGUN) for kind in kinds):
        return any(kind in _LAST for kind in kinds)
    if any("choices" in each or "candidates" in each for each in objects):
        return "[DONE]" in events or any(map(_finished, objects))
    return bool(events)


def _finished(chunk: dict[str, Any]) -> bool:
    choices = [*(chunk.get("choices") or ()), *(chunk.get("candidates") or ())]
    return any(each.get("finish_reason") or each.get("finishReason") for each in choices if isinstance(each, dict))
