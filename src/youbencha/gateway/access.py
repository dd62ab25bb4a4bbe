"""The address and the key that an agent gets. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

Provider = Literal["anthropic", "openai", "gemini"]
"""The owner of an API, with one base URL and one key."""

PROVIDER_OF_PREFIX: Mapping[str, Provider] = {
    "anthropic": "anthropic",
    "openai": "openai",
    "google": "gemini",
    "gemini": "gemini",
}
"""Providers by the part before the slash of `provider/model`, in opencode and LiteLLM."""


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


def server_url(host: str, port: int) -> str:
    """Return the base URL of a server, with an IPv6 address in brackets."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
