"""The answer's way back to the client: chunk by chunk as it comes, and the meter reads along."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from youbencha.gateway.api import WireName
from youbencha.gateway.call import PendingCall
from youbencha.gateway.metering.meter import Meter, meter_for
from youbencha.gateway.metering.usage_chunk import UsageChunkFilter
from youbencha.gateway.request import Headers, abort, returned_headers

if TYPE_CHECKING:
    from youbencha.gateway.cassette.matching import ReplayedAnswer

Chunks = list[tuple[float, bytes]]
"""Pieces of an answer, each with the milliseconds since the request came."""


class ClientGone(Exception):
    """There is nobody left to write to."""


async def play(
    request: web.Request, exchange: PendingCall, wire: WireName, replay: ReplayedAnswer, *, usage_hidden: bool
) -> web.StreamResponse:
    """A recorded answer, as if it came from the provider."""
    exchange.replayed = True
    exchange.status = replay.status
    response = web.StreamResponse(status=replay.status, headers=replay.headers)
    exchange.meter = _meter(wire, response.headers)
    usage_filter = _filter(usage_hidden, response.headers)
    try:
        await _begin(response, request)
        for delay_ms, chunk in replay.chunks:
            if delay_ms:
                await asyncio.sleep(delay_ms / 1000)
            exchange.meter.feed(chunk)
            await _write(response, chunk if usage_filter is None else usage_filter.feed(chunk))
        if usage_filter is not None:
            await _write(response, usage_filter.finish())
    except ClientGone:
        exchange.error = "client_gone"
        abort(request)
    else:
        await _end(response, exchange)
    return response


async def relay(
    request: web.Request,
    exchange: PendingCall,
    wire: WireName,
    answer: aiohttp.ClientResponse,
    headers: Headers,
    kept: Chunks | None,
    *,
    usage_hidden: bool,
) -> web.StreamResponse:
    """`headers` are the provider's own. `usage_hidden`: the client did not ask for the usage that a stream of chat may
    end with."""
    exchange.status = answer.status
    exchange.meter = meter = _meter(wire, answer.headers)
    usage_filter = _filter(usage_hidden, answer.headers)
    exchange.headers = passed = CIMultiDict(returned_headers(headers))
    response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=passed)
    if answer.status == 401:  # CLIs would try a rejected key for minutes
        response.headers["x-should-retry"] = "false"
    if usage_filter is None and answer.content_length is not None:
        response.content_length = answer.content_length
    gone: str | None = None
    received = 0
    try:
        await _begin(response, request)
        async for chunk in answer.content.iter_any():
            if exchange.first_byte_ms is None:
                exchange.first_byte_ms = exchange.elapsed_ms()
            meter.feed(chunk)
            if kept is not None:
                kept.append((exchange.elapsed_ms(), chunk))
            received += len(chunk)
            if received == response.content_length:
                exchange.conclude()
            await _write(response, chunk if usage_filter is None else usage_filter.feed(chunk))
        if usage_filter is not None:
            await _write(response, usage_filter.finish())
    except ClientGone:
        gone = "client_gone"
    except (aiohttp.ClientError, OSError):
        gone = "upstream_gone"
    if gone:
        exchange.error = exchange.error or gone
        abort(request)
    else:
        await _end(response, exchange)
    return response


def _meter(wire: WireName, headers: Mapping[str, str]) -> Meter:
    """`headers` by names of any case."""
    encoding = headers.get("Content-Encoding", "")
    return meter_for(wire, content_type=headers.get("Content-Type", ""), content_encoding=encoding)


def _filter(usage_hidden: bool, headers: Mapping[str, str]) -> UsageChunkFilter | None:
    """Only for what it can read: an error is no stream, and some servers compress though nobody asked them to."""
    is_stream = headers.get("Content-Type", "").lower().startswith("text/event-stream")
    is_plain = headers.get("Content-Encoding", "identity").lower() == "identity"
    return UsageChunkFilter() if usage_hidden and is_stream and is_plain else None


async def _begin(response: web.StreamResponse, request: web.Request) -> None:
    try:
        await response.prepare(request)
    except ConnectionError as error:
        raise ClientGone from error


async def _write(response: web.StreamResponse, chunk: bytes) -> None:
    if not chunk:
        return
    try:
        await response.write(chunk)
    except ConnectionError as error:
        raise ClientGone from error


async def _end(response: web.StreamResponse, exchange: PendingCall) -> None:
    exchange.conclude()
    try:
        await response.write_eof()
    except ConnectionError:
        # It has everything but the end mark; some clients leave as soon as they have read the last event.
        exchange.error = exchange.error or (None if exchange.metered().complete else "client_gone")
