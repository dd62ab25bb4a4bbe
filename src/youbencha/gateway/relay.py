"""The answer's way back to the client: chunk by chunk as it comes, and the meter reads along."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aiohttp
from aiohttp import web

from youbencha.gateway.exchange import Exchange
from youbencha.gateway.headers import returned
from youbencha.gateway.metering import meter_for
from youbencha.gateway.metering.usage_chunk import UsageChunkFilter
from youbencha.gateway.routes import WireName

if TYPE_CHECKING:
    from youbencha.gateway.cassette import Replay

Chunks = list[tuple[float, bytes]]
"""Pieces of an answer, each with the milliseconds since the request came."""


async def play(request: web.Request, exchange: Exchange, wire: WireName, replay: Replay) -> web.StreamResponse:
    """A recorded answer, as if it came from the provider."""
    exchange.replayed = True
    exchange.status = replay.status
    exchange.meter = meter_for(wire, content_type=replay.headers.get("content-type", ""))
    response = web.StreamResponse(status=replay.status, headers=replay.headers)
    await response.prepare(request)
    for delay_ms, chunk in replay.chunks:
        if delay_ms:
            await asyncio.sleep(delay_ms / 1000)
        exchange.meter.feed(chunk)
        await _write(response, exchange, chunk)
    await _end(response, exchange)
    return response


async def relay(
    request: web.Request,
    exchange: Exchange,
    wire: WireName,
    answer: aiohttp.ClientResponse,
    usage_filter: UsageChunkFilter | None,
    kept: Chunks | None,
) -> web.StreamResponse:
    exchange.status = answer.status
    exchange.meter = meter = meter_for(
        wire,
        content_type=answer.headers.get("Content-Type", ""),
        content_encoding=answer.headers.get("Content-Encoding", ""),
    )
    response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=returned(answer.headers.items()))
    if answer.status == 401:  # CLIs would try a rejected key for minutes
        response.headers["x-should-retry"] = "false"
    if usage_filter is None and answer.content_length is not None:
        response.content_length = answer.content_length
    await response.prepare(request)
    try:
        async for chunk in answer.content.iter_any():
            if exchange.first_byte_ms is None:
                exchange.first_byte_ms = exchange.elapsed_ms()
            meter.feed(chunk)
            if kept is not None:
                kept.append((exchange.elapsed_ms(), chunk))
            await _write(response, exchange, chunk if usage_filter is None else usage_filter.feed(chunk))
        if usage_filter is not None:
            await _write(response, exchange, usage_filter.finish())
    except (aiohttp.ClientError, OSError):
        exchange.error = exchange.error or "upstream_gone"
    if exchange.error in ("upstream_gone", "client_gone"):
        _cut(request)  # without the end mark of the body, so that the client sees that it was cut off
    else:
        await _end(response, exchange)
    return response


async def _write(response: web.StreamResponse, exchange: Exchange, chunk: bytes) -> None:
    if not chunk:
        return
    try:
        await response.write(chunk)
    except ConnectionError:
        exchange.error = "client_gone"
        raise


async def _end(response: web.StreamResponse, exchange: Exchange) -> None:
    try:
        await response.write_eof()
    except ConnectionError:
        # It has everything but the end mark; some clients leave as soon as they have read the last event.
        exchange.error = exchange.error or (None if exchange.metered().complete else "client_gone")


def _cut(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.close()
