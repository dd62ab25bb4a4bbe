"""Requests to LiteLLM and answers from it: refuse options that cannot be metered, restore providers' errors. No I/O.

Measured with 1.106.2. Requests: `?model=` wins over the body's model, `fallbacks` asks a second model, and
`num_retries` retries, while the gateway reads the body and counts one answer. Answers: of the provider's headers, only
those of OpenAI's APIs are passed on, under other names; an error's body is wrapped into the message of another; for
Anthropic, 529 becomes 500 and 413 becomes 400.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from youbencha.gateway.wires import Wire
from youbencha.gateway.wires.base import to_camel_case
from youbencha.json_lines import as_mapping, as_records

_OF_PROVIDER = "llm_provider-"
_OF_LITELLM = (_OF_PROVIDER, "x-litellm-")
_CLIENTS_USE = re.compile(r"retry-after(-ms)?|x-should-retry|(anthropic|x)-ratelimit-.*|(x-)?request-id", re.IGNORECASE)

_STATUSES: Mapping[str, int] = {"overloaded_error": 529, "request_too_large": 413}
"""Statuses by the provider's error type, because LiteLLM does not preserve them."""


class ErrorAnswer(NamedTuple):
    status: int
    body: bytes


def provider_headers(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return an answer's headers without LiteLLM's own, and with the provider's headers that clients use."""
    headers_by_name = dict(headers)
    kept = {name: value for name, value in headers_by_name.items() if not name.lower().startswith(_OF_LITELLM)}
    restored = {
        bare: value
        for name, value in headers_by_name.items()
        if name.lower().startswith(_OF_PROVIDER) and _CLIENTS_USE.fullmatch(bare := name[len(_OF_PROVIDER) :])
    }
    return {**restored, **kept}


def provider_error(status: int, body: bytes) -> ErrorAnswer:
    """Return the provider's original error, if LiteLLM's message contains it; otherwise LiteLLM's."""
    original = _wrapped_error(_message(body))
    if original is None:
        return ErrorAnswer(status, body)
    error = original["error"]
    kind = error.get("type") if isinstance(error, dict) else None
    return ErrorAnswer(_STATUSES.get(str(kind), status), json.dumps(original, ensure_ascii=False).encode())


def _message(body: bytes) -> str:
    try:
        message = json.loads(body)["error"]["message"]
    except (ValueError, TypeError, LookupError):
        return ""
    return message if isinstance(message, str) else ""


def _wrapped_error(message: str) -> dict[str, Any] | None:
    """Parse `litellm.RateLimitError: AnthropicException - {"type": "error", …}`; more text may follow."""
    start = message.find("{")
    if start < 0 or not message.startswith("litellm."):
        return None
    try:
        error, _ = json.JSONDecoder().raw_decode(message, start)
    except ValueError:
        return None
    return error if isinstance(error, dict) and "error" in error else None


QUERY = frozenset({"alt", "beta"})
"""What agents send. Anything else could only be meant for LiteLLM."""


def unmetered_option(wire: Wire, body: object, model: str | None) -> str | None:
    """Return a description of what cannot be metered in a request; None if there is nothing.

    LiteLLM has instructions for itself among the fields of a request (`api_base`, `fallbacks`, `extra_body`, …), and in
    `metadata`; it runs MCP tools itself, and asks each of several models. So only an API's own fields are passed on.
    """
    if not isinstance(body, Mapping):
        return "a body that is not a JSON object"
    fields = [name for name in body if not {name, to_camel_case(name)} & wire.fields]
    fields += [f"metadata.{name}" for name in as_mapping(body.get("metadata")) if name != "user_id"]
    fields += [
        f"tools: {kind}" for tool in as_records(body.get("tools")) if (kind := str(tool.get("type"))[:3]) == "mcp"
    ]
    return f"`{fields[0][:80]}`" if fields else "several models" if model and "," in model else None
