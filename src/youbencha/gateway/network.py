"""How the gateway itself reaches a provider: its client, certificates, and a company's proxy."""

from __future__ import annotations

import os
import ssl
from contextlib import suppress
from functools import lru_cache
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

_SILENCE_S = 600.0
"""The longest that a provider may say nothing. Its own clients wait as long."""


def new_client(*, secure: bool) -> aiohttp.ClientSession:
    """No limit of connections: how many requests run at once is the agents' business.

    `secure`: some upstream is behind TLS. To read certificates takes a tenth of a second, which others need not wait.
    """
    own = _own_certificates() if secure else None
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=30.0, ssl=True if own is None else own)
    return aiohttp.ClientSession(
        connector=connector,
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=30.0, sock_read=_SILENCE_S),
        read_bufsize=256 * 1024,
    )


@lru_cache(maxsize=16)
def proxy_for(url: str) -> str | None:
    """As HTTPS_PROXY and NO_PROXY say. Not aiohttp's own way, which would take credentials from a .netrc too."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host in ("localhost", "::1") or host.startswith("127.") or proxy_bypass(host):
        return None
    if parts.port is not None and ":" not in host and proxy_bypass(f"{host}:{parts.port}"):  # NO_PROXY may name one
        return None
    proxy = getproxies().get(parts.scheme)
    return f"http://{proxy}" if proxy and "://" not in proxy else proxy


def _own_certificates() -> ssl.SSLContext | None:
    """Agents on Node take a company's certificates from this variable; behind the gateway, it is we who need them.

    A file that cannot be read is passed over, as Node does: what needs it fails with a message of its own.
    """
    extra = os.environ.get("NODE_EXTRA_CA_CERTS")
    if not extra:
        return None
    context = ssl.create_default_context()
    with suppress(OSError):
        context.load_verify_locations(extra)
    return context
