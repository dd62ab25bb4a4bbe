"""What the gateway adds to a model's answer, beside asking the model itself, and beside LiteLLM.

Client, gateway, LiteLLM and model are a process each. All are asked in turns, so that all see the same machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

import psutil

from bench.gateway_client import Connection, Target, requests_per_second
from bench.measure import Figure, mb, ms
from youbencha.gateway.litellm import LiteLLM
from youbencha.gateway.upstreams import Upstream
from youbencha.sandbox.toolbox import Toolbox

Name = Literal["direct", "gateway", "litellm"]

_GOAL_ADDED_S = 0.0015
_GOAL_SHARE = 10
"""How many times as much LiteLLM adds, at least."""
_GOAL_STREAM_BYTES = 50_000
"""As much as the request that began it: what is not kept for the answer."""
_ROUNDS = 10
_IN_A_ROUND: Mapping[Name, int] = {"gateway": 40, "litellm": 6}
_REST_S = 0.05
"""What LiteLLM still does when it has answered should not slow down the others."""
_CLIENTS = 8
_LOAD_ROUNDS = 3
_LOAD_S = 0.6
_OPEN_STREAMS = 200
_REAL_KEY = "the-real-key"


class Place(NamedTuple):
    """Who can be asked, and which processes are whose."""

    targets: Mapping[Name, Target]
    pids: Mapping[Name, int]

    @property
    def model(self) -> Target:
        return self.targets["direct"]


def measure() -> Iterator[Figure]:
    found = Toolbox().find("litellm")
    if found is None:
        print("LiteLLM is not in the toolbox (`yb agents install litellm`): measured without it", file=sys.stderr)
    with _model() as model, _gateway(model) as (gateway, pid):
        place = Place({"direct": model, "gateway": gateway}, {"gateway": pid})
        if found is None:
            yield from _figures(place)
        else:
            yield from asyncio.run(_beside_litellm(found.executable, place))


async def _beside_litellm(executable: Path, place: Place) -> list[Figure]:
    upstream = Upstream("anthropic", place.model.url, _REAL_KEY, "x-api-key")
    async with LiteLLM(executable, [upstream], env=os.environ) as litellm:
        assert litellm.pid is not None
        targets = {**place.targets, "litellm": Target(litellm.url, litellm.master_key)}
        both = Place(targets, {**place.pids, "litellm": litellm.pid})
        # In a thread: what LiteLLM prints must be read meanwhile.
        return await asyncio.to_thread(lambda: list(_figures(both)))


def _figures(place: Place) -> Iterator[Figure]:
    for stream in (False, True):
        yield _latency(place, stream=stream)
    yield _first_event(place)
    for stream in (False, True):
        yield _throughput(place, stream=stream)
    yield _memory(place)


# -- how long ----------------------------------------------------------------------------------------------------


def _latency(place: Place, *, stream: bool) -> Figure:
    requests = {name: target.request(stream=stream) for name, target in place.targets.items()}
    added = _in_turns(place, lambda name, connection: connection.ask(requests[name]))
    return _judged(f"gateway, added to a {'stream' if stream else 'JSON answer'}", added)


def _first_event(place: Place) -> Figure:
    """The model says no more until the client has this: whoever waits for the rest fails, and does not look slow."""
    requests = {name: target.request(stream=True, hold=True) for name, target in place.targets.items()}

    def ask(name: Name, connection: Connection) -> float:
        taken = connection.first_event(requests[name])
        place.model.release()
        connection.rest()
        return taken

    return _judged("gateway, added to the first event of a stream that goes on later", _in_turns(place, ask))


class Added(NamedTuple):
    """To what the model itself took, asked in turns with whom it was added by."""

    direct: float
    p50: float
    p99: float

    def __str__(self) -> str:
        return f"{ms(self.p50)} (p99 {ms(self.p99)})"


def _in_turns(place: Place, ask: Callable[[Name, Connection], float]) -> dict[Name, Added]:
    taken: dict[Name, list[tuple[float, float]]] = {name: [] for name in _IN_A_ROUND if name in place.targets}
    with ExitStack() as stack:
        connections = {name: stack.enter_context(Connection(target)) for name, target in place.targets.items()}
        for number in range(-1, _ROUNDS):
            for name, pairs in taken.items():
                for _ in range(_IN_A_ROUND[name]):
                    pairs.append((ask("direct", connections["direct"]), ask(name, connections[name])))
                if number < 0:  # until all are warm
                    pairs.clear()
                time.sleep(_REST_S)
    return {name: _added(pairs) for name, pairs in taken.items()}


def _added(pairs: list[tuple[float, float]]) -> Added:
    direct = statistics.median(alone for alone, _ in pairs)
    above = [seconds - direct for _, seconds in pairs]
    return Added(direct, statistics.median(above), statistics.quantiles(above, n=100)[-1])


def _judged(what: str, added: Mapping[Name, Added]) -> Figure:
    ours = added["gateway"]
    yardstick, goal, met = f"direct {ms(ours.direct)}", "≤ 1.5 ms", ours.p50 <= _GOAL_ADDED_S
    if "litellm" in added:
        yardstick += f", LiteLLM adds {added['litellm']}"
        goal += f", ≤ 1/{_GOAL_SHARE} of LiteLLM's"
        met = met and ours.p50 * _GOAL_SHARE <= added["litellm"].p50
    return Figure(what, str(ours), yardstick, goal, met)


# -- how many ----------------------------------------------------------------------------------------------------


def _throughput(place: Place, *, stream: bool) -> Figure:
    rates: dict[Name, list[float]] = {name: [] for name in place.targets}
    for _ in range(_LOAD_ROUNDS):
        for name, target in place.targets.items():
            request = target.request(stream=stream)
            rates[name].append(requests_per_second(target, request, clients=_CLIENTS, seconds=_LOAD_S))
    rate = {name: statistics.median(each) for name, each in rates.items()}
    yardstick, goal, met = f"direct {rate['direct']:.0f}/s", "–", True
    if "litellm" in rate:
        yardstick += f", LiteLLM {rate['litellm']:.0f}/s"
        goal = "≥ 5 × LiteLLM's"
        met = rate["gateway"] >= 5 * rate["litellm"]
    what = f"gateway, {'streams' if stream else 'JSON answers'} for {_CLIENTS} clients at once"
    return Figure(what, f"{rate['gateway']:.0f}/s", yardstick, goal, met)


# -- how much ----------------------------------------------------------------------------------------------------


def _memory(place: Place) -> Figure:
    idle = {name: _rss(pid) for name, pid in place.pids.items()}
    full = {name: _rss_with_streams(place, name) for name in place.pids}
    each = (full["gateway"] - idle["gateway"]) / _OPEN_STREAMS
    yardstick = f"idle {mb(idle['gateway'])}"
    if "litellm" in full:
        yardstick += f", LiteLLM {mb(full['litellm'])}, idle {mb(idle['litellm'])}"
    return Figure(
        f"gateway, memory with {_OPEN_STREAMS} open streams",
        f"{mb(full['gateway'])}, {each / 1000:.0f} KB each",
        yardstick,
        f"≤ {_GOAL_STREAM_BYTES // 1000} KB each",
        each <= _GOAL_STREAM_BYTES,
    )


def _rss_with_streams(place: Place, name: Name) -> int:
    target = place.targets[name]
    request = target.request(stream=True, hold=True)
    with ExitStack() as stack:
        connections = [stack.enter_context(Connection(target)) for _ in range(_OPEN_STREAMS)]
        for connection in connections:
            connection.first_event(request)
        rss = _rss(place.pids[name])
        place.model.release()
        for connection in connections:
            connection.rest()
    return rss


def _rss(pid: int) -> int:
    process = psutil.Process(pid)
    return sum(each.memory_info().rss for each in (process, *process.children(recursive=True)))


# -- who ---------------------------------------------------------------------------------------------------------


@contextmanager
def _model() -> Iterator[Target]:
    with _running(sys.executable, "-m", "bench.gateway_upstream") as (told, _):
        yield Target(f"http://127.0.0.1:{int(told)}", _REAL_KEY)


@contextmanager
def _gateway(model: Target) -> Iterator[tuple[Target, int]]:
    """As people run it: with a ledger, and with a cap to keep."""
    yb = shutil.which("yb", path=str(Path(sys.executable).parent))
    assert yb is not None, "install the project first: make bench does"
    with tempfile.TemporaryDirectory(prefix="youbencha-bench-") as directory:
        ledger = str(Path(directory) / "ledger.jsonl")
        options = ("--upstream", model.url, "--key", "bench=1000000", "--ledger", ledger)
        with _running(yb, "gateway", *options, ANTHROPIC_API_KEY=model.key) as (told, pid):
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
