"""The model, our gateway and LiteLLM, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from bench.gateway_client import Target
from bench.measure import installed_yb
from youbencha.gateway.litellm.process import LiteLLM
from youbencha.gateway.upstreams import Upstream
from youbencha.sandbox.toolbox.toolbox import Toolbox

Name = Literal["direct", "gateway", "litellm"]
_REAL_KEY = "the-real-key"


class Place(NamedTuple):
    """Who can be asked, and which processes are whose."""

    targets: Mapping[Name, Target]
    pids: Mapping[Name, int]

    @property
    def model(self) -> Target:
        return self.targets["direct"]


@asynccontextmanager
async def everybody() -> AsyncIterator[Place]:
    """LiteLLM only where it is installed."""
    async with AsyncExitStack() as stack:
        model = stack.enter_context(_model())
        gateway, pid = stack.enter_context(_gateway(model))
        targets: dict[Name, Target] = {"direct": model, "gateway": gateway}
        pids: dict[Name, int] = {"gateway": pid}
        if found := Toolbox().find("litellm"):
            upstream = Upstream("anthropic", model.url, model.key, "x-api-key")
            litellm = await stack.enter_async_context(LiteLLM(found.executable, [upstream], env=os.environ))
            assert litellm.pid is not None
            targets["litellm"] = Target(litellm.url, litellm.master_key)
            pids["litellm"] = litellm.pid
        yield Place(targets, pids)


@contextmanager
def _model() -> Iterator[Target]:
    with _running(sys.executable, "-m", "bench.gateway_upstream") as (told, _):
        yield Target(f"http://127.0.0.1:{int(told)}", _REAL_KEY)


@contextmanager
def _gateway(model: Target) -> Iterator[tuple[Target, int]]:
    """As people run it: with a ledger, and with a cap to keep."""
    with tempfile.TemporaryDirectory(prefix="youbencha-bench-") as directory:
        ledger = str(Path(directory) / "ledger.jsonl")
        options = ("--upstream", model.url, "--key", "bench=1000000", "--ledger", ledger)
        with _running(installed_yb(), "gateway", *options, ANTHROPIC_API_KEY=model.key) as (told, pid):
            ready = json.loads(told)
            yield Target(ready["url"], ready["keys"]["bench"]), pid


@contextmanager
def _running(*command: str, **env: str) -> Iterator[tuple[str, int]]:
    """The first line that it prints, and its process."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=errors, text=True)
        with process:
            try:
                assert process.stdout is not None
                told = process.stdout.readline()
                if not told:
                    errors.seek(0)
                    raise AssertionError(f"it did not start: {' '.join(command)}\n{errors.read()}")
                yield told, process.pid
            finally:
                process.terminate()
