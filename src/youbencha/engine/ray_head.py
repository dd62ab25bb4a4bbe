"""Ask what answers at an address: the head of a Ray cluster, and whether it takes a token.

One request of gRPC, written by hand. Ray's own client tries for 40 seconds where something else answers, prints each
refusal on stderr, and aborts the whole process if it is told to use a token and finds none.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Mapping
from pathlib import Path

from youbencha.errors import YouBenchaError

MODE_VARIABLE, TOKEN_VARIABLE, TOKEN_FILE_VARIABLE = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
"""Ray's own variables, which its processes read."""
_DEFAULT_FILE = "~/.ray/auth_token"

_DEADLINE_S = 7.0
_REQUEST = "/ray.rpc.NodeInfoGcsService/GetClusterId"
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS = 0, 1, 4
_END_STREAM, _END_HEADERS = 1, 4
_EMPTY_MESSAGE = bytes(5)
_STATUS = re.compile(rb"grpc-status.(\d+)", re.DOTALL)
_OK, _UNAUTHENTICATED = 0, 16

START_HINT = "docs/ray.md shows how to start one."
_PORT_HINT = "The head's port is 6379, if `ray start` was not given another; 8265 is that of the dashboard."
_TOKEN_HINT = (
    f"Copy the head's {_DEFAULT_FILE} to this machine, or set {TOKEN_VARIABLE}; `ray get-auth-token` prints it there."
)


async def token_for(address: str, env: Mapping[str, str]) -> str | None:
    """Return the token with which the head at HOST:PORT accepts requests; None: it wants none.

    Raises YouBenchaError if nothing answers there in time, or not Ray, or if there is no such token.
    """
    mode = env.get(MODE_VARIABLE, "").lower()
    try:
        async with asyncio.timeout(_DEADLINE_S):
            tls = _tls(env)
            wanted = not await _accepts(address, tls, None)
            if mode and (mode == "token") != wanted:
                raise _mode_differs(address, mode, wanted)
            if not wanted:
                return None
            token = find_token(env)
            if token is None:
                message = f"The Ray cluster at {address} wants a token, and this machine has none."
                raise YouBenchaError("RAY_TOKEN_MISSING", message, hint=_TOKEN_HINT)
            if not await _accepts(address, tls, token):
                message = f"The Ray cluster at {address} does not accept the token of this machine."
                raise YouBenchaError("RAY_TOKEN_INVALID", message, hint=_TOKEN_HINT)
            return token
    except TimeoutError as error:
        raise _unreachable(address, f"no answer within {_DEADLINE_S:.0f} s") from error
    except asyncio.IncompleteReadError as error:
        raise _not_ray(address) from error
    except OSError as error:
        raise _unreachable(address, error.strerror or str(error)) from error


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


def _tls(env: Mapping[str, str]) -> ssl.SSLContext | None:
    """How to connect, if Ray's variables say that the cluster uses TLS. Raises OSError if a file cannot be used."""
    if env.get("RAY_USE_TLS", "").lower() not in ("1", "true"):
        return None
    context = ssl.create_default_context(cafile=env.get("RAY_TLS_CA_CERT"))
    context.load_cert_chain(env.get("RAY_TLS_SERVER_CERT", ""), env.get("RAY_TLS_SERVER_KEY"))
    context.set_alpn_protocols(["h2"])
    return context


async def _accepts(address: str, tls: ssl.SSLContext | None, token: str | None) -> bool:
    """Whether the head accepts a request with a token, or without one. Raises YouBenchaError if it is not Ray's."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=tls)
    try:
        writer.write(_request(address, token))
        status = await _read_status(reader, address)
    finally:
        writer.transport.abort()  # Ray does not end a connection of TLS as asyncio waits for it
    if status not in (_OK, _UNAUTHENTICATED):
        raise _not_ray(address)
    return status == _OK


def _request(address: str, token: str | None) -> bytes:
    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": _REQUEST,
        ":authority": address,
        "te": "trailers",
        "content-type": "application/grpc",
        **({"authorization": f"Bearer {token}"} if token else {}),
    }
    fields = b"".join(b"\0" + _string(name) + _string(value) for name, value in headers.items())
    return (
        _PREFACE
        + _frame(_SETTINGS, 0, 0, b"")
        + _frame(_HEADERS, _END_HEADERS, 1, fields)
        + _frame(_DATA, _END_STREAM, 1, _EMPTY_MESSAGE)
    )


async def _read_status(reader: asyncio.StreamReader, address: str) -> int:
    """Read frames up to the one that ends the answer, and return the status of gRPC in it."""
    is_first = True
    while True:
        head = await reader.readexactly(9)
        length, kind, flags, stream = int.from_bytes(head[:3]), head[3], head[4], int.from_bytes(head[5:])
        if is_first and (kind != _SETTINGS or stream):
            raise _not_ray(address, "a web server" if head.startswith(b"HTTP/") else None)
        is_first = False
        payload = await reader.readexactly(length)
        if stream and flags & _END_STREAM and kind in (_DATA, _HEADERS):
            found = _STATUS.search(payload)  # gRPC writes it as it is, without Huffman's code
            return int(found[1]) if found else -1


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def _string(text: str) -> bytes:
    """A string of HPACK: its length in 7 bits, and the rest of that in further bytes."""
    data = text.encode()
    if len(data) < 127:
        return bytes((len(data),)) + data
    length, rest = bytearray((127,)), len(data) - 127
    while rest >= 128:
        length.append(rest % 128 | 128)
        rest //= 128
    return bytes((*length, rest)) + data


def _unreachable(address: str, reason: str) -> YouBenchaError:
    return YouBenchaError(
        "RAY_UNREACHABLE", f"The Ray cluster at {address} cannot be reached: {reason}.", hint=START_HINT
    )


def _not_ray(address: str, what: str | None = None) -> YouBenchaError:
    answers = f"is {what}, and not Ray" if what else "is not the head of a Ray cluster"
    return YouBenchaError("RAY_UNREACHABLE", f"What answers at {address} {answers}.", hint=_PORT_HINT)


def _mode_differs(address: str, mode: str, wanted: bool) -> YouBenchaError:
    wants = "wants a token" if wanted else "takes anyone's requests, without a token"
    return YouBenchaError(
        "RAY_AUTH_MODE_MISMATCH",
        f"{MODE_VARIABLE} is {mode} here, but the Ray cluster at {address} {wants}.",
        hint=f"Start the head and every node with {MODE_VARIABLE}={mode}, or unset it here.",
    )
