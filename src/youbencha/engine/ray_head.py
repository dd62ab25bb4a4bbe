"""Find out whether the head of a Ray cluster requires a token, and whether it accepts ours.

Ray's own client is used, in a separate process: if the server is not Ray, it retries for 40 seconds; it prints every
refusal on stderr; and if it is told to use a token and finds none, it aborts the process.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.process import Command, run

MODE_VARIABLE, TOKEN_VARIABLE, TOKEN_FILE_VARIABLE = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
"""Ray's own variables, which its processes read."""
_DEFAULT_FILE = "~/.ray/auth_token"

_DEADLINE_S = 4.0
"""For each answer. A head on the same machine needs 10 ms. (Importing Ray twice takes 5 s on a busy machine.)"""
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
