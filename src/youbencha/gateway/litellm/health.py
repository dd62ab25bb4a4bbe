"""Whether a LiteLLM is there, and takes a key."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from youbencha.errors import YouBenchaError

if TYPE_CHECKING:
    import aiohttp

_PATIENCE_S = 10.0


class Health(Enum):
    SILENT = "silent"
    """Nobody answers, or somebody who is no LiteLLM."""
    REFUSING = "refusing"
    """It runs, but does not take this key."""
    READY = "ready"


def new_client() -> aiohttp.ClientSession:
    import aiohttp

    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_PATIENCE_S), cookie_jar=aiohttp.DummyCookieJar())


async def health_of(client: aiohttp.ClientSession, url: str, key: str) -> Health:
    if await _status(client, f"{url}/health/liveliness") != 200:
        return Health.SILENT
    # The first question answers to anybody. This one asks for the key, and so also tells that this is the LiteLLM
    # we mean, and not one of somebody else's that has the port by now.
    status = await _status(client, f"{url}/v1/models", {"Authorization": f"Bearer {key}"})
    return Health.READY if status == 200 else Health.REFUSING


async def _status(client: aiohttp.ClientSession, url: str, headers: dict[str, str] | None = None) -> int | None:
    import aiohttp

    try:
        async with client.get(url, headers=headers, allow_redirects=False) as answer:
            await answer.read()
            return answer.status
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return None


async def check_litellm(url: str, key: str) -> None:
    """For one that runs already: an error that says what is wrong with it."""
    async with new_client() as client:
        health = await health_of(client, url.rstrip("/").removesuffix("/v1"), key)
    if health is Health.SILENT:
        raise YouBenchaError(
            "LITELLM_NOT_READY",
            f"no LiteLLM answers at {url}",
            hint=f"Start it, and see that `curl {url.rstrip('/')}/health/liveliness` works. "
            "Without `gateway.litellm.url`, one is started for you.",
        )
    if health is Health.REFUSING:
        raise YouBenchaError(
            "LITELLM_KEY_REFUSED",
            f"the LiteLLM at {url} does not take the key that it was given",
            hint="`gateway.litellm.key_env` names the variable that holds its master key or a virtual key.",
        )
