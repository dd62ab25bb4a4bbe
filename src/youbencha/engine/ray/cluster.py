"""Connect to a Ray cluster, with a token if its head requires one, and check that its nodes can run trials."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import platform
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from youbencha import __version__
from youbencha.adapters.cli_agent.environment import is_model_credential
from youbencha.errors import YouBenchaError
from youbencha.process import Command, run
from youbencha.text import first_few
from youbencha.trial.gateways import LOOPBACK

_NODES_DEADLINE_S = 120.0
ADDRESS_VARIABLE = "RAY_ADDRESS"
HOST_VARIABLE = "YOUBENCHA_DRIVER_HOST"
"""The address at which nodes reach the driver's gateway, if it is not the one that Ray uses."""

MODE_VARIABLE, TOKEN_VARIABLE, TOKEN_FILE_VARIABLE = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
"""Ray's own variables, which its processes read."""
_DEFAULT_FILE = "~/.ray/auth_token"

_DEADLINE_S = 4.0
"""The time for each answer; a head on the same machine needs 10 ms. Importing Ray takes 5 s on a busy machine."""
_REFUSED = 3
_PROBE = f"""\
import sys
from ray._raylet import GcsClient
from ray.exceptions import AuthenticationError
print("ready", flush=True)
try:
    GcsClient(address=sys.argv[1], cluster_id=None)
except AuthenticationError:
    sys.exit({_REFUSED})
"""

START_HINT = "docs/ray.md shows how to start one."
_PORT_HINT = "The head's port is 6379, if `ray start` was not given another; 8265 is that of the dashboard."
_TOKEN_HINT = (
    f"Copy the head's {_DEFAULT_FILE} to this machine, or set {TOKEN_VARIABLE}; `ray get-auth-token` prints it there."
)


class Node(NamedTuple):
    id: str
    host: str
    resources: Mapping[str, float]

    @property
    def cpus(self) -> float:
        return self.resources.get("CPU", 0.0)


class Cluster(NamedTuple):
    """A cluster that this process is connected to."""

    ray: Any
    """The module."""
    nodes: tuple[Node, ...]
    """Those that have CPUs."""
    driver_host: str
    """The address of this machine, for the other nodes."""

    @property
    def cpus(self) -> int:
        return max(1, int(sum(node.cpus for node in self.nodes)))


@asynccontextmanager
async def connect(address: str | None, env: Mapping[str, str]) -> AsyncIterator[Cluster]:
    """Connect to the cluster at an address, or that of RAY_ADDRESS; without one, start Ray on this machine.

    Every node has been checked then. Raises YouBenchaError.
    """
    ray = _import_ray()
    address = await _resolve(ray, address or env.get(ADDRESS_VARIABLE) or None)
    token = await token_for(address, env) if address else secrets.token_hex(32)
    with authentication(ray, token):
        await asyncio.to_thread(_init, ray, address)
        with contextlib.suppress(ValueError):  # not the main thread, which alone has handlers
            signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))  # Ray's own prints a stack trace
        try:
            here = ray.util.get_node_ip_address() if address else LOOPBACK
            yield Cluster(ray, await _find_nodes(ray), env.get(HOST_VARIABLE) or here)
        finally:
            await asyncio.to_thread(ray.shutdown)


def _import_ray() -> Any:
    try:
        import ray
        import ray._private.worker as worker
    except ImportError as error:
        raise YouBenchaError(
            "RAY_NOT_INSTALLED", "Ray is not installed.", hint="Install it: `pip install 'youbencha[ray]'`."
        ) from error
    # Ray prints about lost nodes and workers on stdout, which belongs to results. What matters is reported by us.
    worker.print_to_stdstream = lambda *_, **__: None
    return ray


async def _resolve(ray: Any, address: str | None) -> str | None:
    """Return HOST:PORT of an existing cluster, or None if Ray has to be started on this machine."""
    if address is None or address == "local":
        return None
    if address.startswith("ray://"):
        raise YouBenchaError(
            "RAY_CLIENT_UNSUPPORTED",
            f"{address}: Ray's client cannot stream what happens in trials.",
            hint="Run this command on a node of the cluster, and give the address of its head: --address HEAD:6379.",
        )
    if address == "auto":
        try:
            address = await asyncio.to_thread(ray._private.services.canonicalize_bootstrap_address, address)
        except ConnectionError as error:
            message = "This machine is not part of a running Ray cluster."
            raise YouBenchaError("RAY_UNREACHABLE", message, hint=START_HINT) from error
    host, _, port = (address or "").rpartition(":")
    if not host or not port.isdecimal():
        raise YouBenchaError(
            "OPTION_INVALID", f"--address {address} is not an address.", hint="Write HOST:PORT, or auto."
        )
    return address


@contextmanager
def authentication(ray: Any, token: str | None) -> Iterator[None]:
    """Make Ray use this token, or none, in this process and those that it starts, whatever the environment says."""
    names = (MODE_VARIABLE, TOKEN_VARIABLE)
    before = {name: os.environ.pop(name) for name in names if name in os.environ}
    os.environ.update(variables_for(token))
    _reload_authentication(ray)
    try:
        yield
    finally:
        for name in names:
            os.environ.pop(name, None)
        os.environ.update(before)
        _reload_authentication(ray)


def _reload_authentication(ray: Any) -> None:
    """Make Ray read the variables about authentication again; it has read them when it was imported."""
    ray._raylet.Config.initialize("")
    ray._raylet.AuthenticationTokenLoader.instance().reset_cache()


def _init(ray: Any, address: str | None) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would report the use of a cluster that it starts
    try:
        with _without_keys():
            ray.init(
                address=address or "local",
                log_to_driver=False,
                configure_logging=True,
                logging_level=logging.CRITICAL,
                include_dashboard=None if address else False,
            )
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise _not_connected(address, str(error)) from error


def _not_connected(address: str | None, reason: str) -> YouBenchaError:
    if "ersion mismatch" in reason:
        return YouBenchaError(
            "RAY_VERSION_MISMATCH",
            f"The Ray cluster at {address} has different versions from this machine "
            f"(Python {platform.python_version()}): {reason}",
            hint="All nodes need the same Python and the same Ray.",
        )
    where = f"the Ray cluster at {address}" if address else "Ray on this machine"
    return YouBenchaError("RAY_UNREACHABLE", f"Cannot connect to {where}: {reason}", hint=START_HINT)


@contextmanager
def _without_keys() -> Iterator[None]:
    """Hide the keys of models from what Ray starts on this machine: nodes need none."""
    hidden = {name: os.environ.pop(name) for name in list(os.environ) if is_model_credential(name)}
    try:
        yield
    finally:
        os.environ.update(hidden)


async def _find_nodes(ray: Any) -> tuple[Node, ...]:
    """Return the nodes that have CPUs. Raises YouBenchaError if there are none, or if one of them cannot run trials."""
    nodes = tuple(
        Node(node["NodeID"], node["NodeManagerHostname"], node["Resources"])
        for node in ray.nodes()
        if node["Alive"] and node["Resources"].get("CPU")
    )
    if not nodes:
        raise YouBenchaError("RAY_NO_NODES", "No node of the Ray cluster has a CPU for trials.", hint="Add a node.")
    await _check_versions(ray, nodes)
    return nodes


async def _check_versions(ray: Any, nodes: tuple[Node, ...]) -> None:
    """Raise if a node has another youBencha, or none."""

    def version_here() -> str | None:  # sent as it is: the node may not have this module
        try:
            import youbencha
        except ImportError:
            return None
        return str(youbencha.__version__)

    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    probe = ray.remote(num_cpus=0, max_retries=0)(version_here)
    probes = [
        probe.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False)).remote()
        for node in nodes
    ]
    try:
        async with asyncio.timeout(_NODES_DEADLINE_S):
            versions = await asyncio.gather(*probes)
    except TimeoutError:
        message = f"Not every node of the Ray cluster answered within {_NODES_DEADLINE_S:.0f} s."
        raise YouBenchaError("RAY_UNREACHABLE", message, hint="`ray status` shows the nodes.") from None
    except ray.exceptions.RayError as error:
        raise YouBenchaError("RAY_UNREACHABLE", f"A node of the Ray cluster failed: {error}") from error
    other = [
        f"{node.host} has {'no youBencha' if version is None else version}"
        for node, version in zip(nodes, versions, strict=True)
        if version != __version__
    ]
    if other:
        raise YouBenchaError(
            "RAY_VERSION_MISMATCH",
            f"All nodes need youBencha {__version__}, like this machine: {first_few(other)}.",
            hint=f"Install it there: `pip install 'youbencha[ray]=={__version__}'`.",
        )


# Whether the head requires a token, and accepts ours. Ray's own client is used, in a separate process: if the server is
# not Ray, it retries for 40 seconds; it prints every refusal on stderr; and if it should use a token and finds none, it
# aborts the process.


async def token_for(address: str, env: Mapping[str, str]) -> str | None:
    """Return the token that the head at HOST:PORT accepts, or None if it requires none.

    Raises YouBenchaError if no Ray head answers there in time, or if this machine does not have a valid token.
    """
    await _check_port(address)
    requires_token = not await _is_accepted(address, env, None)
    mode = env.get(MODE_VARIABLE, "").lower()
    if mode and (mode == "token") != requires_token:
        raise _mode_mismatch(address, mode, requires_token=requires_token)
    if not requires_token:
        return None
    token = find_token(env)
    if token is None:
        message = f"The Ray cluster at {address} requires a token, and this machine has none."
        raise YouBenchaError("RAY_TOKEN_MISSING", message, hint=_TOKEN_HINT)
    if not await _is_accepted(address, env, token):
        message = f"The Ray cluster at {address} does not accept the token of this machine."
        raise YouBenchaError("RAY_TOKEN_INVALID", message, hint=_TOKEN_HINT)
    return token


def find_token(env: Mapping[str, str]) -> str | None:
    """Look for a token where Ray does. Raises YouBenchaError if the file that a variable names cannot be read."""
    if token := env.get(TOKEN_VARIABLE, "").strip():
        return token
    named = env.get(TOKEN_FILE_VARIABLE)
    try:
        return Path(named or _DEFAULT_FILE).expanduser().read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError) as error:
        if not named:
            return None
        message = f"{TOKEN_FILE_VARIABLE}: {named} cannot be read: {error}"
        raise YouBenchaError("RAY_TOKEN_MISSING", message, hint=_TOKEN_HINT) from error


def variables_for(token: str | None) -> dict[str, str]:
    """Return the variables that make Ray's processes use this token, or none."""
    return {MODE_VARIABLE: "token", TOKEN_VARIABLE: token} if token else {MODE_VARIABLE: "disabled"}


async def _check_port(address: str) -> None:
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(_DEADLINE_S):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    except TimeoutError as error:
        raise _unreachable(address, f"no answer within {_DEADLINE_S:.0f} s") from error
    except OSError as error:
        raise _unreachable(address, error.strerror or str(error)) from error
    writer.transport.abort()


async def _is_accepted(address: str, env: Mapping[str, str], token: str | None) -> bool:
    """Let Ray's client connect to the head with a token, or without one.

    Raises YouBenchaError if the server is not the head of a cluster.
    """
    deadline_passed = asyncio.Event()

    def on_ready(_: bytes) -> None:  # only now: importing Ray takes long on a busy machine
        asyncio.get_running_loop().call_later(_DEADLINE_S, deadline_passed.set)

    variables = {name: value for name, value in env.items() if name not in (MODE_VARIABLE, TOKEN_VARIABLE)}
    client = Command((sys.executable, "-P", "-c", _PROBE, address), Path.cwd(), variables | variables_for(token))
    code = (await run(client, stop=deadline_passed, on_line=on_ready)).exit.code
    if code not in (0, _REFUSED):
        message = f"The server at {address} is not the head of a Ray cluster."
        raise YouBenchaError("RAY_UNREACHABLE", message, hint=_PORT_HINT)
    return code == 0


def _unreachable(address: str, reason: str) -> YouBenchaError:
    message = f"The Ray cluster at {address} cannot be reached: {reason}."
    return YouBenchaError("RAY_UNREACHABLE", message, hint=START_HINT)


def _mode_mismatch(address: str, mode: str, *, requires_token: bool) -> YouBenchaError:
    behaviour = "requires a token" if requires_token else "accepts requests without a token"
    return YouBenchaError(
        "RAY_AUTH_MODE_MISMATCH",
        f"{MODE_VARIABLE} is {mode} here, but the Ray cluster at {address} {behaviour}.",
        hint=f"Start the head and every node with {MODE_VARIABLE}={mode}, or unset it here.",
    )
