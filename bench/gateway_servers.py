"""The model, our gateway and LiteLLM, each in its own process."""

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


class Servers(NamedTuple):
    """The servers to measure, and their process ids."""

    targets: Mapping[Name, Target]
    pids: Mapping[Name, int]

    @property
    def model(self) -> Target:
        return self.targets["direct"]


@asynccontextmanager
async def start_servers() -> AsyncIterator[Servers]:
    """Start all servers; LiteLLM only if it is installed."""
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
        yield Servers(targets, pids)


@contextmanager
def _model() -> Iterator[Target]:
    with _running(sys.executable, "-m", "bench.gateway_upstream") as (port, _):
        yield Target(f"http://127.0.0.1:{int(port)}", _REAL_KEY)


@contextmanager
def _gateway(model: Target) -> Iterator[tuple[Target, int]]:
    """Started as users do: with a ledger and a budget."""
    with tempfile.TemporaryDirectory(prefix="youbencha-bench-") as directory:
        ledger = str(Path(directory) / "ledger.jsonl")
        options = ("--upstream", model.url, "--key", "bench=1000000", "--ledger", ledger)
        with _running(installed_yb(), "gateway", *options, ANTHROPIC_API_KEY=model.key) as (line, pid):
            ready = json.loads(line)
            yield Target(ready["url"], ready["keys"]["bench"]), pid


@contextmanager
def _running(*command: str, **env: str) -> Iterator[tuple[str, int]]:
    """Run a command; gives the first line that it prints, and its process id."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=errors, text=True)
        with process:
            try:
                assert process.stdout is not None
                line = process.stdout.readline()
                if not line:
                    errors.seek(0)
                    raise AssertionError(f"it did not start: {' '.join(command)}\n{errors.read()}")
                yield line, process.pid
            finally:
                process.terminate()
