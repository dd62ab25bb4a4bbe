"""`python -m youbencha.control`: the server beside a CLI, and the driver of one."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiohttp import ClientSession, ClientWebSocketResponse

from systems import posix_only
from youbencha.control import main
from youbencha.sandbox.images.context import IMAGE_PACKAGES, closure

PATIENCE_S = 60.0
USAGE = {"input_tokens": 12, "output_tokens": 3}
RESULT = {"type": "result", "subtype": "success", "is_error": False, "num_turns": 2, "usage": USAGE}
AGENT = """
import json, sys
def hear(): return json.loads(sys.stdin.readline())
def say(**message): print(json.dumps(message), flush=True)
asked = hear()
say(type="control_response", response=dict(subtype="success", request_id=asked["request_id"], response={}))
print(hear()["message"]["content"][0]["text"], file=sys.stderr)
"""


@pytest.fixture
def task(tmp_path: Path) -> Path:
    path = tmp_path / "task.md"
    path.write_text("Do it.")
    return path


class Server(NamedTuple):
    process: asyncio.subprocess.Process
    metrics: Path
    address: str

    async def ended(self) -> int:
        async with asyncio.timeout(PATIENCE_S):
            return await self.process.wait()

    def sidecar(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.metrics.read_text())
        return found


@asynccontextmanager
async def server(task: Path, *options: str) -> AsyncIterator[Server]:
    metrics = task.with_name("metrics.json")
    argv = ("-m", "youbencha.control", "--port", "0", "--task-file", str(task), "--metrics-file", str(metrics))
    process = await asyncio.create_subprocess_exec(sys.executable, *argv, *options, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE_S):
            first = (await process.stdout.readline()).decode()
        assert first.startswith("listening on ws://127.0.0.1:")
        yield Server(process, metrics, first.split()[-1].replace("ws:", "http:"))
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()  # closes its pipe, too


async def heard(connection: ClientWebSocketResponse) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((await connection.receive(PATIENCE_S)).data)
    return found


async def begin(connection: ClientWebSocketResponse) -> None:
    asked = await heard(connection)
    answer = {"subtype": "success", "request_id": asked["request_id"], "response": {}}
    await connection.send_json({"type": "control_response", "response": answer})
    assert (await heard(connection))["message"]["content"][0]["text"] == "Do it."


@pytest.mark.parametrize(("subtype", "code"), [("success", 0), ("error_max_turns", 1)])
async def test_a_session(task: Path, subtype: str, code: int) -> None:
    async with server(task) as running, ClientSession() as client:
        async with client.ws_connect(running.address) as connection:
            await begin(connection)
            request = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "ls"}}
            await connection.send_json({"type": "control_request", "request_id": "1", "request": request})
            assert (await heard(connection))["response"]["response"]["behavior"] == "allow"
            await connection.send_json({**RESULT, "subtype": subtype})
            assert (await heard(connection))["request"]["subtype"] == "end_session"
        assert await running.ended() == code
    assert (running.sidecar()["input_tokens"], running.sidecar()["turns"]) == (12, 2)


async def test_a_client_with_flat_messages(task: Path) -> None:
    """It begins the handshake itself, and its messages are flat."""
    async with server(task) as running, ClientSession() as client, client.ws_connect(running.address) as connection:
        await heard(connection)  # ours, which it does not know
        await connection.send_json({"type": "control_request", "subtype": "initialize"})
        assert (await heard(connection))["subtype"] == "initialize"
        assert (await heard(connection))["content"] == [{"type": "text", "text": "Do it."}]
        await connection.send_json(
            {"type": "control_request", "subtype": "can_use_tool", "toolName": "Bash", "input": {}}
        )
        assert (await heard(connection))["allowed"] is True
        await connection.send_json({"type": "result", "result": "ok", "usage": USAGE})
        assert await running.ended() == 0
    assert running.sidecar()["tools_used"] == ["Bash"]


async def test_no_agent_connects(task: Path) -> None:
    async with server(task, "--connect-timeout", "0.2") as running:
        assert await running.ended() == 1
    assert running.sidecar()["input_tokens"] is None
    assert "no agent connected" in running.sidecar()["ended"]


async def test_silence(task: Path) -> None:
    idle = ("--idle-timeout", "0.005")
    async with (
        server(task, *idle) as running,
        ClientSession() as client,
        client.ws_connect(running.address) as connection,
    ):
        await begin(connection)
        assert await running.ended() == 1
    assert "sent no message" in running.sidecar()["ended"]


@posix_only("there are no signals")
async def test_a_signal_interrupts_and_the_metrics_are_written(task: Path) -> None:
    async with server(task) as running, ClientSession() as client, client.ws_connect(running.address) as connection:
        await begin(connection)
        running.process.send_signal(signal.SIGTERM)
        assert (await heard(connection))["request"]["subtype"] == "interrupt"
        await connection.send_json({**RESULT, "subtype": "error_during_execution"})
        assert await running.ended() == 1
    assert running.sidecar()["input_tokens"] == 12
    assert "SIGTERM" in running.sidecar()["ended"]


def test_a_port_in_use(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert main(["--port", str(port), "--task-file", str(task)]) == 1
    assert f"cannot listen on port {port}" in capsys.readouterr().err


def stdio(task: Path, script: str, *options: str) -> subprocess.CompletedProcess[str]:
    metrics = task.with_name("metrics.json")
    own = [
        sys.executable,
        "-m",
        "youbencha.control",
        "--stdio",
        "--task-file",
        str(task),
        "--metrics-file",
        str(metrics),
    ]
    agent = ["--", sys.executable, "-S", "-c", AGENT + script]
    return subprocess.run([*own, *options, *agent], capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def test_driving_a_cli(task: Path) -> None:
    done = stdio(task, f"print(json.dumps({RESULT!r}), flush=True)")
    assert done.returncode == 0, done.stderr
    assert "Do it." in done.stderr.splitlines()
    assert json.loads(done.stdout.splitlines()[-1]) == RESULT
    assert json.loads(task.with_name("metrics.json").read_text())["output_tokens"] == 3


def test_the_exit_code_of_a_cli_that_fails(task: Path) -> None:
    done = stdio(task, "sys.exit(7)")
    assert done.returncode == 7
    assert "without a result" in done.stderr
    assert json.loads(task.with_name("metrics.json").read_text())["partial"]


def test_a_cli_that_reports_failure_and_exits_with_0(task: Path) -> None:
    done = stdio(task, f"print(json.dumps(dict({RESULT!r}, subtype='error_max_turns')), flush=True)")
    assert done.returncode == 1
    assert "limit of turns" in done.stderr


def test_a_missing_cli(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--stdio", "--task-file", str(task), "--", "no-such-program"]) == 1
    assert "no-such-program" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "--task-file"),
        (["--task-file", "missing.md"], "cannot read the task file"),
        (["--task-file", "{task}", "--port", "70000"], "invalid port 70000"),
        (["--task-file", "{task}", "--idle-timeout", "0"], "more than 0"),
        (["--task-file", "{task}", "--deny", "Bash(rm *)"], "--disallowedTools"),
        (["--task-file", "{task}", "--stdio"], "after `--`"),
        (["--task-file", "{task}", "--", "claude"], "needs --stdio"),
        (["--task-file", "{task}", "--no-such-flag"], "--no-such-flag"),
    ],
)
def test_invalid_arguments(task: Path, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([argument.format(task=task) for argument in arguments]) == 2
    assert says in capsys.readouterr().err


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "--metrics-file" in capsys.readouterr().out


def test_it_needs_no_more_packages_than_an_image_has() -> None:
    script = "import sys, youbencha.control; print(*(name.partition('.')[0] for name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    in_images = {each.name for each in closure(IMAGE_PACKAGES)}
    owners = packages_distributions()
    loaded = {name for module in done.stdout.split() for name in owners.get(module, ())} - {"youbencha", "setuptools"}
    assert loaded <= in_images
    assert "aiohttp" not in done.stdout.split()  # needed for one of the transports only
