"""The most tokens that a request can use, from the fields of each API. No I/O.

Bodies come from agents and are not trusted: an invalid value counts as unknown, and the provider may refuse it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from youbencha.gateway.api import WireName


class RequestSize(NamedTuple):
    """The parts of a request that determine its cost."""

    model: str | None
    stream: bool
    max_output: int | None
    """The most tokens that the answer may have; None if the client sets no limit."""
    size: int
    """Of the body, in bytes. A token has at least one byte."""


DEFAULT_MAX_OUTPUT = 128_000
"""For a client that sets no limit: no model in common use answers with more."""

_MOST = 10_000_000
"""No provider accepts a limit beyond this."""

_LONGEST_NAME = 256


class _Fields(NamedTuple):
    """The fields of an API that limit the answer. Of several names, the first with a valid value counts."""

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
    return DEFAULT_MAX_OUTPUT if asked.max_output is None else asked.max_output


def worst_tokens(asked: RequestSize) -> int:
    """Return the most tokens of all kinds that the call may use."""
    return asked.size + worst_output(asked)


def _max_output(wire: WireName, body: Mapping[str, object]) -> int | None:
    fields = _FIELDS[wire]
    for key in fields.inside:
        if isinstance(inner := body.get(key), Mapping):
            body = inner
            break
    limit, answers = _first(body, fields.limit), _first(body, fields.answers) or 1
    if answers == 1:
        return limit
    return answers * (DEFAULT_MAX_OUTPUT if limit is None else limit)


def _first(body: Mapping[str, object], keys: tuple[str, ...]) -> int | None:
    return next((count for key in keys if (count := _count(body.get(key))) is not None), None)


def _count(value: object) -> int | None:
    if isinstance(value, float) and value.is_integer():  # some clients write 1024.0
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= _MOST else None


def _name(value: object) -> str | None:
    """A model's name, if it is valid in a line of the ledger."""
    good = isinstance(value, str) and 0 < len(value) <= _LONGEST_NAME and value.isprintable()
    return value if isinstance(value, str) and good else None


# Input that is not in the request (an earlier answer, a file, a URL) costs money too, so the size of the request is
# then not an upper bound.

CONTEXT_TOKENS = 1_000_000
"""The largest common context window, which is the upper bound for such requests."""

_REFERENCES = frozenset({
    "previous_response_id", "conversation", "file_id", "file_ids", "file_url", "fileUri", "file_uri", "cachedContent",
    "cached_content", "container", "vector_store_ids", "mcp_servers", "googleSearch", "google_search", "urlContext",
    "url_context",
})  # fmt: skip

_CHECKED = _REFERENCES | {"image_url"}

_SERVER_TOOLS = ("web_search", "web_fetch", "file_search", "code_interpreter", "code_execution", "mcp", "tool_search")
"""Tools that the provider runs, and whose output the model reads."""

_OF_TOOLS = frozenset({"input_schema", "parameters", "properties", "arguments"})
"""Their content belongs to a tool, which may have a field called `conversation`."""


def has_unbounded_input(body: object) -> bool:
    """Whether a parsed body refers to such input. Without recursion, because the client decides how deep it is."""
    waiting = [body]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            if _refers(value):
                return True
            is_call = value.get("type") == "tool_use"
            for key, inner in value.items():
                if isinstance(inner, dict | list) and key not in _OF_TOOLS and not (is_call and key == "input"):
                    waiting.append(inner)
    return False


def _refers(found: dict[str, object]) -> bool:
    if not _CHECKED.isdisjoint(found):
        for key in _REFERENCES & found.keys():
            if found[key] is not None:
                return True
        image = found.get("image_url")
        address = image.get("url") if isinstance(image, dict) else image
        if isinstance(address, str) and not address.startswith("data:"):
            return True
    kind = found.get("type")
    return isinstance(kind, str) and (kind == "url" or kind.startswith(_SERVER_TOOLS))
