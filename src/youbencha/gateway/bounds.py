"""The most tokens that a request can use, from the fields of each API. No I/O.

Bodies come from agents and are not trusted: an invalid value counts as unknown, and the provider may refuse it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from youbencha.gateway import fields as table
from youbencha.gateway.api import WireName
from youbencha.json_lines import as_mapping


class RequestSize(NamedTuple):
    """The parts of a request that determine its cost."""

    model: str | None
    stream: bool
    max_output: int | None
    """The most tokens that the answer may have; None if the client sets no limit."""
    size: int
    """The most tokens of input: the bytes of the body, because a token has at least one, and what `examined` adds."""
    rounds: int = 0
    """How often the provider may use its own tools. Each use may have a fee, and the model reads everything again."""


DEFAULT_MAX_OUTPUT = 128_000
"""For a client that sets no limit."""

_LONG_ANSWERS = {"gpt-5-pro": 272_000, "gemini-4-argon": 1_048_576}
"""Models that may answer with more, by a part of their names."""
_MOST_ANSWERS = 128
"""No provider returns more at once."""

_MOST = 10_000_000
"""No provider accepts a limit beyond this."""

_LONGEST_NAME = 256


class _Fields(NamedTuple):
    """The fields of an API that limit the answer."""

    limit: tuple[str, ...]
    answers: tuple[str, ...] = ()
    """The number of answers; the limit applies to each."""
    inside: tuple[str, ...] = ()
    """The object that contains these fields, if it is not the body itself."""


_FIELDS: Mapping[WireName, _Fields] = {
    "anthropic-messages": _Fields(limit=("max_tokens",)),
    "openai-chat": _Fields(limit=("max_completion_tokens", "max_tokens"), answers=("n",)),
    "openai-responses": _Fields(limit=("max_output_tokens",)),
    # Google accepts both spellings.
    "gemini": _Fields(
        limit=("maxOutputTokens", "max_output_tokens"),
        answers=("candidateCount", "candidate_count"),
        inside=("generationConfig", "generation_config"),
    ),
}

_GEMINI_PATH = re.compile(r"/models/([^/:]+):(\w+)")


def measure_request(wire: WireName, path: str, body: object, size: int) -> RequestSize:
    """Read what determines the cost. `size` is in bytes. Gemini has the model, and whether to stream, in the path."""
    content = body if isinstance(body, Mapping) else {}
    if wire == "gemini":
        found = _GEMINI_PATH.search(path)
        model, action = found.groups() if found else (None, "")
        return RequestSize(_name(model), action == "streamGenerateContent", _max_output(wire, content), size)
    return RequestSize(_name(content.get("model")), content.get("stream") is True, _max_output(wire, content), size)


def worst_output(asked: RequestSize) -> int:
    """Return the most tokens that the answer may have."""
    if asked.max_output is not None:
        return asked.max_output
    return next((most for name, most in _LONG_ANSWERS.items() if name in (asked.model or "")), DEFAULT_MAX_OUTPUT)


def worst_tokens(asked: RequestSize) -> int:
    """Return the most tokens of all kinds that the call may use."""
    return asked.size + worst_output(asked)


def _max_output(wire: WireName, body: Mapping[str, object]) -> int | None:
    """Return the limit of all answers together. Of several names for it, the highest value counts."""
    fields = _FIELDS[wire]
    within = [inner for key in fields.inside if isinstance(inner := body.get(key), Mapping)] or [body]
    limits, answers = _counts(within, fields.limit), _counts(within, fields.answers)
    limit = max((each or 0 for each in limits), default=None) if None not in limits else None
    number = max((_MOST_ANSWERS if each is None else each for each in answers), default=1)
    return limit if number <= 1 else number * (DEFAULT_MAX_OUTPUT if limit is None else limit)


def _counts(within: Iterable[Mapping[str, object]], keys: tuple[str, ...]) -> list[int | None]:
    return [_count(each[key]) for each in within for key in keys if each.get(key) is not None]


def _count(value: object) -> int | None:
    if (isinstance(value, float) and value.is_integer()) or (
        isinstance(value, str) and re.fullmatch("[0-9]{1,9}", value)
    ):
        value = int(value)  # some clients write 1024.0, and Google accepts "1024"
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= _MOST else None


def _name(value: object) -> str | None:
    """A model's name, if it is valid in a line of the ledger."""
    good = isinstance(value, str) and 0 < len(value) <= _LONGEST_NAME and value.isprintable()
    return value if isinstance(value, str) and good else None


# What a provider may read or do beyond the body of a request. It is examined only if there is a cap.

CONTEXT_TOKENS = 1_050_000
"""The largest context window in common use: the most that a model reads at once, wherever it comes from."""

ROUNDS = 10
"""How often the provider's tools may be used if the request sets no limit. It is Anthropic's own limit."""

_TOOLS_TOKENS = 5_000
"""The provider's own descriptions of tools, and of how to use them."""

_VERSION = re.compile(r"_(\d{8}|\d{4}_\d{2}_\d{2})$")
_BY_ID = (None, "reasoning", "compaction")
"""Types of items of OpenAI's responses that may have only the id of a stored item."""
_EXAMINED = frozenset({"type", "data", "image_url", "tools", "id", "mode"})


class UnpricedError(Exception):
    """A request asks for something whose price is not known. The message names it."""


def examined(wire: WireName, body: object, asked: RequestSize) -> RequestSize:
    """Add to a request's size what it may make the provider read or do. Raises `UnpricedError`."""
    if not isinstance(body, dict):  # the provider may be able to read what we are not
        return asked._replace(size=asked.size + CONTEXT_TOKENS)
    if asked.model and "-search-" in asked.model:
        raise UnpricedError(f"the searches of {asked.model}")
    for name in body.keys() & (table.STANDARD.keys() | table.UNPRICED):
        if (value := body[name]) is not None and str(value).lower() not in table.STANDARD.get(name, ()):
            raise UnpricedError(f"`{name}: {str(value)[:40]}`")
    found = _Examination(wire)
    found.run(body)
    most = _count(body.get("max_tool_calls")) if wire == "openai-responses" else None
    rounds = found.rounds if most is None else min(found.rounds, most)
    contexts = rounds + 1 if found.rounds else int(found.refers)
    return asked._replace(size=asked.size + found.tokens + contexts * CONTEXT_TOKENS, rounds=rounds)


class _Examination:
    """Examines a parsed body. Without recursion, because the client decides how deep it is."""

    def __init__(self, wire: WireName) -> None:
        self.refers = False
        """It may refer to something that is not in it."""
        self.tokens = self.rounds = 0
        self._wire = wire

    def run(self, body: dict[str, Any]) -> None:
        known = table.TOP_LEVEL[self._wire]
        waiting: list[Any] = [body]
        while waiting:
            value = waiting.pop()
            if isinstance(value, list):
                waiting += value
            elif isinstance(value, dict):
                fields = value if known.issuperset(value) else self._renamed(value, known)
                known = table.INNER
                kind = fields.get("type")
                if not _EXAMINED.isdisjoint(fields):
                    self._examine(fields, kind)
                opaque = "input" if kind in ("tool_use", "server_tool_use") else None
                for name, inner in fields.items():
                    if isinstance(inner, dict | list) and name not in table.OPAQUE and name != opaque:
                        waiting.append(inner)

    def _renamed(self, fields: dict[str, Any], known: frozenset[str]) -> dict[str, Any]:
        """Return the fields under the names of the tables, and note whether there are any others."""
        number = len(fields)
        if self._wire == "gemini":
            fields = {table.to_camel_case(name): value for name, value in fields.items()}
        others = any(fields[name] is not None for name in fields.keys() - known)
        self.refers = self.refers or others or len(fields) < number  # a field under two names
        return fields

    def _examine(self, fields: dict[str, Any], kind: object) -> None:
        if kind is not None and not (isinstance(kind, str) and kind in table.TYPES):
            self.refers = True
        if kind in table.UNPRICED_TYPES or fields.get("mode") == "pro":
            raise UnpricedError(f"`{kind}`" if kind in table.UNPRICED_TYPES else "`mode: pro`")
        if (data := fields.get("data")) is not None and kind != "redacted_thinking":
            self._inline(fields.get("media_type") or fields.get("mimeType"), data)
        if (image := fields.get("image_url")) is not None:
            url = str(image.get("url") if isinstance(image, dict) else image)
            self._inline(url[5:] if url.startswith("data:") else None, url)
        if self._wire == "openai-responses" and "id" in fields and kind in _BY_ID:
            self.refers = self.refers or not (fields.get("encrypted_content") or fields.get("role"))
        if tools := fields.get("tools"):
            self.tokens += _TOOLS_TOKENS
            self._tools(tools if isinstance(tools, list) else [tools])

    def _inline(self, kind: object, data: object) -> None:
        """Count an image by its size in pixels, text by its bytes, and anything else, such as a PDF, as a reference."""
        if str(kind).startswith("image/") and isinstance(data, str):
            self.tokens += table.IMAGE_TOKENS[self._wire] - len(data)
        elif not str(kind).startswith("text/"):
            self.refers = True

    def _tools(self, tools: list[Any]) -> None:
        waiting = list(tools)
        while waiting:
            tool = as_mapping(waiting.pop())
            for name in (
                map(table.to_camel_case, tool) if self._wire == "gemini" else (str(tool.get("type", "custom")),)
            ):
                name = _VERSION.sub("", name)
                is_local = as_mapping(tool.get("environment")).get("type", "local") == "local"
                if name not in table.CLIENT_TOOLS | table.SERVER_TOOLS or not is_local:
                    raise UnpricedError(f"the tool `{name[:80]}`")
                if name in table.SERVER_TOOLS and tool.get("execution") != "client":
                    uses = _count(tool.get("max_uses"))
                    self.rounds += ROUNDS if uses is None else max(1, uses)
            waiting += inner if isinstance(inner := tool.get("tools"), list) else []
