"""`yb script`: serve a scripted model until Ctrl-C."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from youbencha.cli.serving import Address, address_given, serve_until_stopped
from youbencha.errors import YouBenchaError

if TYPE_CHECKING:
    import asyncio

    from youbencha.gateway.script import RecordedRequest, Script


def serve(
    script: Annotated[Path, typer.Argument(help="The script: what the model answers, turn by turn (YAML).")],
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Address to listen on. Port 0 picks a free port.")
    ] = "127.0.0.1:0",
    var: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Set the variable ${NAME}. Can be repeated.")
    ] = None,
) -> None:
    """Serve a scripted model with answers from a file, in the APIs of Anthropic, OpenAI and Gemini.

    Prints one line of JSON with its URL when it is ready, and one line on stderr for each request.
    """
    from youbencha.gateway.script import load_script

    variables = dict(_variable(each) for each in var or [])
    address = address_given(listen)
    loaded = load_script(script, variables=variables)
    try:
        serve_until_stopped(lambda stop: _serve(loaded, variables, address, stop))
    except OSError as error:
        raise YouBenchaError(
            "SCRIPT_LISTEN_FAILED",
            f"cannot listen on {listen}: {error.strerror or error}",
            hint="Choose another port with --listen, or let the system choose one: 127.0.0.1:0",
        ) from error


async def _serve(script: Script, variables: dict[str, str], address: Address, stop: asyncio.Event) -> None:
    from youbencha.gateway.script import ScriptedModel

    model = ScriptedModel(script, variables=variables, host=address.host, port=address.port, on_request=_print_request)
    async with model:
        print(json.dumps({"url": model.url}), flush=True)
        await stop.wait()


def _print_request(request: RecordedRequest) -> None:
    print(describe(request), file=sys.stderr, flush=True)


def describe(request: RecordedRequest) -> str:
    what = request.kind if request.turn is None else f"turn {request.turn + 1}"
    if request.conversation is not None:
        what += f" of conversation {request.conversation + 1}"
    body = request.body if isinstance(request.body, dict) else {}
    details = [f"{request.method} {request.path}", str(request.status), what]
    details += [str(body["model"])] if "model" in body else []
    details += [f"{len(body['messages'])} messages"] if isinstance(body.get("messages"), list) else []
    return " · ".join(details)


def _variable(written: str) -> tuple[str, str]:
    name, equals, value = written.partition("=")
    if not equals or not name.isidentifier():
        raise YouBenchaError("SCRIPT_INVALID_VARIABLE", f"--var {written}: not a variable", hint="Write NAME=VALUE.")
    return name, value
