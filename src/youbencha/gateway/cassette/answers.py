"""An answer as it came, to an answer as it is kept, and back. Pure."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from youbencha.gateway.cassette.deltas import Slot, rewrite, slots_of
from youbencha.gateway.cassette.endings import is_whole
from youbencha.gateway.cassette.masking import masked, masked_bytes, secrets_in
from youbencha.gateway.cassette.model import Replay
from youbencha.gateway.cassette.placeholders import Emptying
from youbencha.gateway.cassette.sse import Event, event_bytes, events_in
from youbencha.gateway.cassette.written import one_line, parsed
from youbencha.process import Redactor
from youbencha.spec.gateway import CassetteTiming

Kept = dict[str, Any]
"""An answer as the cassette holds it."""
Chunks = Sequence[tuple[float, bytes]]
Change = Callable[[str, bool], str]

_HEADERS = ("content-type", "x-should-retry")
"""All that is kept of them: the rest is about one moment, or about one account."""
_WEATHER = frozenset({401, 402, 403, 408, 429})
_JSON_TEXTS = frozenset({"arguments", "partial_json"})
"""Keys whose texts are JSON themselves."""
_DECODED = frozenset({"", "identity", "gzip", "x-gzip", "deflate"})
_EITHER_KIND = 32 + zlib.MAX_WBITS


def is_answer(status: int) -> bool:
    """Not weather: a limit that was reached, a server that was down, a key that was wrong."""
    return 200 <= status < 300 or (400 <= status < 500 and status not in _WEATHER)


def kept_answer(
    status: int, headers: Mapping[str, str], chunks: Chunks, emptying: Emptying, redactor: Redactor
) -> Kept | None:
    """None if it is not one to keep: no answer, or not all of one."""
    lower = {name.lower(): value for name, value in headers.items()}
    decoded = _decoded(chunks, lower.get("content-encoding", "").strip().lower())
    if not is_answer(status) or decoded is None:
        return None
    content = _content(status, lower.get("content-type", ""), decoded, emptying, redactor)
    if content is None:
        return None
    told = {name: lower[name] for name in _HEADERS if name in lower}
    return {"status": status, "headers": told, "ms": round(chunks[-1][0]) if chunks else 0, **content}


def replay_of(kept: Kept, filled: Change, timing: CassetteTiming) -> Replay:
    """Raises KeyError, TypeError or ValueError if it is not as it was written."""
    chunks = list(_chunks(kept, filled))
    if timing == "instant":
        chunks = [(0.0, b"".join(data for _, data in chunks))]
    return Replay(int(kept["status"]), dict(kept["headers"]), _as_delays(chunks))


def _chunks(kept: Kept, filled: Change) -> Iterator[tuple[float, bytes]]:
    if "events" in kept:
        for event in kept["events"]:
            data = _changed(event["data"], filled, is_json=_is_json_delta(event["data"]))
            yield float(event["ms"]), event_bytes(Event(event["ms"], event.get("event", _type_of(data)), data))
    elif "json" in kept:
        yield float(kept["ms"]), one_line(_changed(kept["json"], filled)).encode()
    elif "text" in kept:
        yield float(kept["ms"]), filled(kept["text"], False).encode()
    else:
        yield float(kept["ms"]), base64.b64decode(kept["base64"])


def _as_delays(chunks: Chunks) -> list[tuple[float, bytes]]:
    befores = [0.0, *(ms for ms, _ in chunks)]
    return [(max(0.0, ms - before), data) for before, (ms, data) in zip(befores, chunks, strict=False)]


def _content(
    status: int, content_type: str, chunks: Chunks, emptying: Emptying, redactor: Redactor
) -> dict[str, Any] | None:
    raw = b"".join(data for _, data in chunks)
    if content_type.startswith("text/event-stream"):
        events = list(events_in(chunks))
        _empty_events(events, emptying, redactor, raw.decode("utf-8", "replace"))
        shown = [{"ms": round(event.ms), **_named(event), "data": event.data} for event in events]
        return {"events": shown} if is_whole([event.data for event in events]) else None
    emptying = emptying.among([raw.decode("utf-8", "replace")])
    if "json" in content_type:
        try:
            return {"json": _changed(parsed(raw), _emptier(emptying, redactor))}
        except ValueError:
            if status < 300:
                return None  # cut off
    try:
        return {"text": _emptier(emptying, redactor)(raw.decode(), False)}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(masked_bytes(raw, redactor)).decode()}


def _named(event: Event) -> dict[str, Any]:
    """An event is mostly called what its data says; then once is enough."""
    return {} if event.name == _type_of(event.data) else {"event": event.name}


def _type_of(data: Any) -> Any:
    return data.get("type") if isinstance(data, dict) else None


def _empty_events(events: Sequence[Event], emptying: Emptying, redactor: Redactor, raw: str) -> None:
    """Texts in pieces first, each as a whole; then all other texts."""
    streams: dict[object, list[Slot]] = {}
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


def _emptier(emptying: Emptying, redactor: Redactor) -> Change:
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


def _decoded(chunks: Chunks, encoding: str) -> Chunks | None:
    """None if it cannot be read, or ends too early."""
    if encoding not in _DECODED:
        return None
    if encoding in ("", "identity"):
        return chunks
    unpacking = zlib.decompressobj(_EITHER_KIND)
    try:
        decoded = [(ms, unpacking.decompress(data)) for ms, data in chunks]
    except zlib.error:
        return None
    return decoded if unpacking.eof else None
