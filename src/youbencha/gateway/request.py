"""A request of a client, and what of it goes on to the provider."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import aiohttp
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.payload import TOO_LARGE_BYTES_BODY
from multidict import CIMultiDict
from yarl import URL

from youbencha.gateway.api import Action, Route, route_of
from youbencha.gateway.call import PendingCall
from youbencha.gateway.json_fields import read_json
from youbencha.gateway.keys import PREFIX, BodyMemory, TooMuchError
from youbencha.gateway.metering.usage_chunk import with_usage_asked
from youbencha.gateway.refusals import Reason

if TYPE_CHECKING:
    from youbencha.gateway.upstreams import Upstream


_PARTS = (b"{", b"[", b",")

MOST_PARTS = 3_000_000
"""Of a request's JSON, counted in its texts too. Sixty megabytes of `[],[],…` kept everybody waiting for seven seconds
of reading, deadlines included; no model takes in a text with so many."""

_FEW_PARTS = MOST_PARTS
"""Bytes: in fewer there cannot be more."""

_NOT_IN_QUERY = frozenset({"key", "model"})
"""A LiteLLM that we take for the provider itself believes the query's model, and we the body's."""

_DECODED = ("gzip", "deflate")
"""Encodings of a request's body that aiohttp has undone when we read it."""


@dataclass
class ClientRequest:
    """A request that has arrived in full, and whose path is known."""

    request: web.Request
    headers: Mapping[str, str]
    """By lower-case names."""
    route: Route
    raw: bytes
    body: Any
    """Parsed JSON; None if it is none."""
    held: BodyMemory

    def forget_body(self) -> None:
        """Once it is sent: an answer can take minutes, and a conversation is long."""
        self.held.give_back(len(self.raw))
        self.raw, self.body = b"", None


class Refusal(Exception):
    """The gateway answers by itself, and not as the client would like."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason: Reason = reason
        self.message = message


def peer_of(request: web.Request) -> str | None:
    """Where it comes from: an address, or the Unix socket by which it came."""
    own = request.transport.get_extra_info("sockname") if request.transport is not None else None
    return own if isinstance(own, str) else request.remote


def path_of(request: web.Request) -> str:
    """As it was sent: a slash or a question mark that a name hides (`%2F`, `%3F`) must not become one on the way."""
    return request.rel_url.raw_path.replace("%3A", ":").replace("%3a", ":")


def routed(request: web.Request, headers: Mapping[str, str]) -> Route | None:
    path = path_of(request)
    if not path.isascii() or not request.rel_url.raw_query_string.isascii():
        return None
    route = route_of(request.method, path, headers)
    leads_away = route is not None and {".", ".."} & set(unquote(route.path).split("/"))
    return None if leads_away else route


async def arrived(request: web.Request, headers: Mapping[str, str], route: Route, held: BodyMemory) -> ClientRequest:
    """What it takes of `held` it gives back when its body is forgotten."""
    raw = await _body_read(request, held)
    if len(raw) > _FEW_PARTS and sum(map(raw.count, _PARTS)) > MOST_PARTS:
        held.give_back(len(raw))
        raise Refusal("too_large", "the request has more parts than this gateway takes")
    return ClientRequest(request, headers, route, raw, read_json(raw) if raw else None, held)


async def _body_read(request: web.Request, held: BodyMemory) -> bytes:
    """Not by aiohttp's own `read()`, which keeps it until the answer has ended."""
    chunks: list[bytes] = []
    size = 0
    try:
        async for chunk in request.content.iter_any():
            held.take(len(chunk))
            chunks.append(chunk)
            size += len(chunk)
            if size > request.client_max_size:
                raise Refusal("too_large", "the request is larger than this gateway takes")
    except BaseException as error:
        held.give_back(size)
        if isinstance(error, TooMuchError):
            raise Refusal("too_large", "this key sends more at once than this gateway takes") from error
        if isinstance(error, web.RequestPayloadError | aiohttp.ClientPayloadError | HttpProcessingError):
            raise Refusal("unreadable", "the request's body is not in the encoding that it claims") from error
        raise
    return b"".join(chunks)


def payload(raw: bytes) -> bytes | io.BytesIO | None:
    """aiohttp sends what is large in pieces, so that others get their turn, if it is not plain bytes."""
    return io.BytesIO(raw) if len(raw) > TOO_LARGE_BYTES_BODY else raw or None


def with_usage(incoming: ClientRequest, exchange: PendingCall) -> tuple[bytes, bool]:
    """The body to send, and whether it now asks for a usage that the client does not want to see."""
    route = incoming.route
    if route.wire == "openai-chat" and route.action is Action.ANSWER and exchange.asked.stream:
        return with_usage_asked(incoming.raw, incoming.body)
    return incoming.raw, False


def headers_for(incoming: ClientRequest, upstream: Upstream, *, readable: bool) -> CIMultiDict[str]:
    """`readable`: something is taken out of the answer, which cannot be done while it is compressed."""
    encoding = incoming.headers.get("content-encoding", "").strip().lower()
    sent = sent_on(list(incoming.request.headers.items()), decoded=encoding in _DECODED, secret=PREFIX)
    if upstream.is_litellm and incoming.raw:  # it would read a form, too, and see in it another request than we do
        sent = [(name, value) for name, value in sent if name.lower() != "content-type"]
        sent.append(("Content-Type", "application/json"))
    accepted = "identity" if readable else accepted_encoding(incoming.headers.get("accept-encoding", ""))
    return CIMultiDict([*sent, ("Accept-Encoding", accepted), *upstream.credentials().items()])


def url_for(upstream: Upstream, route: Route, request: web.Request) -> URL:
    """What the query means is the provider's business, but for our own key, and for what would change the request."""
    parts = (part for part in request.rel_url.raw_query_string.split("&") if part)
    query = "&".join(part for part in parts if _goes_on(unquote(part), upstream))
    return URL(upstream.url_of(route.path) + (f"?{query}" if query else ""), encoded=True)


def _goes_on(part: str, upstream: Upstream) -> bool:
    from youbencha.gateway.litellm.translate import QUERY

    name = part.partition("=")[0]
    known = name in QUERY if upstream.is_litellm else name not in _NOT_IN_QUERY
    return known and PREFIX not in part


# Which headers go on to the other side, and which belong to one connection or to one key. Pure.

_HOP_BY_HOP = {
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
    "transfer-encoding", "upgrade", "expect",
}  # fmt: skip

_NOT_SENT = _HOP_BY_HOP | {
    "host", "content-length", "authorization", "x-api-key", "x-goog-api-key", "cookie", "accept-encoding",
}  # fmt: skip

_NOT_RETURNED = _HOP_BY_HOP | {"set-cookie", "alt-svc", "strict-transport-security", "content-length", "date", "server"}

_ORDERS = "x-litellm-"
"""For a LiteLLM that may stand behind: how often to try, and the like. What it does by itself is not metered."""

_READABLE = ("gzip", "deflate")
"""Encodings that the meter can read too."""


Headers = list[tuple[str, str]]
"""Pairs, since a name may come more than once."""


def sent_on(headers: Headers, *, decoded: bool, secret: str) -> Headers:
    """What the provider gets of the client's headers. `decoded`: the body no longer has the encoding it came in.

    No header goes on that holds a virtual key, whatever its name: `secret` is how all of them begin.
    """
    kept = _NOT_SENT | _of_connection(headers) | ({"content-encoding"} if decoded else set())
    return [
        (name, value)
        for name, value in headers
        if name.lower() not in kept and not name.lower().startswith(_ORDERS) and secret not in value
    ]


def accepted_encoding(accepted: str) -> str:
    """As much of what the client accepts as can be metered; the answer's bytes go to it untouched."""
    words = {part.partition(";")[0].strip().lower() for part in accepted.split(",")}
    return ", ".join(name for name in _READABLE if name in words) or "identity"


def returned(headers: Headers) -> Headers:
    """What the client gets of the provider's headers: rate limits, request ids and all."""
    kept = _NOT_RETURNED | _of_connection(headers)
    return [(name, value) for name, value in headers if name.lower() not in kept]


def _of_connection(headers: Headers) -> set[str]:
    """What `Connection` names is for the next one in the chain alone."""
    said = (value for name, value in headers if name.lower() == "connection")
    return {word.strip().lower() for value in said for word in value.split(",")}


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """In seconds, if it is said so. The other form, a date, is passed on but not understood here."""
    value = headers.get("retry-after", "").strip()
    return float(value) if re.fullmatch(r"\d{1,9}(?:\.\d+)?", value) else None
