"""Turn an upstream's answer into a recorded one, and a recorded one into an answer for the current run. No I/O.

A recorded answer has placeholders for text that differs in another run: `{{workspace}}` is replaced by the workspace of
the current run, `{{id-3}}` by the third id in its request. A literal `{{workspace}}` is written as `{{=workspace}}`.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import BaseModel, Field

from youbencha.gateway.cassette.matching import SURROGATES, Forms, in_json, masked, masked_bytes, path_pattern
from youbencha.gateway.sse import SseParser, write_event
from youbencha.gateway.wires import WIRES, lower_names
from youbencha.gateway.wires.base import DeltaField
from youbencha.json_lines import dumps, loads
from youbencha.process import Redactor
from youbencha.spec.gateway import CassetteTiming

RecordedAnswer = dict[str, Any]
"""An answer in the format of the cassette: `AnswerFormat`."""

Chunks = Sequence[tuple[float, bytes]]
"""Pieces of an answer, each with its milliseconds since the request."""

Change = Callable[[str, bool], str]
"""Changes a text; the second argument is whether the text is itself JSON."""

HeaderName = Literal["content-type", "x-should-retry"]
"""The only headers that are recorded; the others depend on the time or the account."""

_HEADER_VALUE = r"^[\x20-\x7e]{1,200}$"

CUT = "upstream_gone"
"""The failure of an answer whose connection was closed before its end."""

Ms = Annotated[int, Field(strict=True, ge=0, le=7_200_000)]


class EventFormat(BaseModel):
    ms: Ms
    data: Any
    event: str | None = None


class AnswerFormat(BaseModel):
    """An answer in a file. In JSON, it has any value as `json`."""

    status: Annotated[int, Field(strict=True, ge=200, le=599)]
    headers: dict[HeaderName, Annotated[str, Field(pattern=_HEADER_VALUE)]]
    ms: Ms
    failed: Annotated[str, Field(pattern=r"^[\w.-]{1,64}$")] = "no"
    lost: Annotated[str, Field(max_length=1000)] = "no"
    events: list[EventFormat] = []
    text: str = ""
    base64: str = ""


class ReplayedAnswer(NamedTuple):
    """A recorded answer, filled in for the current run."""

    status: int
    headers: Mapping[str, str]
    chunks: Chunks
    """Milliseconds to wait after the previous chunk, and what to send then."""
    failed: str | None = None
    """How the provider failed, if it did."""


class Span(NamedTuple):
    """A section of a text, and its replacement."""

    start: int
    end: int
    text: str


_PLACEHOLDER = r"\{\{(?P<literal>=*)(?P<name>[A-Za-z][\w-]*(?::[a-z-]+)?)\}\}"
_FILLED = re.compile(_PLACEHOLDER)
_MAX_FILLED_CHARS = 64 * 1024 * 1024

_ID = re.compile(r"(?=.*[A-Za-z])(?=.*[0-9])[\w.-]{6,}\Z", re.S)
"""Ids that are long and unusual enough: the same text in an answer can only be the id in the request."""


class PlaceholderWriter:
    """Writes placeholders into an answer before it is recorded."""

    def __init__(self, forms: Forms, names: Mapping[str, str]) -> None:
        self._forms = forms
        self._names = {name: value for name, value in names.items() if name.startswith("id-") and _ID.match(value)}

    def among(self, texts: Iterable[str]) -> PlaceholderWriter:
        """Return a writer for only those ids that occur in the texts: a conversation has hundreds, an answer two."""
        whole = "\n".join(texts)
        return PlaceholderWriter(self._forms, {name: value for name, value in self._names.items() if value in whole})

    @cached_property
    def _plain(self) -> _Finder:
        return _Finder({text: name for name, text in self._forms.items()} | self._ids)

    @cached_property
    def _in_json(self) -> _Finder:
        escaped: dict[str, str] = {}
        for name, text in self._forms.items():
            escaped.setdefault(in_json(text), name)
            escaped.setdefault(json.dumps(text)[1:-1], name)
        return _Finder(escaped | self._ids)

    @property
    def _ids(self) -> dict[str, str]:
        return {value: name for name, value in self._names.items()}

    def spans(self, text: str, *, is_json: bool) -> list[Span]:
        finder = self._in_json if is_json else self._plain
        return list(finder.spans(text))

    def text(self, text: str, *, is_json: bool) -> str:
        for span in reversed(self.spans(text, is_json=is_json)):
            text = text[: span.start] + span.text + text[span.end :]
        return text


class _Finder:
    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        texts = sorted(names, key=lambda text: (-len(text), text))
        self._pattern = re.compile("|".join([*map(path_pattern, texts), _PLACEHOLDER]))

    def spans(self, text: str) -> Iterator[Span]:
        for match in self._pattern.finditer(text):
            name = match["name"]
            inner = f"={match['literal']}{name}" if name else self._names[match.group()]
            yield Span(*match.span(), "{{" + inner + "}}")


def fill(texts: Mapping[str, str]) -> Callable[[str, bool], str]:
    """Return a function that fills the placeholders of a text; its second argument is whether the text is JSON.

    It raises ValueError if they become too much: a stranger's cassette may repeat an id that is itself huge.
    """
    left = _MAX_FILLED_CHARS

    def filled(text: str, is_json: bool) -> str:
        def fill(match: re.Match[str]) -> str:
            nonlocal left
            if match["literal"]:
                return "{{" + match["literal"][1:] + match["name"] + "}}"
            known = texts.get(match["name"])
            if (left := left - len(known or "")) < 0:
                raise ValueError("its placeholders become too large")
            return match.group() if known is None else in_json(known) if is_json else known

        return _FILLED.sub(fill, text) if "{{" in text else text

    return filled


def secrets_in(text: str, redactor: Redactor) -> list[Span]:
    """Return the positions of secrets, for a text that arrives in pieces."""
    data = text.encode("utf-8", SURROGATES)
    spans = []
    for match in redactor.matches(data):
        start, end = (len(data[:at].decode("utf-8", SURROGATES)) for at in match.span())
        spans.append(Span(start, end, masked_bytes(match.group(), redactor).decode()))
    return spans


MAX_EVENT_BYTES = 64 * 1024 * 1024
"""A larger event is not recorded."""

_JSON_TEXTS = frozenset({"arguments", "partial_json"})
"""Keys whose texts are themselves JSON."""


class RecordedEvent(NamedTuple):
    ms: float
    """When it was complete."""
    name: str | None
    data: Any
    """An object or a list, if it is JSON; otherwise text, such as OpenAI's `[DONE]`."""


def record_answer(
    status: int,
    headers: Mapping[str, str],
    chunks: Chunks,
    writer: PlaceholderWriter,
    redactor: Redactor,
    failed: str | None = None,
) -> RecordedAnswer | None:
    """Return the recording; None if an event is too large. `failed`: how the provider failed, if it did."""
    lower = lower_names(headers)
    content = _content(lower.get("content-type", ""), chunks, writer, redactor)
    if content is None:
        return None
    kept = {name: lower[name] for name in get_args(HeaderName) if re.fullmatch(_HEADER_VALUE, lower.get(name, ""))}
    end = {"failed": failed} if failed else {}
    return {"status": status, "headers": kept, "ms": round(chunks[-1][0]) if chunks else 0, **end, **content}


def is_failure(recorded: RecordedAnswer) -> bool:
    """Whether the provider failed (a rate limit, an overload, a cut connection), or the answer is lost."""
    return "failed" in recorded or "lost" in recorded


def successes(answers: Sequence[RecordedAnswer]) -> list[RecordedAnswer]:
    return [item for item in answers if not is_failure(item)]


def _content(content_type: str, chunks: Chunks, writer: PlaceholderWriter, redactor: Redactor) -> dict[str, Any] | None:
    raw = b"".join(data for _, data in chunks)
    if content_type.startswith("text/event-stream"):
        return _stream(chunks, writer, redactor, raw.decode("utf-8", "replace"))
    writer = writer.among([raw.decode("utf-8", "replace")])
    if "json" in content_type:
        try:
            return {"json": _changed(loads(raw), _cleaner(writer, redactor))}
        except ValueError:
            pass  # cut off
    try:
        return {"text": _cleaner(writer, redactor)(raw.decode(), False)}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(masked_bytes(raw, redactor)).decode()}


def _stream(chunks: Chunks, writer: PlaceholderWriter, redactor: Redactor, raw: str) -> dict[str, Any] | None:
    events = _events_in(chunks)
    if events is None:
        return None
    _clean_events(events, writer, redactor, raw)
    return {"events": [{"ms": round(event.ms), **_named(event), "data": event.data} for event in events]}


def _events_in(chunks: Chunks) -> list[RecordedEvent] | None:
    """The events of a stream; None if one of them is too large to be recorded."""
    parser = SseParser(max_event_bytes=MAX_EVENT_BYTES)
    events = [_event(ms, *event) for ms, chunk in chunks for event in parser.feed(chunk)]
    events += [_event(chunks[-1][0], *event) for event in parser.finish()] if chunks else []
    return None if parser.dropped else events


def _event(ms: float, name: bytes, data: bytes) -> RecordedEvent:
    text = data.decode("utf-8", "replace")
    try:
        value = loads(text)
    except ValueError:
        value = text
    return RecordedEvent(ms, name.decode("utf-8", "replace") or None, value if isinstance(value, dict | list) else text)


def _named(event: RecordedEvent) -> dict[str, Any]:
    """The name, unless it equals the type in the data, as usual."""
    return {} if event.name == _event_type(event.data) else {"event": event.name}


def _event_type(data: Any) -> Any:
    return data.get("type") if isinstance(data, dict) else None


def _clean_events(events: Sequence[RecordedEvent], writer: PlaceholderWriter, redactor: Redactor, raw: str) -> None:
    """Mask secrets and write placeholders, in place. Texts in several pieces are changed as a whole."""
    streams: dict[object, list[DeltaField]] = {}
    for event in events:
        for field in delta_fields(event.data):
            streams.setdefault(field.stream, []).append(field)
    in_pieces = {(id(field.holder), field.key) for fields in streams.values() for field in fields}
    writer = writer.among([raw, *("".join(field.text for field in fields) for fields in streams.values())])
    change = _cleaner(writer, redactor)
    for event in events:
        _change_within(event.data, change, in_pieces)
    for fields in streams.values():
        rewrite(fields, secrets_in("".join(field.text for field in fields), redactor))
        rewrite(fields, writer.spans("".join(field.text for field in fields), is_json=fields[0].is_json))


def _cleaner(writer: PlaceholderWriter, redactor: Redactor) -> Change:
    return lambda text, is_json: writer.text(masked(text, redactor), is_json=is_json)


def _change_within(value: Any, change: Change, left_out: set[tuple[int, str]]) -> None:
    """Change texts in place, because there are other references to the parts."""
    if isinstance(value, dict | list):
        items = list(value.items() if isinstance(value, dict) else enumerate(value))
        for key, item in items:
            if not isinstance(item, str):
                _change_within(item, change, left_out)
            elif (id(value), key) not in left_out:
                value[key] = change(item, key in _JSON_TEXTS)


def _changed(value: Any, change: Change, *, is_json: bool = False) -> Any:
    if isinstance(value, str):
        return change(value, is_json)
    if isinstance(value, list):
        return [_changed(item, change) for item in value]
    if isinstance(value, dict):
        return {
            key: _changed(item, change, is_json=key in _JSON_TEXTS or (is_json and key == "delta"))
            for key, item in value.items()
        }
    return value


def replay_answer(recorded: RecordedAnswer, fill: Change, timing: CassetteTiming) -> ReplayedAnswer:
    """Return a recorded answer for the current run. Raises KeyError or ValueError if it has no valid content."""
    chunks = list(_chunks(recorded, fill))
    if timing == "instant":
        chunks = [(0.0, b"".join(data for _, data in chunks))]
    return ReplayedAnswer(recorded["status"], recorded["headers"], _as_delays(chunks), recorded.get("failed"))


def _chunks(recorded: RecordedAnswer, fill: Change) -> Iterator[tuple[float, bytes]]:
    if "events" in recorded:
        for event in recorded["events"]:
            is_json = any(field.is_json and field.key == "delta" for field in delta_fields(event["data"]))
            data = _changed(event["data"], fill, is_json=is_json)
            yield float(event["ms"]), _event_bytes(event.get("event", _event_type(data)), data)
    elif "json" in recorded:
        yield float(recorded["ms"]), dumps(_changed(recorded["json"], fill)).encode()
    elif "text" in recorded:
        yield float(recorded["ms"]), fill(recorded["text"], False).encode()
    else:
        yield float(recorded["ms"]), base64.b64decode(recorded["base64"])


def _event_bytes(name: Any, data: Any) -> bytes:
    text = data if isinstance(data, str) else dumps(data)
    return write_event(str(name or "").encode(), text.encode("utf-8", "replace"))


def _as_delays(chunks: Chunks) -> list[tuple[float, bytes]]:
    befores = [0.0, *(ms for ms, _ in chunks)]
    return [(max(0.0, ms - before), data) for before, (ms, data) in zip(befores, chunks, strict=False)]


# A stream sends texts in pieces, over many events. Each API has its own fields for them; the event itself shows which
# API it is.


def delta_fields(data: Any) -> Iterator[DeltaField]:
    """Yield the pieces of texts in one event."""
    for wire in WIRES.values() if isinstance(data, dict) else ():
        yield from wire.delta_fields(data)


def rewrite(fields: Sequence[DeltaField], spans: Sequence[Span]) -> None:
    """Change the text in these fields. The replacement of a span across several fields goes into the last one."""
    starts = [0]
    for field in fields:
        starts.append(starts[-1] + len(field.text))
    old = [field.text for field in fields]
    new = [""] * len(fields)
    position, at = 0, 0
    for span in (*spans, Span(starts[-1], starts[-1], "")):
        while position < span.start:  # what does not change stays in its field
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
    for field, text in zip(fields, new, strict=True):
        field.holder[field.key] = text
