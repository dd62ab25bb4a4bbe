"""The APIs that the gateway serves, by path; and the address and key for an agent. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from functools import lru_cache
from typing import Literal, NamedTuple


def _never_busy() -> bool:
    return False


class GatewayAccess(NamedTuple):
    """The gateway's address, and a key that is valid for one trial."""

    url: str
    """Without a path: `http://127.0.0.1:41234`. Some clients need `/v1` after it."""
    key: str
    """A virtual key. The real one never leaves the gateway."""
    is_busy: Callable[[], bool] = _never_busy
    """Whether a request with this key is in progress."""

    def __repr__(self) -> str:
        return f"GatewayAccess(url={self.url!r}, key=…)"


WireName = Literal["anthropic-messages", "openai-chat", "openai-responses", "gemini"]
"""An API, by its format on the wire."""

Provider = Literal["anthropic", "openai", "gemini"]
"""The owner of an API, with one base URL and one key."""

PROVIDER_OF: Mapping[WireName, Provider] = {
    "anthropic-messages": "anthropic",
    "openai-chat": "openai",
    "openai-responses": "openai",
    "gemini": "gemini",
}

PROVIDER_OF_PREFIX: Mapping[str, Provider] = {
    "anthropic": "anthropic",
    "openai": "openai",
    "google": "gemini",
    "gemini": "gemini",
}
"""By the part before the slash of `provider/model`, in opencode and LiteLLM."""


class Action(Enum):
    """What a path requests."""

    ANSWER = "answer"
    COUNT = "count"
    MODELS = "models"


class Route(NamedTuple):
    wire: WireName
    action: Action
    path: str
    """As in the API itself, without the prefix of a base URL."""

    @property
    def provider(self) -> Provider:
        return PROVIDER_OF[self.wire]


_GEMINI_MODEL = r"/v1(?:alpha|beta)?/models/[^/:]+"

_ROWS: tuple[tuple[str, str, WireName, Action], ...] = (
    ("POST", r"/v1/messages", "anthropic-messages", Action.ANSWER),
    ("POST", r"/v1/messages/count_tokens", "anthropic-messages", Action.COUNT),
    ("POST", r"/v1/chat/completions", "openai-chat", Action.ANSWER),
    ("POST", r"/v1/responses", "openai-responses", Action.ANSWER),
    ("POST", rf"{_GEMINI_MODEL}:(?:g|streamG)enerateContent", "gemini", Action.ANSWER),
    ("POST", rf"{_GEMINI_MODEL}:countTokens", "gemini", Action.COUNT),
    ("GET", r"/v1/models(?:/[^/:]+)?", "anthropic-messages", Action.MODELS),
    ("GET", r"/v1(?:alpha|beta)/models(?:/[^/:]+)?", "gemini", Action.MODELS),
)


def lower_names(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def route_of(method: str, path: str, headers: Mapping[str, str]) -> Route | None:
    """Return the API and the action of a path, whatever prefix a base URL has. `headers` by lower-case names.

    None for a path of another API.
    """
    found = _by_path(method, path)
    if found and found.action is Action.MODELS and found.wire == "anthropic-messages":
        return found._replace(wire=_of_client(headers))
    return found


@lru_cache(maxsize=256)
def _by_path(method: str, path: str) -> Route | None:
    for wanted, pattern, wire, action in _ROWS:
        if wanted == method and (found := re.search(f"{pattern}/?$", path)):
            return Route(wire, action, found.group().rstrip("/"))
    return None


def _of_client(headers: Mapping[str, str]) -> WireName:
    """The API of a model list: three APIs use the same path, and only the client's headers differ."""
    if "x-goog-api-key" in headers:
        return "gemini"
    bearer_only = "authorization" in headers and "anthropic-version" not in headers
    return "openai-chat" if bearer_only else "anthropic-messages"
