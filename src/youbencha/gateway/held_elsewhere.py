"""Whether a request makes the provider read what is not in it: an earlier answer, a file, an address. Pure.

Such input is paid for, and no byte of it is seen here, so that the size of the request bounds nothing.
"""

from __future__ import annotations

CONTEXT_TOKENS = 1_000_000
"""The most that a model takes in, as far as is common: the bound where the request has none."""

_REFERENCES = frozenset({
    "previous_response_id", "conversation", "file_id", "file_ids", "file_url", "fileUri", "file_uri", "cachedContent",
    "cached_content", "container", "vector_store_ids", "mcp_servers", "googleSearch", "google_search", "urlContext",
    "url_context",
})  # fmt: skip
_TELLING = _REFERENCES | {"image_url"}
_SERVER_TOOLS = ("web_search", "web_fetch", "file_search", "code_interpreter", "code_execution", "mcp", "tool_search")
"""Tools that the provider runs by itself, and whose findings it reads."""
_ONLY_WORDS = frozenset({"input_schema", "parameters", "properties", "arguments"})
"""What is below is somebody's own: a tool may well have a field called `conversation`."""


def reads_elsewhere(body: object) -> bool:
    """`body` as it was parsed. Without recursion: how deep it is, its sender says."""
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
                if isinstance(inner, dict | list) and key not in _ONLY_WORDS and not (is_call and key == "input"):
                    waiting.append(inner)
    return False


def _refers(found: dict[str, object]) -> bool:
    if not _TELLING.isdisjoint(found):
        for key in _REFERENCES & found.keys():
            if found[key] is not None:
                return True
        image = found.get("image_url")
        address = image.get("url") if isinstance(image, dict) else image
        if isinstance(address, str) and not address.startswith("data:"):
            return True
    kind = found.get("type")
    return isinstance(kind, str) and (kind == "url" or kind.startswith(_SERVER_TOOLS))
