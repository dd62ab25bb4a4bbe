"""Some agents quote an API's whole answer as their error text. Its message says all of it."""

from __future__ import annotations

from typing import NamedTuple

import orjson

from youbencha.adapters.cli_agent.fields import count, mapping, text


class ApiBody(NamedTuple):
    message: str
    status: int | None = None


def read_api_body(said: str) -> ApiBody:
    """`said` itself, where it is no such body."""
    try:
        error = mapping(mapping(orjson.loads(said)).get("error")) if said.lstrip().startswith("{") else {}
    except orjson.JSONDecodeError:
        error = {}
    code = count(error.get("code"))
    return ApiBody(text(error.get("message")) or said, code if code is not None and 400 <= code <= 599 else None)
