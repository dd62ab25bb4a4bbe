"""What the gateway must know about one API: routes, limits, errors, usage. No I/O.

Requests come from agents and are not trusted: an invalid value counts as unknown, and the provider may refuse it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import orjson

from youbencha.gateway.access import Provider
from youbencha.gateway.metering import BodyMeter, Meter, StreamMeter, UsageReader
from youbencha.gateway.refusals import STATUS, Reason
from youbencha.json_lines import as_mapping

WireName = Literal["anthropic-messages", "openai-chat", "openai-responses", "gemini"]
"""An API, by its format on the wire."""

KeyHeader = Literal["x-api-key", "authorization", "x-goog-api-key"]


class ProviderFacts(NamedTuple):
    """Where a provider is, and how it is asked for its models."""

    url: str
    url_variables: tuple[str, ...]
    """The environment variables with another address."""
    keys: tuple[tuple[str, KeyHeader], ...]
    """The environment variables with a key, and the header for it."""
    models_path: str = "/v1/models"
    all_models: str = ""
    """The query for the names of all models."""
    models_field: str = "data"
    headers: Mapping[str, str] = {}
    """Required in every request."""


class Action(Enum):
    """What a path requests."""

    GENERATE = "generate"
    COUNT = "count"
    MODELS = "models"


DEFAULT_MAX_OUTPUT = 128_000
"""For a client that sets no limit."""

_LONG_ANSWERS = {"gpt-5-pro": 272_000, "gemini-4-argon": 1_048_576}
"""Models that may answer with more than the default, by a part of their names."""


class RequestSize(NamedTuple):
    """The parts of a request that determine its cost."""

    model: str | None
    stream: bool
    max_output: int | None
    """The most tokens that the answer may have; None if the client sets no limit."""
    max_input: int
    """The most tokens of input: the bytes of the body, because a token has at least one, and what `examine` adds."""
    server_tool_uses: int = 0
    """How often the provider may use its own tools. Each use may have a fee, and the model reads everything again."""

    @property
    def worst_output(self) -> int:
        """The most tokens that the answer may have, whether or not the client sets a limit."""
        if self.max_output is not None:
            return self.max_output
        return next((limit for name, limit in _LONG_ANSWERS.items() if name in (self.model or "")), DEFAULT_MAX_OUTPUT)

    @property
    def worst_tokens(self) -> int:
        """The most tokens of all kinds that the call may use."""
        return self.max_input + self.worst_output


_MAX_ANSWERS = 128
"""No provider returns more at once."""

_MAX_LIMIT = 10_000_000
"""No provider accepts a limit beyond this."""

_MAX_NAME_CHARS = 256


class DeltaField(NamedTuple):
    """A field of an event with a piece of a text."""

    stream: tuple[object, ...]
    """Identifies the text that the piece belongs to."""
    holder: dict[str, Any]
    key: str
    is_json: bool
    """The whole text is JSON."""

    @property
    def text(self) -> str:
        return str(self.holder[self.key])


class StreamFilter(Protocol):
    """Removes from a stream what only the gateway requested."""

    def feed(self, chunk: bytes) -> bytes: ...

    def finish(self) -> bytes: ...


class Wire(ABC):
    """One API. Its subclasses have all that is particular to it."""

    name: ClassVar[WireName]
    provider: ClassVar[Provider]
    routes: ClassVar[tuple[tuple[str, str, Action], ...]]
    """Method, pattern of the path, and action."""
    conversation: ClassVar[str]
    """The field with the messages."""
    fields: ClassVar[frozenset[str]]
    """The fields of the body whose cost is bounded by their size, from the provider's SDK and from what agents send."""
    output_limits: ClassVar[tuple[str, ...]]
    """The fields that limit the answer."""
    answer_counts: ClassVar[tuple[str, ...]] = ()
    """The fields with the number of answers; the limit applies to each."""
    limits_inside: ClassVar[tuple[str, ...]] = ()
    """The objects that contain these fields, if it is not the body itself."""
    image_tokens: ClassVar[int]
    """The most that an image costs: the providers scale down what is larger."""
    usage_reader: ClassVar[type[UsageReader]]

    def is_from(self, headers: Mapping[str, str]) -> bool:
        """Whether these headers (names in lower case) are from a client of this API, if several have the same path."""
        return True

    def model_and_stream(self, path: str, body: Mapping[str, Any]) -> tuple[object, bool]:
        """Return the requested model, and whether the answer is to be a stream."""
        return body.get("model"), body.get("stream") is True

    def measure(self, path: str, body: object, size: int) -> RequestSize:
        """Read what determines the cost of a request of `size` bytes."""
        content = as_mapping(body)
        model, stream = self.model_and_stream(path, content)
        return RequestSize(_valid_name(model), stream, self._max_output(content), size)

    def _max_output(self, body: Mapping[str, Any]) -> int | None:
        """Return the limit of all answers together. Of several names for it, the highest value counts."""
        within = [inner for key in self.limits_inside if isinstance(inner := body.get(key), Mapping)] or [body]
        limits, answers = _counts(within, self.output_limits), _counts(within, self.answer_counts)
        limit = max((count or 0 for count in limits), default=None) if None not in limits else None
        number = max((_MAX_ANSWERS if count is None else count for count in answers), default=1)
        return limit if number <= 1 else number * (DEFAULT_MAX_OUTPUT if limit is None else limit)

    # For a request under a budget, see `bounds.examine`.

    def with_known_names(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Return an object's fields under the names of the tables, if the API accepts several spellings."""
        return fields

    def tool_names(self, tool: Mapping[str, Any]) -> Iterable[str]:
        """Return what identifies the tools of one entry of `tools`."""
        return (str(tool.get("type", "custom")),)

    def refers_to_stored(self, fields: Mapping[str, Any]) -> bool:
        """Whether an object stands for something that the provider has stored."""
        return False

    def max_tool_uses(self, body: Mapping[str, Any]) -> int | None:
        """Return how often the provider may use its tools, if the request sets a limit."""
        return None

    # The answer.

    def meter(self, content_type: str) -> Meter:
        """Return the meter for an answer of this type, which must not be compressed."""
        is_stream = content_type.strip().lower().startswith("text/event-stream")
        return StreamMeter(self.usage_reader()) if is_stream else BodyMeter(self.usage_reader)

    def request_usage(self, raw: bytes, body: Any) -> tuple[bytes, StreamFilter | None]:
        """Return the body to send, and a filter for the usage if the body now requests it, and the client does not."""
        return raw, None

    def is_without_credit(self, body: bytes) -> bool:
        """Whether an error 400 means that the account is out of credit."""
        return False

    def delta_fields(self, event: dict[str, Any]) -> Iterator[DeltaField]:
        """Yield the pieces of texts in one event, for a cassette. Nothing for an event of another API."""
        yield from ()

    # The gateway's own errors.

    def error_status(self, reason: Reason) -> int:
        return STATUS[reason]

    def error_body(self, reason: Reason, message: str) -> bytes:
        return orjson.dumps(self.error(self.error_status(reason), reason, f"youBencha: {message}"))

    @abstractmethod
    def error(self, status: int, reason: Reason, message: str) -> dict[str, Any]:
        """Return an error in the format of this API."""


class Route(NamedTuple):
    wire: Wire
    action: Action
    path: str
    """As in the API itself, without the prefix of a base URL."""

    @property
    def provider(self) -> Provider:
        return self.wire.provider


def _counts(within: Iterable[Mapping[str, Any]], keys: tuple[str, ...]) -> list[int | None]:
    return [read_limit(holder[key]) for holder in within for key in keys if holder.get(key) is not None]


def read_limit(value: object) -> int | None:
    """Read a number that limits something; None if it is invalid."""
    if (isinstance(value, float) and value.is_integer()) or (
        isinstance(value, str) and re.fullmatch("[0-9]{1,9}", value)
    ):
        value = int(value)  # some clients write 1024.0, and Google accepts "1024"
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= _MAX_LIMIT else None


def _valid_name(value: object) -> str | None:
    """Return a model's name, if it is valid in a line of the ledger."""
    return value if isinstance(value, str) and 0 < len(value) <= _MAX_NAME_CHARS and value.isprintable() else None


def to_camel_case(name: str) -> str:
    return re.sub(r"_([a-z])", lambda match: match[1].upper(), name)


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def objects(value: object) -> list[dict[str, Any]]:
    """The objects of a list, without copying, because pieces of texts are changed in place."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
