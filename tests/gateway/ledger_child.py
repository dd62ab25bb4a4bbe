"""A process that serves a gateway: to be killed, or to run on a disk that is full. No test itself.

python ledger_child.py serve LEDGER UPSTREAM_URL    until it is killed; tells its URL and key
python ledger_child.py fill LEDGER                  asks until the disk is full, and beyond
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import aiohttp
from gateway_bench import ANTHROPIC, HELLO, upstreams_at

from youbencha.gateway.call import Labels
from youbencha.gateway.gateway import Gateway
from youbencha.gateway.ledger import Ledger
from youbencha.scripted_model import ScriptedModel, parse_script


async def serve(ledger: Path, upstream: str) -> None:
    with Ledger(ledger) as written:
        await _serve(written, upstream)


async def _serve(written: Ledger, upstream: str) -> None:
    async with Gateway(upstreams=upstreams_at(upstream), ledger=written) as gateway:
        access = gateway.issue(Labels("trial-1"))
        print(json.dumps([access.url, access.key]), flush=True)
        await asyncio.Event().wait()


async def fill(ledger: Path) -> None:
    with Ledger(ledger) as written:
        await _fill(ledger, written)


async def _fill(ledger: Path, written: Ledger) -> None:
    async with (
        ScriptedModel(parse_script(HELLO)) as model,
        Gateway(upstreams=upstreams_at(model.url), ledger=written) as gateway,
        aiohttp.ClientSession(headers={"x-api-key": (access := gateway.issue(Labels("trial-1"))).key}) as client,
    ):
        statuses = []
        for _ in range(60):
            async with client.post(f"{access.url}/v1/messages", json=dict(ANTHROPIC.body)) as response:
                await response.read()
                statuses.append(response.status)
        failure = gateway.ledger.failure
        ledger.with_name("filler").unlink()  # there is room again
        async with client.get(f"{access.url}/v1/models") as response:
            statuses.append(response.status)
        grant = gateway.end(access.key)
        assert grant is not None
        await gateway.settled(grant)
    report = {"statuses": statuses, "failure": failure, "requests": grant.totals.requests, "ledger": ledger.read_text()}
    print(json.dumps(report))


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[2]), sys.argv[3]) if sys.argv[1] == "serve" else fill(Path(sys.argv[2])))
