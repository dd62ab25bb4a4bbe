"""The tools that a request to OpenAI's responses offers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from youbencha.gateway.script.asked import mappings, text_in


class Offered(NamedTuple):
    free_form: bool = False
    """It takes a text instead of arguments, as Codex's apply_patch does."""
    namespace: str | None = None


def offered_tools(body: Mapping[str, Any]) -> dict[str, Offered]:
    """By name. For its newest models, Codex 0.166 puts them into the conversation instead of the request's `tools`."""
    added = [item for item in mappings(body.get("input")) if item.get("type") == "additional_tools"]
    return {name: tool for holder in (body, *added) for name, tool in _named(holder, None)}


def _named(holder: Mapping[str, Any], namespace: str | None) -> Iterator[tuple[str, Offered]]:
    for tool in mappings(holder.get("tools")):
        name, kind = text_in(tool, "name"), tool.get("type")
        if kind == "namespace":
            yield from _named(tool, name)
        else:  # what the API itself does (a search of the web) has no name but its type
            yield name or str(kind), Offered(kind == "custom", namespace)
