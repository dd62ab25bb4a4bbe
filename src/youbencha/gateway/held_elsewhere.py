"""Whether a request makes the provider read what is not in it: an earlier answer, a file, an address. Pure.

Such input is paid for, and no byte of it is seen here, so that the size of the request bounds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

CONTEXT_TOKENS = 1_000_000
"""The most that a model takes in, as far as is common: the bound where the request has none."""

_REFERENCES = frozenset({
    "previous_response_id", "conversation", "file_id", "file_ids", "file_url", "fileUri", "file_uri", "cachedContent",
    "cached_content", "container", "vector_store_ids", "mcp_servers", "googleSearch", "google_search", "urlContext",
    "url_context",
})  # fmt: skip
_SERVER_TOOLS = ("web_search", "web_fetch", "file_search", "code_interpreter", "code_execution", "mcp", "tool_search")
"""Tools that the provider runs by itself, and whose findings it reads."""
_ONLY_WORDS = frozenset({"input_schema", "parameters", "properties", "arguments"})
"""What is below is somebody's own: a tool may well have a field called `conversation`."""


def reads_elsewhere(body: object) -> bool:
    return any(_refers(found) for found in _objects(body))


def _objects(body: object) -> Iterator[Mapping[str, object]]:
    """Every object in the request, without recursion: how deep it is, its sender says."""
    waiting = [body]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            yield value
            own = value.get("type") == "tool_use"
            waiting += [
                inner
                for key, inner in value.items()
                if isinstance(inner, Mapping | list) and key not in _ONLY_WORDS and not (own and key == "input")
            ]
        elif isinstance(value, list):
            waiting += [inner for inner in value if isinstance(inner, Mapping | list)]


def _refers(found: Mapping[str, object]) -> bool:
    kind = found.get("type")
    if any(found.get(key) is not None for key in _REFERENCES & found.keys()):
        return True
    if isinstance(kind, str) and (kind == "url" or kind.startswith(_SERVER_TOOLS)):
        return True
    image = found.get("image_url")
    address = image.get("url") if isinstance(image, Mapping) else image
    return isinstance(address, str) and not address.startswith("data:")
