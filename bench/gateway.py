"""What the gateway adds to the time of a model's answer, compared with asking the model directly, and with LiteLLM.

Requests alternate between them, so that all are measured under the same conditions.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import NamedTuple

import psutil

from bench.gateway_client import Connection, requests_per_second
from bench.gateway_servers import Name, Servers, start_servers
from bench.measure import ComponentMissing, Figure, mb, ms

_GOAL_ADDED_S = 0.0015
_GOAL_SHARE = 10
"""LiteLLM should add at least this many times as much."""
_GOAL_STREAM_BYTES = 50_000
"""The size of a request, which must not be kept for the length of its stream."""
_ROUNDS = 10
_IN_A_ROUND: Mapping[Name, int] = {"gateway": 40, "litellm": 6}
_REST_S = 0.05
"""A pause, so that what LiteLLM does after an answer does not slow down the others."""
_WARM_UP, _WARM_UP_S = 20, 1.0
_CLIENTS = 8
_LOAD_ROUNDS = 3
_LOAD_S = 0.6
_OPEN_STREAMS = 200


def measure() -> Iterator[Figure]:
    measured = _measured()

    async def next_figure() -> Figure | None:
        return await anext(measured, None)

    with asyncio.Runner() as runner:
        while figure := runner.run(next_figure()):
            yield figure


async def _measured() -> AsyncIterator[Figure]:
    async with start_servers() as servers:
        figures = _figures(servers)
        # In a thread, because the event loop must read LiteLLM's output meanwhile.
        while figure := await asyncio.to_thread(next, figures, None):
            yield figure


def _figures(servers: Servers) -> Iterator[Figure]:
    _warm_up(servers)
    for stream in (False, True):
        yield _latency(servers, stream=stream)
    yield _first_event(servers)
    for stream in (False, True):
        yield _throughput(servers, stream=stream)
    yield _memory(servers)
    if "litellm" not in servers.targets:
        raise ComponentMissing("the comparison with LiteLLM (not in the toolbox): run `yb agents install litellm`")


def _warm_up(servers: Servers) -> None:
    """LiteLLM reports that it is ready before its start-up is complete."""
    for target in servers.targets.values():
        with Connection(target) as connection:
            for number in range(_WARM_UP):
                connection.ask(target.request(stream=bool(number % 2)))
    time.sleep(_WARM_UP_S)


def _latency(servers: Servers, *, stream: bool) -> Figure:
    requests = {name: target.request(stream=stream) for name, target in servers.targets.items()}
    added = _alternate(servers, lambda name, connection: connection.ask(requests[name]))
    return _compared(f"added to a {'stream' if stream else 'JSON answer'}", added)


def _first_event(servers: Servers) -> Figure:
    """The model sends the rest only after the client has the first event: a proxy that buffers waits forever."""
    requests = {name: target.request(stream=True, hold=True) for name, target in servers.targets.items()}

    def ask(name: Name, connection: Connection) -> float:
        taken = connection.first_event(requests[name])
        servers.model.release()
        connection.read_answer()
        return taken

    what = "added to the first event of a stream that goes on later"
    try:
        return _compared(what, _alternate(servers, ask))
    except TimeoutError:
        return Figure(what, "no event", "only with the rest", "≤ 1.5 ms", False)


class Added(NamedTuple):
    """Added seconds, compared with direct requests in the same rounds."""

    direct: float
    p50: float
    p99: float

    def __str__(self) -> str:
        return f"{ms(self.p50)} (p99 {ms(self.p99)})"


def _alternate(servers: Servers, ask: Callable[[Name, Connection], float]) -> dict[Name, Added]:
    taken: dict[Name, list[tuple[float, float]]] = {name: [] for name in _IN_A_ROUND if name in servers.targets}
    with ExitStack() as stack:
        connections = {name: stack.enter_context(Connection(target)) for name, target in servers.targets.items()}
        for _ in range(_ROUNDS):
            for name, pairs in taken.items():
                for _ in range(_IN_A_ROUND[name]):
                    pairs.append((ask("direct", connections["direct"]), ask(name, connections[name])))
                time.sleep(_REST_S)
    return {name: _added(pairs) for name, pairs in taken.items()}


def _added(pairs: list[tuple[float, float]]) -> Added:
    direct = statistics.median(alone for alone, _ in pairs)
    above = [seconds - direct for _, seconds in pairs]
    return Added(direct, statistics.median(above), statistics.quantiles(above, n=100)[-1])


def _compared(what: str, added: Mapping[Name, Added]) -> Figure:
    ours = added["gateway"]
    yardstick, goal, met = f"direct {ms(ours.direct)}", "≤ 1.5 ms", ours.p50 <= _GOAL_ADDED_S
    if "litellm" in added:
        yardstick += f", LiteLLM adds {added['litellm']}"
        goal += f", ≤ 1/{_GOAL_SHARE} of LiteLLM's"
        met = met and ours.p50 * _GOAL_SHARE <= added["litellm"].p50
    return Figure(what, str(ours), yardstick, goal, met)


def _throughput(servers: Servers, *, stream: bool) -> Figure:
    rates: dict[Name, list[float]] = {name: [] for name in servers.targets}
    for _ in range(_LOAD_ROUNDS):
        for name, target in servers.targets.items():
            request = target.request(stream=stream)
            rates[name].append(requests_per_second(target, request, clients=_CLIENTS, seconds=_LOAD_S))
    rate = {name: statistics.median(each) for name, each in rates.items()}
    met: bool | None
    yardstick, goal, met = f"direct {rate['direct']:.0f}/s", "–", None
    if "litellm" in rate:
        yardstick += f", LiteLLM {rate['litellm']:.0f}/s"
        goal = "≥ 5 × LiteLLM's"
        met = rate["gateway"] >= 5 * rate["litellm"]
    what = f"{'streams' if stream else 'JSON answers'} for {_CLIENTS} clients at once"
    return Figure(what, f"{rate['gateway']:.0f}/s", yardstick, goal, met)


def _memory(servers: Servers) -> Figure:
    idle = {name: _rss(pid) for name, pid in servers.pids.items()}
    full = {name: _rss_with_streams(servers, name) for name in servers.pids}
    each = (full["gateway"] - idle["gateway"]) / _OPEN_STREAMS
    yardstick = f"idle {mb(idle['gateway'])}"
    if "litellm" in full:
        yardstick += f", LiteLLM {mb(full['litellm'])}, idle {mb(idle['litellm'])}"
    return Figure(
        f"memory with {_OPEN_STREAMS} open streams",
        f"{mb(full['gateway'])}, {each / 1000:.0f} KB each",
        yardstick,
        f"≤ {_GOAL_STREAM_BYTES // 1000} KB each",
        each <= _GOAL_STREAM_BYTES,
    )


def _rss_with_streams(servers: Servers, name: Name) -> int:
    target = servers.targets[name]
    request = target.request(stream=True, hold=True)
    with ExitStack() as stack:
        connections = [stack.enter_context(Connection(target)) for _ in range(_OPEN_STREAMS)]
        for connection in connections:
            connection.first_event(request)
        rss = _rss(servers.pids[name])
        servers.model.release()
        for connection in connections:
            connection.read_answer()
    return rss


def _rss(pid: int) -> int:
    process = psutil.Process(pid)
    return sum(each.memory_info().rss for each in (process, *process.children(recursive=True)))
