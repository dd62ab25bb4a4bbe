"""An agent in a container reaches the hosts of its allowlist, and no others."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from trial_bench import TrialBench

from docker_engine import Engine
from youbencha.events import Event, WarningRaised
from youbencha.sandbox.base import FORWARD_PROXY_PORT
from youbencha.scripted_model import Script, ScriptedModel
from youbencha.trial.run import run_trial

HOST = "127.0.0.2"
"""On this computer. Programs reach it through the proxy, because it is not in NO_PROXY."""

VISIT = """
import http.client, json, os, socket, urllib.error, urllib.request

def fetched(url):
    try:
        return urllib.request.urlopen(url, timeout=30).read().decode()
    except urllib.error.HTTPError as error:
        return error.code

def tunnelled(host, port):
    connection = http.client.HTTPConnection(os.environ["HTTPS_PROXY"].removeprefix("http://"), timeout=30)
    connection.set_tunnel(host, port)
    try:
        connection.request("GET", "/tunnel")
        return connection.getresponse().read().decode()
    except OSError as error:
        return str(error)

def direct(host, port):
    try:
        socket.create_connection((host, port), timeout=5).close()
        return "connected"
    except OSError as error:
        return type(error).__name__

seen = {
    "listed": fetched("http://HOST:PORT/listed"),
    "tunnel": tunnelled("HOST", PORT),
    "not listed": fetched("http://elsewhere.example/"),
    "again": tunnelled("elsewhere.example", 443),
    "other port": fetched("http://HOST:1/"),
    "direct": direct("HOST", PORT),
    "model": os.environ.get("ANTHROPIC_BASE_URL") and fetched(os.environ["ANTHROPIC_BASE_URL"] + "/nothing"),
    "variables": {name: os.environ.get(name) for name in ("http_proxy", "https_proxy", "NO_PROXY", "no_proxy")},
}
open("seen.json", "w").write(json.dumps(seen))
"""


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = f"{self.path} at {self.headers['Host']}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    with ThreadingHTTPServer((HOST, 0), _Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("with_gateway", [True, False])
async def test_a_container_with_an_allowlist(
    trials: TrialBench, engine: Engine, image: str, port: int, with_gateway: bool
) -> None:
    program = VISIT.replace("HOST", HOST).replace("PORT", str(port))
    events: list[Event] = []
    async with ScriptedModel(Script.model_validate({"turns": [{"text": "x"}]})) as model:
        key = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "sk-ant-dummy-0123456789"}
        host = trials.host(key if with_gateway else None)
        case = trials.case(
            "",
            agent={"type": "command", "config": {"command": ["python3", "-c", program], "prompt_by": "none"}},
            sandbox={"type": "docker", "image": image, "allowlist": [f"{HOST}:{port}"]},
            gateway="builtin" if with_gateway else "none",
        )
        directory = trials.runs / "trial"
        await run_trial(trials.plan(host, case), host, directory=directory, on_event=events.append)
    seen = json.loads((directory / "src-modified" / "seen.json").read_text())
    own = seen.pop("variables")
    assert own["http_proxy"] == own["https_proxy"] == f"http://127.0.0.1:{FORWARD_PROXY_PORT}"
    assert own["NO_PROXY"] == own["no_proxy"]
    assert {"127.0.0.1", "localhost", "host.docker.internal"} <= set(own["NO_PROXY"].split(","))
    assert seen == {
        "listed": f"/listed at {HOST}:{port}",
        "tunnel": f"/tunnel at {HOST}:{port}",
        "not listed": 403,
        "again": "Tunnel connection failed: 403 Forbidden",
        "other port": 403,
        "direct": "ConnectionRefusedError",  # the container's own loopback
        "model": 401 if with_gateway else None,
    }
    bundle = trials.results(directory)
    assert bundle.agent is not None
    assert bundle.agent.sandbox is not None
    assert bundle.agent.sandbox.allowlist == (f"{HOST}:{port}",)
    assert bundle.agent.sandbox.denied is not None
    denied = {each.host: each.attempts for each in bundle.agent.sandbox.denied}
    assert denied == {"elsewhere.example": 2, f"{HOST}:1": 1}
    message = (
        f"The agent tried to reach hosts outside the allowlist: elsewhere.example (2 attempts), {HOST}:1 (1 attempt)"
    )
    assert [event.message for event in events if isinstance(event, WarningRaised)] == [message]
    assert [warning.code for warning in bundle.agent.warnings] == ["NETWORK_DENIED"]
    trials.assert_nothing_is_left()


async def test_without_an_allowlist_there_is_no_proxy(trials: TrialBench, engine: Engine, image: str) -> None:
    program = "import os; open('seen.txt', 'w').write(','.join(name for name in os.environ if 'proxy' in name.lower()))"
    host = trials.host()
    case = trials.case(
        "",
        agent={"type": "command", "config": {"command": ["python3", "-c", program], "prompt_by": "none"}},
        sandbox={"type": "docker", "image": image},
        gateway="none",
    )
    directory: Path = trials.runs / "trial"
    result = await run_trial(trials.plan(host, case), host, directory=directory)
    assert (directory / "src-modified" / "seen.txt").read_text() == ""
    assert result.bundle.agent is not None
    assert result.bundle.agent.sandbox is not None
    assert result.bundle.agent.sandbox.denied is None
    assert not await asyncio.to_thread(list, trials.root.glob("**/*.sock"))
