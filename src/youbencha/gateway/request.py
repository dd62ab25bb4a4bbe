"""Read a client's request, with limits, and determine the headers, query and URL for the provider."""

from __future__ import annotations

import io
import json
import re
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import aiohttp
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.payload import TOO_LARGE_BYTES_BODY
from multidict import CIMultiDict
from yarl import URL

from youbencha.gateway.call import PendingCall
from youbencha.gateway.keys import PREFIX, BodyMemory, BodyMemoryError
from youbencha.gateway.litellm.translate import QUERY
from youbencha.gateway.refusals import Refusal
from youbencha.gateway.upstreams import Upstream
from youbencha.gateway.wires import Action, Route, find_route
from youbencha.gateway.wires.base import StreamFilter
from youbencha.json_lines import excerpt

MAX_REQUEST_BYTES = 64 * 1024 * 1024
"""Decoded. A prompt of a million characters is sent again with every turn."""

MAX_JSON_PARTS = 3_000_000
"""The limit of brackets and commas in a request, those in its texts included. Parsing sixty megabytes of `[],[],…`
blocked the event loop, and so all deadlines, for seven seconds; no model accepts a text with so many."""

_PARTS = (b"{", b"[", b",")

_NOT_IN_QUERY = frozenset({"key", "model"})
"""An upstream that is an unrecognized LiteLLM would use the query's model, while the gateway meters the body's."""


@dataclass
class ClientRequest:
    """A complete request to one of the APIs."""

    request: web.Request
    headers: Mapping[str, str]
    """The headers, by lower-case names."""
    route: Route
    raw: bytes
    """Decoded."""
    body: Any
    """Parsed; None if it is not JSON. No object in it has duplicate keys."""
    memory: BodyMemory

    def forget_body(self) -> None:
        """Free the body once it is sent: answers can take minutes, and conversations are long."""
        self.memory.give_back(len(self.raw))
        self.raw, self.body = b"", None


async def read_request(
    request: web.Request, headers: Mapping[str, str], route: Route, memory: BodyMemory
) -> ClientRequest:
    """Read the body. Its size counts in `memory` until `forget_body`."""
    raw = await _read_body(request, headers.get("content-encoding", ""), memory)
    if len(raw) > MAX_JSON_PARTS and sum(map(raw.count, _PARTS)) > MAX_JSON_PARTS:
        memory.give_back(len(raw))
        raise Refusal("too_large", "the request has more parts than this gateway accepts")
    try:
        return ClientRequest(request, headers, route, raw, _parse_body(raw) if raw else None, memory)
    except Refusal:
        memory.give_back(len(raw))
        raise


def _parse_body(raw: bytes) -> Any:
    """Parse the body; None if it is not JSON. Refuses duplicate keys: the provider may use the other value.

    The standard library's parser is used because orjson does not report them: 1.8 ms instead of 0.5 ms for 1 MB.
    """
    try:
        return json.loads(raw.decode("utf-8", "replace"), object_pairs_hook=_object_with_unique_keys)
    except (ValueError, RecursionError):
        return None


def _object_with_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        (name, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise Refusal("unreadable", f"the request has the key {excerpt(name)} twice")
    return fields


async def _read_body(request: web.Request, content_encoding: str, memory: BodyMemory) -> bytes:
    """Read and decode the body. aiohttp's `read()` would keep it until the answer has ended."""
    chunks: list[bytes] = []
    size = 0
    try:
        async for chunk in request.content.iter_any():
            memory.take(len(chunk))
            size += len(chunk)
            if size > MAX_REQUEST_BYTES:
                raise Refusal("too_large", _TOO_LARGE)
            chunks.append(chunk)
        body = _decode(b"".join(chunks), content_encoding.strip().lower())
        memory.take(len(body) - size)
    except BaseException as error:
        memory.give_back(size)
        if isinstance(error, BodyMemoryError):
            raise Refusal("too_large", "this key sends more data at the same time than this gateway accepts") from error
        if isinstance(error, web.RequestPayloadError | aiohttp.ClientPayloadError | HttpProcessingError):
            raise Refusal("unreadable", "the request's body is not valid HTTP") from error
        raise
    return body


_TOO_LARGE = "the request is larger than this gateway accepts"
_WINDOW_BITS = {"gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


def _decode(body: bytes, encoding: str) -> bytes:
    """Decompress a body, of which no more than the limit is expanded."""
    if encoding in ("", "identity"):
        return body
    if encoding not in _WINDOW_BITS:  # not forwarded, because it could not be metered
        raise Refusal("unreadable", "the request's body has an encoding that this gateway does not support")
    decoder = zlib.decompressobj(_WINDOW_BITS[encoding])
    try:
        decoded = decoder.decompress(body, MAX_REQUEST_BYTES + 1)
    except zlib.error:
        decoded = b""
    if len(decoded) > MAX_REQUEST_BYTES:
        raise Refusal("too_large", _TOO_LARGE)
    if body and (not decoder.eof or decoder.unused_data):
        raise Refusal("unreadable", "the request's body is not in the encoding that it claims")
    return decoded


def find_peer(request: web.Request) -> str | None:
    """Return the client's address, or the Unix socket that it connected to."""
    own = request.transport.get_extra_info("sockname") if request.transport is not None else None
    return own if isinstance(own, str) else request.remote


def raw_path(request: web.Request) -> str:
    """Return the path without decoding it, because `%2F` and `%3F` in a name must stay as they are."""
    return request.rel_url.raw_path.replace("%3A", ":").replace("%3a", ":")


def route_request(request: web.Request, headers: Mapping[str, str]) -> Route | None:
    path = raw_path(request)
    if not path.isascii() or not request.rel_url.raw_query_string.isascii():
        return None
    route = find_route(request.method, path, headers)
    leaves_path = route is not None and {".", ".."} & set(unquote(route.path).split("/"))
    return None if leaves_path else route


Headers = list[tuple[str, str]]
"""Pairs, because a name may occur more than once."""

_HOP_BY_HOP = {
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
    "transfer-encoding", "upgrade", "expect",
}  # fmt: skip

_NOT_SENT = _HOP_BY_HOP | {
    "host", "content-length", "content-encoding", "authorization", "x-api-key", "x-goog-api-key", "cookie",
    "accept-encoding",
}  # fmt: skip

_NOT_RETURNED = _HOP_BY_HOP | {
    "set-cookie", "alt-svc", "strict-transport-security", "content-length", "content-encoding", "date", "server",
}  # fmt: skip

_LITELLM_HEADERS = "x-litellm-"
"""Instructions for LiteLLM, which may be the upstream, such as how often to retry. They would bypass metering."""


def body_to_send(incoming: ClientRequest, call: PendingCall) -> tuple[bytes, StreamFilter | None]:
    """Return the body, and a filter for what it now requests in addition to the client."""
    route = incoming.route
    if route.action is Action.GENERATE and call.size.stream:
        return route.wire.request_usage(incoming.raw, incoming.body)
    return incoming.raw, None


def payload(raw: bytes) -> bytes | io.BytesIO | None:
    """Wrap a large body: aiohttp sends it in pieces, so that other tasks can run, unless it is plain bytes."""
    return io.BytesIO(raw) if len(raw) > TOO_LARGE_BYTES_BODY else raw or None


def headers_for(incoming: ClientRequest, upstream: Upstream) -> CIMultiDict[str]:
    """Return the headers for the provider. The answer must not be compressed: a key in it could not be masked."""
    sent = _headers_to_send(list(incoming.request.headers.items()))
    if upstream.is_litellm and incoming.raw:  # it also accepts a form, in which it could read another request
        sent = [(name, value) for name, value in sent if name.lower() != "content-type"]
        sent.append(("Content-Type", "application/json"))
    return CIMultiDict([*sent, ("Accept-Encoding", "identity"), *upstream.credentials().items()])


def url_for(upstream: Upstream, route: Route, request: web.Request) -> URL:
    """Return the URL with the client's query, except for virtual keys and what would change the request."""
    parts = (part for part in request.rel_url.raw_query_string.split("&") if part)
    query = "&".join(part for part in parts if _is_passed_on(unquote(part), upstream))
    return URL(upstream.full_url(route.path) + (f"?{query}" if query else ""), encoded=True)


def _is_passed_on(part: str, upstream: Upstream) -> bool:
    name = part.partition("=")[0]
    known = name in QUERY if upstream.is_litellm else name not in _NOT_IN_QUERY
    return known and PREFIX not in part


def _headers_to_send(headers: Headers) -> Headers:
    """The client's headers for the provider, without any that contains a virtual key."""
    dropped = _NOT_SENT | _named_by_connection(headers)
    return [
        (name, value)
        for name, value in headers
        if name.lower() not in dropped and not name.lower().startswith(_LITELLM_HEADERS) and PREFIX not in value
    ]


def returned_headers(headers: Headers) -> Headers:
    """The provider's headers for the client, including rate limits and request ids."""
    dropped = _NOT_RETURNED | _named_by_connection(headers)
    return [(name, value) for name, value in headers if name.lower() not in dropped]


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """The value of `retry-after` in seconds. The other form, a date, is passed on but not parsed."""
    value = headers.get("retry-after", "").strip()
    return float(value) if re.fullmatch(r"\d{1,9}(?:\.\d+)?", value) else None


def _named_by_connection(headers: Headers) -> set[str]:
    """The headers that `Connection` names, which are only for the next hop."""
    values = (value for name, value in headers if name.lower() == "connection")
    return {word.strip().lower() for value in values for word in value.split(",")}
