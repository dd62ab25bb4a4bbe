"""What LiteLLM does to a provider's answers, undone as far as they still say it. Pure.

Measured with 1.106.2: of the provider's headers, only those of OpenAI's APIs come through, under another name; an
error's body is wrapped into the message of another; for Anthropic, 529 becomes 500 and 413 becomes 400.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

_OF_PROVIDER = "llm_provider-"

_OF_LITELLM = (_OF_PROVIDER, "x-litellm-")

_TELLING = re.compile(r"retry-after(-ms)?|x-should-retry|(anthropic|x)-ratelimit-.*|(x-)?request-id", re.IGNORECASE)

# By what the provider calls the error: LiteLLM has no such statuses.
_STATUSES: Mapping[str, int] = {"overloaded_error": 529, "request_too_large": 413}


class ErrorAnswer(NamedTuple):
    status: int
    body: bytes


def provider_headers(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """An answer's headers without what LiteLLM tells of itself, and with what the provider told the client to know."""
    given = dict(headers)
    kept = {name: value for name, value in given.items() if not name.lower().startswith(_OF_LITELLM)}
    told = {
        bare: value
        for name, value in given.items()
        if name.lower().startswith(_OF_PROVIDER) and _TELLING.fullmatch(bare := name[len(_OF_PROVIDER) :])
    }
    return {**told, **kept}


def provider_error(status: int, body: bytes) -> ErrorAnswer:
    """The error as the provider gave it, if its words are in there; otherwise as it came."""
    original = _inside(_message(body))
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


def _inside(message: str) -> dict[str, Any] | None:
    """`litellm.RateLimitError: AnthropicException - {"type": "error", …}`, and then more words."""
    start = message.find("{")
    if start < 0 or not message.startswith("litellm."):
        return None
    try:
        found, _ = json.JSONDecoder().raw_decode(message, start)
    except ValueError:
        return None
    return found if isinstance(found, dict) and "error" in found else None


# What a request must not tell LiteLLM: to ask another model than it names, or more often than once. Pure.
#
# Our gateway reads the model and the limits in the body, and counts one answer. LiteLLM takes orders beside them
# (tried
# with 1.106.2: `?model=` wins over the body, `fallbacks` ask a second model, `num_retries` asks again unseen).

QUERY = frozenset({"alt", "beta"})
"""What agents send. The rest is for LiteLLM alone."""

_ORDERS = frozenset({
    "fallbacks", "context_window_fallbacks", "content_policy_fallbacks", "num_retries", "max_retries", "retry_policy",
    "model_list", "user_config", "router_settings_override", "custom_llm_provider", "api_base", "base_url", "api_key",
    "api_version",
})  # fmt: skip

_FAMILIES = ("mock_", "litellm_")

_SEVERAL = ","
"""In a model's name: LiteLLM asks each of them."""


def order_in(body: object, model: str | None) -> str | None:
    """What in it cannot be metered, in words; None: nothing."""
    if not isinstance(body, Mapping):
        return "a body that is no JSON object"
    for key in body:
        if key in _ORDERS or str(key).startswith(_FAMILIES):
            return f"`{key}`"
    return "several models" if model and _SEVERAL in model else None
