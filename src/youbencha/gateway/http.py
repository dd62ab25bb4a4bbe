"""Functions for HTTP servers and clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiohttp import web


def url_of(host: str, port: int) -> str:
    """Return the base URL of a server, with an IPv6 address in brackets."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def abort(request: web.Request) -> None:
    """Close the connection without ending the body, so that the client sees that it was cut off."""
    if request.transport is not None:
        request.transport.close()
