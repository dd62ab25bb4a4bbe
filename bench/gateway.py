"""What the gateway adds to a model's answer, beside asking the model itself, and beside LiteLLM.

All are asked in turns, so that all see the same machine.
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
from bench.gateway_place import Name, Place, everybody
from bench.measure import ComponentMissing, Figure, mb, ms

_GOAL_ADDED_S = 0.0015
_GOAL_SHARE = 10
"""How many times as much LiteLLM adds, at least."""
_GOAL_STREAM_BYTES = 50_000
"""As much as the request that began it: what is not kept for the answer."""
_ROUNDS = 10
_IN_A_ROUND: Mapping[Name, int] = {"gateway": 40, "litellm": 6}
_REST_S = 0.05
"""What LiteLLM still does when it has answered should not slow down the others."""
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
    async with everybody() as place:
        figures = _figures(place)
        # In a thread: what LiteLLM prints must be read meanwhile.
        while figure := await asyncio.to_thread(next, figures, None):
            yield figure


def _figures(place: Place) -> Iterator[Figure]:
    _warm_up(place)
    for stream in (False, True):
        yield _latency(place, stream=stream)
    yield _first_event(place)
    for stream in (False, True):
        yield _throughput(place, stream=stream)
    yield _memory(place)
    if "litellm" not in place.targets:
        raise ComponentMissing("the comparison with LiteLLM (not in the toolbox): run `yb agents install litellm`")


def _warm_up(place: Place) -> None:
    """LiteLLM says that it is ready before it has done all that it does at its start."""
    for target in place.targets.values():
        with Connection(target) as connection:
            for number in range(_WARM_UP):
                connection.ask(target.request(stream=bool(number % 2)))
    time.sleep(_WARM_UP_S)


# -- how long ----------------------------------------------------------------------------------------------------


def _latency(place: Place, *, stream: bool) -> Figure:
    requests = {name: target.request(stream=stream) for name, target in place.targets.items()}
    added = _in_turns(place, lambda name, connection: connection.ask(requests[name]))
    return _judged(f"added to a {'stream' if stream else 'JSON answer'}", added)


def _first_event(place: Place) -> Figure:
    """The model says no more until the client has this: whoever waits for the rest waits for ever."""
    requests = {name: target.request(stream=True, hold=True) for name, target in place.targets.items()}

    def ask(name: Name, connection: Connection) -> float:
        taken = connection.first_event(requests[name])
        place.model.release()
        connection.rest()
        return taken

    what = "added to the first event of a stream that goes on later"
    try:
        return _judged(what, _in_turns(place, ask))
    except TimeoutError:
        return Figure(what, "it does not come", "with the rest only", "≤ 1.5 ms", False)


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
    met: bool | None
    yardstick, goal, met = f"direct {rate['direct']:.0f}/s", "–", None
    if "litellm" in rate:
        yardstick += f", LiteLLM {rate['litellm']:.0f}/s"
        goal = "≥ 5 × LiteLLM's"
        met = rate["gateway"] >= 5 * rate["litellm"]
    what = f"{'streams' if stream else 'JSON answers'} for {_CLIENTS} clients at once"
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
        f"memory with {_OPEN_STREAMS} open streams",
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
