"""Send an answer to the client chunk by chunk as it arrives, and meter it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from youbencha.gateway.call import PendingCall
from youbencha.gateway.mask import KeyMask
from youbencha.gateway.metering import BodyMeter, StreamMeter
from youbencha.gateway.request import Headers, returned_headers
from youbencha.gateway.wires import Wire
from youbencha.gateway.wires.base import StreamFilter

if TYPE_CHECKING:
    from youbencha.gateway.cassette.answers import ReplayedAnswer

Chunks = list[tuple[float, bytes]]
"""Pieces of an answer, each with its milliseconds since the request."""

_GRACE_BEFORE_CUT_S = 0.5
"""How long a client has to read what it was sent before its connection is cut.

A client discards what it has not read by then. If an answer was cut right after its last event, Claude Code 2.1.326
continued from what it had received in half of 20 sessions and started again in the others, so that its requests did
not match the recording; after 0.05 s, it always continued.
"""


class _ClientGoneError(Exception):
    """The client has closed its connection."""


async def relay(
    request: web.Request,
    call: PendingCall,
    wire: Wire,
    answer: aiohttp.ClientResponse,
    headers: Headers,
    mask: KeyMask,
    chunks: Chunks | None,
    stream_filter: StreamFilter | None,
) -> web.StreamResponse:
    """Send a provider's answer, and keep it in `chunks` if it is to be recorded.

    `headers` are the provider's. `stream_filter` is for an answer that is a stream; errors are not.
    """
    call.status = answer.status
    call.meter = meter = wire.meter(answer.headers.get("Content-Type", ""))
    usage_filter = stream_filter if isinstance(meter, StreamMeter) else None
    call.headers = passed = CIMultiDict(returned_headers(headers))
    is_decoded = passed.pop("Content-Encoding", "identity") != "identity"  # by aiohttp
    if answer.status == 401:  # CLIs would retry a rejected key for minutes
        passed["x-should-retry"] = "false"
    response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=passed)
    if chunks is not None:
        _close_after(response)
    if usage_filter is None and not is_decoded and answer.content_length is not None:
        response.content_length = answer.content_length
    gone: str | None = None
    received = 0
    try:
        await _begin(response, request)
        async for chunk in _masked(answer, mask):
            call.received()
            meter.feed(chunk)
            if chunks is not None:
                chunks.append((call.elapsed_ms(), chunk))
            received += len(chunk)
            if received == response.content_length:
                _note_end(call)
                call.finish()
            await _write(response, chunk if usage_filter is None else usage_filter.feed(chunk))
        if usage_filter is not None:
            await _write(response, usage_filter.finish())
    except _ClientGoneError:
        gone = "client_gone"
    except (aiohttp.ClientError, OSError):
        gone = "upstream_gone"
    if gone:
        call.error = call.error or gone
        await _cut(request, call)
    else:
        await _end(response, call)
    return response


async def _masked(answer: aiohttp.ClientResponse, mask: KeyMask) -> AsyncIterator[bytes]:
    """Yield the answer without keys."""
    async for chunk in answer.content.iter_any():
        yield mask.feed(chunk)
    yield mask.feed(b"")


async def replay(
    request: web.Request, call: PendingCall, wire: Wire, answer: ReplayedAnswer, stream_filter: StreamFilter | None
) -> web.StreamResponse:
    """Send a recorded answer as if it came from the provider."""
    call.replayed = True
    call.status = answer.status
    call.error = answer.failed or ("provider_refused" if answer.status >= 400 else None)
    call.upstream_status = answer.status if answer.failed else None
    response = web.StreamResponse(status=answer.status, headers=answer.headers)
    _close_after(response)
    call.meter = wire.meter(response.headers.get("Content-Type", ""))
    usage_filter = stream_filter if isinstance(call.meter, StreamMeter) else None
    try:
        await _begin(response, request)
        for delay_ms, chunk in answer.chunks:
            if delay_ms:
                await asyncio.sleep(delay_ms / 1000)
            call.meter.feed(chunk)
            await _write(response, chunk if usage_filter is None else usage_filter.feed(chunk))
        if usage_filter is not None:
            await _write(response, usage_filter.finish())
    except _ClientGoneError:
        call.error = "client_gone"
    if call.error in ("client_gone", "upstream_gone"):
        await _cut(request, call)
    else:
        await _end(response, call)
    return response


async def _begin(response: web.StreamResponse, request: web.Request) -> None:
    try:
        await response.prepare(request)
    except ConnectionError as error:
        raise _ClientGoneError from error


async def _write(response: web.StreamResponse, chunk: bytes) -> None:
    if not chunk:
        return
    try:
        await response.write(chunk)
    except ConnectionError as error:
        raise _ClientGoneError from error


def _close_after(response: web.StreamResponse) -> None:
    """Close the connection after an answer that is recorded or replayed.

    If an answer is cut on a connection that was used before, Claude Code 2.0.62 sends the request again at once, not
    counted as a retry. After that, the session continued in three different ways; on a new connection, always in the
    same way.
    """
    response.force_close()


async def _cut(request: web.Request, call: PendingCall) -> None:
    """Break the connection before the end of the answer, after the client has had time to read what was sent."""
    call.finish()
    if call.error != "client_gone":
        await asyncio.sleep(_GRACE_BEFORE_CUT_S)
    if request.transport is not None:
        request.transport.close()


def _note_end(call: PendingCall) -> None:
    call.note_end()
    if call.status != 400 or call.route is None or not isinstance(call.meter, BodyMeter):
        return
    if call.route.wire.is_without_credit(call.meter.body):
        call.error = "no_credit"


async def _end(response: web.StreamResponse, call: PendingCall) -> None:
    _note_end(call)
    call.finish()
    try:
        await response.write_eof()
    except ConnectionError:
        # Only the end of the body is missing; some clients disconnect after the last event.
        call.error = call.error or (None if call.metered().complete else "client_gone")
