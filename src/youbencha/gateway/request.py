"""A client's request: read it, bounded, and decide which headers, query and URL go on to the provider."""

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
from youbencha.gateway.encoding import Decoder, encoding_of
from youbencha.gateway.keys import PREFIX, BodyMemory, BodyMemoryError
from youbencha.gateway.litellm.translate import QUERY
from youbencha.gateway.refusals import Refusal
from youbencha.gateway.usage_chunk import with_usage_asked
from youbencha.json_lines import loads_lossy

if TYPE_CHECKING:
    from youbencha.gateway.upstreams import Upstream

MAX_REQUEST_BYTES = 64 * 1024 * 1024
"""Decoded. A prompt of a million characters is sent again with every turn."""

MAX_JSON_PARTS = 3_000_000
"""Of a request's JSON, counted in its texts too. Parsing sixty megabytes of `[],[],…` blocked the event loop for seven
seconds, deadlines included; no model takes a text with so many."""

_PARTS = (b"{", b"[", b",")

_NOT_IN_QUERY = frozenset({"key", "model"})
"""A LiteLLM that we take for the provider itself uses the query's model, and we the body's."""


@dataclass
class ClientRequest:
    """A request that has arrived in full, and whose path is known."""

    request: web.Request
    headers: Mapping[str, str]
    """By lower-case names."""
    route: Route
    raw: bytes
    """Decoded."""
    body: Any
    """Parsed; None if it is not JSON."""
    memory: BodyMemory

    def forget_body(self) -> None:
        """Free the body once it is sent: an answer can take minutes, and a conversation is long."""
        self.memory.give_back(len(self.raw))
        self.raw, self.body = b"", None


async def read_request(
    request: web.Request, headers: Mapping[str, str], route: Route, memory: BodyMemory
) -> ClientRequest:
    """Read the body. What it takes of `memory` is given back when the body is forgotten."""
    raw = await _read_body(request, headers.get("content-encoding", ""), memory)
    if len(raw) > MAX_JSON_PARTS and sum(map(raw.count, _PARTS)) > MAX_JSON_PARTS:
        memory.give_back(len(raw))
        raise Refusal("too_large", "the request has more parts than this gateway takes")
    return ClientRequest(request, headers, route, raw, loads_lossy(raw) if raw else None, memory)


async def _read_body(request: web.Request, content_encoding: str, memory: BodyMemory) -> bytes:
    """Read and decode. Not by aiohttp's `read()`, which keeps the body until the answer has ended."""
    encoding = encoding_of(content_encoding)
    if encoding is None:  # not passed on: what the provider reads then is not what was metered
        raise Refusal("unreadable", "the request's body is in an encoding that this gateway does not read")
    decoder = None if encoding == "identity" else Decoder(encoding, MAX_REQUEST_BYTES + 1)
    pieces: list[bytes] = []
    size = received = 0
    try:
        async for chunk in request.content.iter_any():
            received += len(chunk)
            for piece in (chunk,) if decoder is None else decoder.feed(chunk):
                memory.take(len(piece))
                pieces.append(piece)
                size += len(piece)
                if size > MAX_REQUEST_BYTES:
                    raise Refusal("too_large", "the request is larger than this gateway takes")
        if decoder is not None and received and not decoder.complete:
            raise Refusal("unreadable", "the request's body is not in the encoding that it claims")
    except BaseException as error:
        memory.give_back(size)
        if isinstance(error, BodyMemoryError):
            raise Refusal("too_large", "this key sends more at once than this gateway takes") from error
        if isinstance(error, web.RequestPayloadError | aiohttp.ClientPayloadError | HttpProcessingError):
            raise Refusal("unreadable", "the request's body is not transferred as HTTP says") from error
        raise
    return b"".join(pieces)


# -- where it comes from, and what it wants --------------------------------------------------------------------


def peer_of(request: web.Request) -> str | None:
    """Return the client's address, or the Unix socket by which it came."""
    own = request.transport.get_extra_info("sockname") if request.transport is not None else None
    return own if isinstance(own, str) else request.remote


def path_of(request: web.Request) -> str:
    """Return the path as it was sent: a slash or a question mark in a name (`%2F`, `%3F`) must stay one."""
    return request.rel_url.raw_path.replace("%3A", ":").replace("%3a", ":")


def route_request(request: web.Request, headers: Mapping[str, str]) -> Route | None:
    path = path_of(request)
    if not path.isascii() or not request.rel_url.raw_query_string.isascii():
        return None
    route = route_of(request.method, path, headers)
    leaves_path = route is not None and {".", ".."} & set(unquote(route.path).split("/"))
    return None if leaves_path else route


# -- what goes on to the provider ------------------------------------------------------------------------------

Headers = list[tuple[str, str]]
"""Pairs, since a name may come more than once."""

_HOP_BY_HOP = {
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
    "transfer-encoding", "upgrade", "expect",
}  # fmt: skip

_NOT_SENT = _HOP_BY_HOP | {
    "host", "content-length", "content-encoding", "authorization", "x-api-key", "x-goog-api-key", "cookie",
    "accept-encoding",
}  # fmt: skip

_NOT_RETURNED = _HOP_BY_HOP | {"set-cookie", "alt-svc", "strict-transport-security", "content-length", "date", "server"}

_LITELLM_HEADERS = "x-litellm-"
"""Instructions for a LiteLLM that may be the upstream, such as how often to retry. What it does by itself is not
metered."""

_METERED_ENCODINGS = ("gzip", "deflate")


def body_to_send(incoming: ClientRequest, call: PendingCall) -> tuple[bytes, bool]:
    """Return the body, and whether it now asks for a usage that the client does not want to see."""
    route = incoming.route
    if route.wire == "openai-chat" and route.action is Action.ANSWER and call.asked.stream:
        return with_usage_asked(incoming.raw, incoming.body)
    return incoming.raw, False


def payload(raw: bytes) -> bytes | io.BytesIO | None:
    """aiohttp sends a large body in pieces, so that other tasks get their turn, if it is not plain bytes."""
    return io.BytesIO(raw) if len(raw) > TOO_LARGE_BYTES_BODY else raw or None


def headers_for(incoming: ClientRequest, upstream: Upstream, *, readable: bool) -> CIMultiDict[str]:
    """`readable`: something is taken out of the answer, which cannot be done while it is compressed."""
    sent = _sent(list(incoming.request.headers.items()))
    if upstream.is_litellm and incoming.raw:  # it would also read a form, and see in it another request than we do
        sent = [(name, value) for name, value in sent if name.lower() != "content-type"]
        sent.append(("Content-Type", "application/json"))
    accepted = "identity" if readable else accepted_encoding(incoming.headers.get("accept-encoding", ""))
    return CIMultiDict([*sent, ("Accept-Encoding", accepted), *upstream.credentials().items()])


def url_for(upstream: Upstream, route: Route, request: web.Request) -> URL:
    """The query goes on, except our own key and what would change the request."""
    parts = (part for part in request.rel_url.raw_query_string.split("&") if part)
    query = "&".join(part for part in parts if _goes_on(unquote(part), upstream))
    return URL(upstream.url_of(route.path) + (f"?{query}" if query else ""), encoded=True)


def _goes_on(part: str, upstream: Upstream) -> bool:
    name = part.partition("=")[0]
    known = name in QUERY if upstream.is_litellm else name not in _NOT_IN_QUERY
    return known and PREFIX not in part


def _sent(headers: Headers) -> Headers:
    """The client's headers, without any that holds a virtual key, whatever its name."""
    dropped = _NOT_SENT | _named_by_connection(headers)
    return [
        (name, value)
        for name, value in headers
        if name.lower() not in dropped and not name.lower().startswith(_LITELLM_HEADERS) and PREFIX not in value
    ]


def accepted_encoding(accepted: str) -> str:
    """As much of what the client accepts as can be metered; the answer's bytes go to it untouched."""
    words = {part.partition(";")[0].strip().lower() for part in accepted.split(",")}
    return ", ".join(name for name in _METERED_ENCODINGS if name in words) or "identity"


# -- what comes back -------------------------------------------------------------------------------------------


def returned_headers(headers: Headers) -> Headers:
    """What the client gets of the provider's headers: rate limits, request ids and all."""
    dropped = _NOT_RETURNED | _named_by_connection(headers)
    return [(name, value) for name, value in headers if name.lower() not in dropped]


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """In seconds, if the header has this form. The other form, a date, is passed on but not read here."""
    value = headers.get("retry-after", "").strip()
    return float(value) if re.fullmatch(r"\d{1,9}(?:\.\d+)?", value) else None


def _named_by_connection(headers: Headers) -> set[str]:
    """Headers that `Connection` names are for the next hop alone."""
    values = (value for name, value in headers if name.lower() == "connection")
    return {word.strip().lower() for value in values for word in value.split(",")}
