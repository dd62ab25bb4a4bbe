"""The part of the Ray executor that runs on nodes: one attempt in a process of Ray, which reports to the driver."""

from __future__ import annotations

import asyncio
import os
import pickle
import platform
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from youbencha import __version__
from youbencha.adapters.cli_agent.environment import is_model_credential
from youbencha.engine.ray.shipping import (
    FilePart,
    PortablePlan,
    batches,
    read_agent_files,
    read_results,
    unpack_plan,
)
from youbencha.errors import YouBenchaError
from youbencha.evaluators.base import SharedResults
from youbencha.events import Event
from youbencha.locks import lock_file
from youbencha.spec.settings import load_settings
from youbencha.store.layout import RESULTS_FILE
from youbencha.trial.context import Host
from youbencha.trial.gateway_session import RemoteGateways, Ticket
from youbencha.trial.run import run_trial
from youbencha.workspace.run_dir import ARTIFACTS, LOCK, remove_private
from youbencha.workspace.trees import remove_tree

_RAY_PREFIXES = ("RAY_", "OMP_NUM_THREADS")
_PAUSE_S = 0.05
"""Events within this time are reported together."""


@dataclass(frozen=True, kw_only=True)
class AttemptOrder:
    """One attempt for a node."""

    run_id: str
    agent: str
    """The orchestrator, whose budget pays for it."""
    ticket: Ticket | None
    keep_workspace: bool


class NodeStarted(NamedTuple):
    """The first report."""

    host: str
    pid: int


class EventBatch(NamedTuple):
    events: tuple[Event, ...]


class FileBatch(NamedTuple):
    """Files of the attempt's directory.

    Preliminary results are sent when the agent starts, and all files at the end, with the final results last.
    """

    parts: tuple[FilePart, ...]


class AttemptFailure(NamedTuple):
    """The last report of an attempt that could not be run."""

    code: str | None
    """None for an error that youBencha did not expect."""
    message: str
    hint: str | None = None


Report = NodeStarted | EventBatch | FileBatch | AttemptFailure

_loop: asyncio.AbstractEventLoop | None = None
_shared = SharedResults()
"""Shared by all attempts in this process, as the event loop is."""


class Shipment(NamedTuple):
    """What a node needs for the attempts of a cell. The references are to Ray's object store."""

    plan: bytes
    """A `PortablePlan`, pickled: it can be read by the same version only."""
    files: Any
    """Refers to the pickled files."""
    pack: Any
    """Refers to the commits; None if there are none."""


def run_on_node(version: str, shipment: Shipment, order: AttemptOrder) -> Iterator[Report]:
    """Run an attempt, and yield reports. SIGINT, with which Ray cancels it, ends it in an orderly way.

    It runs in the main thread, between the reports, as signals need it.
    """
    yield NodeStarted(platform.node(), os.getpid())
    if version != __version__:
        yield AttemptFailure(
            "RAY_VERSION_MISMATCH", f"This node has youBencha {__version__}, and the driver has {version}."
        )
        return
    global _loop
    _loop = _loop or asyncio.new_event_loop()
    env = node_environment(os.environ)
    host = Host(env, load_settings(Path.home(), Path.home()))
    host.shared = _shared
    with _directory(host.cache_dir, order.run_id) as directory:
        yield from _run(_loop, directory, host, shipment, order)


def node_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for agents and evaluators: the node's, without the API keys of models and Ray's own."""
    return {
        name: value
        for name, value in env.items()
        if not is_model_credential(name) and not name.startswith(_RAY_PREFIXES)
    }


def _run(
    loop: asyncio.AbstractEventLoop, directory: Path, host: Host, shipment: Shipment, order: AttemptOrder
) -> Iterator[Report]:
    events: list[Event] = []
    run = directory / "run"
    running = loop.create_task(_run_trial(run, host, shipment, order, events.append))
    loop.add_signal_handler(signal.SIGINT, running.cancel)
    has_started = False
    try:
        while not running.done():
            loop.run_until_complete(asyncio.wait([running], timeout=_PAUSE_S))
            if not has_started and (results := tuple(read_results(run))):
                has_started = True
                yield FileBatch(results)
            if events:
                yield EventBatch(tuple(events))
                events.clear()
        if failed := _failure(running):
            yield FileBatch(tuple(read_results(run)))
            yield failed
            return
        for parts in batches(_results_last(read_agent_files(run))):
            yield FileBatch(parts)
    finally:
        running.cancel()
        loop.run_until_complete(asyncio.gather(running, return_exceptions=True))
        loop.remove_signal_handler(signal.SIGINT)


async def _run_trial(
    directory: Path, host: Host, shipment: Shipment, order: AttemptOrder, on_event: Callable[[Event], None]
) -> None:
    import ray

    portable_plan: PortablePlan = pickle.loads(shipment.plan)  # noqa: S301 - the driver's, as the files
    files = pickle.loads(ray.get(shipment.files))  # noqa: S301
    config = directory.with_name("config")
    plan = await unpack_plan(portable_plan, files, lambda: ray.get(shipment.pack), config, host.cache_dir)
    host.env = {**host.env, **portable_plan.env}
    host.gateways = RemoteGateways(order.ticket) if order.ticket else None
    await run_trial(
        plan,
        host,
        directory=directory,
        run_id=order.run_id,
        agent=order.agent,
        on_event=on_event,
        delete_workspace=not order.keep_workspace,
    )


def _failure(running: asyncio.Task[None]) -> AttemptFailure | None:
    if running.cancelled():
        return AttemptFailure("INTERRUPTED", "The attempt was cancelled.")
    match running.exception():
        case None:
            return None
        case YouBenchaError() as error:
            return AttemptFailure(error.code, error.message, error.hint)
        case error:
            return AttemptFailure(None, f"{type(error).__name__}: {error}")


def _results_last(parts: Iterator[FilePart]) -> Iterator[FilePart]:
    last = []
    for part in parts:
        if part.name == f"{ARTIFACTS}/{RESULTS_FILE}":
            last.append(part)
        elif part.name != LOCK:
            yield part
    yield from last


@contextmanager
def _directory(cache_dir: Path, run_id: str) -> Iterator[Path]:
    """Make a directory for an attempt, which is removed at the end. Those of processes that died are removed now."""
    home = cache_dir.absolute() / "attempts"
    home.mkdir(parents=True, exist_ok=True)
    for other in home.iterdir():
        if other.is_dir():
            _remove_orphaned(other, cache_dir)
    directory = home / run_id
    with lock_file(_lock_path(directory)) as lock:
        lock.take()
        directory.mkdir(mode=0o700)
        try:
            yield directory
        finally:
            remove_tree(directory)
            _lock_path(directory).unlink()


def _remove_orphaned(directory: Path, cache_dir: Path) -> None:
    with lock_file(_lock_path(directory)) as lock:
        if lock.take_without_note():
            with suppress(YouBenchaError):  # what cannot be removed does not affect this attempt
                remove_tree(directory)
                remove_private(directory.name, cache_dir)
                _lock_path(directory).unlink(missing_ok=True)


def _lock_path(directory: Path) -> Path:
    return directory.with_name(f".{directory.name}.lock")
