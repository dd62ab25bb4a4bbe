"""The first program of a container: what it forwards, what it refuses, and that it cannot be killed."""

from __future__ import annotations

import asyncio
import hashlib
import os
import platform
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from docker_boxes import PATIENCE_S, Box, until

from youbencha.errors import YouBenchaError
from youbencha.process import Limits, ProcessStartError, run
from youbencha.sandbox.base import GATEWAY_PORT, ForwardedPort
from youbencha.sandbox.docker import ownership
from youbencha.sandbox.docker.container import Container
from youbencha.sandbox.docker.engine import connect
from youbencha.sandbox.docker.ownership import reap_containers
from youbencha.sandbox.docker.sandbox import DockerSandbox

MIB = 1024 * 1024
PORT = 5005
"""Not the gateway's, which must answer before anything starts."""
RT_SIGQUEUEINFO = 138 if platform.machine() == "aarch64" else 129


@pytest.fixture
def box(tmp_path: Path, engine: object, image: str) -> Box:
    return Box(tmp_path, image)


def forwarded_port(sandbox: DockerSandbox, port: int = PORT) -> ForwardedPort:
    forwarded = sandbox.forward_port(port)
    assert forwarded is not None
    assert forwarded.address == f"127.0.0.1:{port}"
    return forwarded


async def python(box: Box, sandbox: DockerSandbox, program: str) -> str:
    done = await sandbox.run(box.command("python3", "-c", program), limits=Limits(timeout_s=PATIENCE_S))
    assert done.exit.code == 0, done.output
    return done.output.strip()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Says everything back, and only ends when the other side has."""
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.close()


async def test_large_transfers_in_both_directions(box: Box) -> None:
    program = f"""
import hashlib, os, socket, threading
line = socket.create_connection(("127.0.0.1", {PORT}))
sent, size = hashlib.sha256(), 48 * {MIB}
def send():
    for _ in range(48):
        piece = os.urandom({MIB})
        sent.update(piece)
        line.sendall(piece)
    line.shutdown(socket.SHUT_WR)
thread = threading.Thread(target=send)
thread.start()
got, count = hashlib.sha256(), 0
while data := line.recv(1 << 16):
    got.update(data)
    count += len(data)
thread.join()
print(count == size, got.digest() == sent.digest())
"""
    async with box.open() as sandbox, await asyncio.start_unix_server(echo, forwarded_port(sandbox).socket):
        assert await python(box, sandbox, program) == "True True"


async def test_half_closed_connections(box: Box) -> None:
    """Each side may end what it says, and go on listening."""

    async def answer_at_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello ")
        writer.write_eof()
        digest = hashlib.sha256(await reader.read()).hexdigest()
        heard.set_result(digest)
        (box.workspace / "heard").touch()
        writer.close()

    # With the program everything in its container ends, also what it has sent and no one has read yet: so it waits.
    program = f"""
import os, socket, time
line = socket.create_connection(("127.0.0.1", {PORT}))
greeting = b""
while data := line.recv(100): greeting += data
line.sendall(b"x" * {MIB})
line.shutdown(socket.SHUT_WR)
while not os.path.exists("/workspace/heard"): time.sleep(0.01)
print(greeting.decode())
"""
    heard = asyncio.get_running_loop().create_future()
    async with (
        box.open() as sandbox,
        await asyncio.start_unix_server(answer_at_the_end, forwarded_port(sandbox).socket),
    ):
        assert await python(box, sandbox, program) == "hello"
        assert await asyncio.wait_for(heard, PATIENCE_S) == hashlib.sha256(b"x" * MIB).hexdigest()


async def test_the_response_arrives_though_the_request_was_cut_off(box: Box) -> None:
    """A server may answer and close while it is still being sent to; the answer must not be lost."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        writer.write(b"n" * 300_000)
        await writer.drain()
        writer.close()

    program = f"""
import socket
line = socket.create_connection(("127.0.0.1", {PORT}))
line.sendall(b"q" * 100000)
count = 0
while data := line.recv(1 << 16): count += len(data)
print(count)
"""
    async with box.open() as sandbox, await asyncio.start_unix_server(refuse, forwarded_port(sandbox).socket):
        assert await python(box, sandbox, program) == "300000"


async def test_many_connections_with_few_descriptors(box: Box) -> None:
    """More than the first program has descriptors for wait their turn, and none is lost."""
    program = f"""
import os, socket
assert os.spawnlp(os.P_WAIT, "prlimit", "prlimit", "--pid=1", "--nofile=64:64") == 0
lines = [socket.create_connection(("127.0.0.1", {PORT})) for _ in range(300)]
for number, line in enumerate(lines): line.sendall(b"%d" % number)
for line in reversed(lines): line.shutdown(socket.SHUT_WR)
right = 0
for number, line in enumerate(lines):
    said = b""
    while data := line.recv(100): said += data
    right += said == b"%d" % number
print(right)
"""
    async with box.open() as sandbox, await asyncio.start_unix_server(echo, forwarded_port(sandbox).socket, backlog=4):
        assert await python(box, sandbox, program) == "300"


async def test_a_slow_reader_is_waited_for(box: Box) -> None:
    """What is not read stays with the sender: the relay buffers next to nothing."""
    taken = 0

    async def take_little(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal taken
        await stuck.wait()
        while data := await reader.read(1 << 16):
            taken += len(data)
        writer.close()

    program = f"""
import os, socket
line = socket.create_connection(("127.0.0.1", {PORT}))
line.setblocking(False)
sent = 0
import select
while select.select([], [line], [], 0.5)[1]:
    sent += line.send(b"x" * 65536)
print(sent, flush=True)
line.setblocking(True)
line.shutdown(socket.SHUT_WR)
line.recv(1)
"""
    stuck = asyncio.Event()
    said: list[bytes] = []

    def on_line(line: bytes) -> None:
        said.append(line)
        stuck.set()

    command = box.command("python3", "-c", program)
    async with (
        box.open(memory="64m") as sandbox,
        await asyncio.start_unix_server(take_little, forwarded_port(sandbox).socket),
    ):
        done = await sandbox.run(command, limits=Limits(timeout_s=PATIENCE_S), on_line=on_line)
    assert done.exit.code == 0, done.output
    assert taken == int(said[0]) < 32 * MIB


async def test_a_port_without_a_server_is_a_reset(box: Box) -> None:
    program = f"""
import socket
line = socket.create_connection(("127.0.0.1", {PORT}))
try:
    line.recv(1)
    print("closed")
except ConnectionResetError:
    print("reset")
"""
    async with box.open() as sandbox:
        forwarded_port(sandbox)
        assert await python(box, sandbox, program) == "reset"


async def healthy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    request = await reader.readuntil(b"\r\n\r\n")
    assert request.startswith(b"GET /healthz HTTP/1.1\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
    writer.close()


async def not_healthy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 503 Service Unavailable\r\n\r\n")
    writer.close()


async def test_nothing_starts_before_the_gateway_answers(box: Box) -> None:
    async with box.open() as sandbox:
        forwarded = forwarded_port(sandbox, GATEWAY_PORT)
        touch = box.command("touch", "/workspace/started")
        with pytest.raises(YouBenchaError) as absent:
            await sandbox.run(touch)
        async with await asyncio.start_unix_server(not_healthy, forwarded.socket):
            with pytest.raises(YouBenchaError) as sick:
                await sandbox.run(touch)
        assert (absent.value.code, sick.value.code) == ("SANDBOX_GATEWAY_SILENT",) * 2
        assert "HTTP/1.1 503" in sick.value.message
        assert not (box.workspace / "started").exists()
        async with await asyncio.start_unix_server(healthy, forwarded.socket):
            assert (await sandbox.run(touch)).exit.code == 0
        assert (box.workspace / "started").exists()
    assert await box.containers() == []


async def test_a_container_with_a_network_is_refused(box: Box) -> None:
    """As if an engine added one without being asked."""

    class WithNetwork(Container):
        async def start(self, settings: dict[str, Any]) -> None:
            settings["HostConfig"]["NetworkMode"] = "bridge"
            await super().start(settings)

    async with box.open() as sandbox, connect() as engine:
        assert (await sandbox.run(box.command("true"))).exit.code == 0
        container = WithNetwork(engine, box.run_id)
        with tempfile.TemporaryDirectory() as short:
            system = sandbox.prepare(container, Path(short, "life.sock"))
            with pytest.raises(YouBenchaError) as refused:
                await run(box.command("true"), system=system)
            await container.removed()
        assert refused.value.code == "SANDBOX_NOT_ISOLATED"
        assert refused.value.hint is not None
        assert "network: open" in refused.value.hint


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("no-such-program",), "No such file"),
        (("/workspace",), "Permission denied"),
        (("/workspace/text",), "Exec format error"),
        (("/workspace/not-executable",), "Permission denied"),
    ],
)
async def test_commands_that_cannot_start(box: Box, argv: tuple[str, ...], said: str) -> None:
    (box.workspace / "text").write_text("echo never a shell's script\n")
    (box.workspace / "text").chmod(0o755)
    (box.workspace / "not-executable").write_text("#!/bin/sh\n")
    async with box.open() as sandbox:
        with pytest.raises(ProcessStartError, match=said) as failed:
            await sandbox.run(box.command(*argv))
        assert failed.value.code == "PROCESS_START_FAILED"
        assert failed.value.context["errno"] is not None
    assert await box.containers() == []


async def test_invalid_command_text(box: Box) -> None:
    refused = [
        (box.command("true", "a\0b"), "NUL"),
        (box.command("true", NAME="a\0b"), "NUL"),
        (box.command("true", "\ud800"), "lone surrogate"),
        (box.command("true")._replace(env={"A=B": "c"}), "name of an environment variable"),
        (box.command("true")._replace(cwd=Path("/nowhere/shared")), "Share it first"),
    ]
    async with box.open() as sandbox:
        for command, hint in refused:
            with pytest.raises(ProcessStartError) as failed:
                await sandbox.run(command)
            assert hint in (failed.value.hint or "")
        done = await sandbox.run(box.command("printf", "%s", "ä\udcff", ""))
        assert done.total_bytes == 3


async def test_the_init_process_cannot_be_killed(box: Box) -> None:
    """Neither killed, nor traced, nor robbed of its line to the harness; and it goes on carrying bytes."""
    program = f"""
import ctypes, os, signal, socket, struct
os.kill(1, signal.SIGKILL)
os.kill(1, signal.SIGSTOP)
os.kill(1, signal.SIGTERM)
libc = ctypes.CDLL(None, use_errno=True)
SI_QUEUE = -1
forged = struct.pack("3i4xii104x", signal.SIGTERM, 0, SI_QUEUE, 0, 0)  # as if from process 0, outside the container
assert libc.syscall({RT_SIGQUEUEINFO}, 1, signal.SIGTERM, forged) == 0, ctypes.get_errno()
try:
    os.kill(-1, signal.SIGKILL)
except ProcessLookupError:
    pass  # process 1 does not count
for path in ("/proc/1/fd/3", "/proc/1/mem", "/proc/1/environ"):
    try:
        open(path, "rb").read(1)
        print("read", path)
    except OSError:
        pass
try:
    socket.socket(socket.AF_UNIX).connect("/.youbencha/life.sock")
    print("answered")
except OSError:
    pass
line = socket.create_connection(("127.0.0.1", {PORT}))
line.sendall(b"still here")
print(line.recv(100).decode())
"""
    async with box.open() as sandbox, await asyncio.start_unix_server(echo, forwarded_port(sandbox).socket):
        done = await sandbox.run(box.command("python3", "-c", program), limits=Limits(timeout_s=PATIENCE_S))
    assert (done.exit.code, done.output.strip()) == (0, "still here")
    assert done.exit.exited_on_its_own


@pytest.mark.parametrize("terminal", [False, True])
async def test_a_program_inherits_three_descriptors(box: Box, terminal: bool) -> None:
    program = """
import os
for name in sorted(os.listdir("/proc/self/fd"), key=int):
    try:
        print(name, os.readlink(f"/proc/self/fd/{name}"), os.isatty(int(name)))
    except FileNotFoundError:
        pass  # the listing's own
"""
    async with box.open() as sandbox:
        forwarded_port(sandbox)
        done = await sandbox.run(box.command("python3", "-c", program, terminal=terminal))
    lines = [line.split() for line in done.output.splitlines()]
    assert [line[0] for line in lines] == ["0", "1", "2"], done.output
    assert [line[-1] for line in lines] == ["False", str(terminal), str(terminal)]


HARNESS = """
import asyncio, os, sys
from pathlib import Path
from typing import Any
from docker_boxes import Box
async def main():
    box = Box(Path(sys.argv[1]), sys.argv[2])
    box.run_id = sys.argv[3]
    ignoring = "trap '' TERM HUP INT; setsid sleep 1000 & echo begun; wait; sleep 1000"
    async with box.open() as sandbox:
        await sandbox.run(box.command("sh", "-c", ignoring), on_line=lambda line: print(line.decode(), flush=True))
asyncio.run(main())
"""


@pytest.fixture
async def harness(box: Box, tmp_path: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Another one, which runs something that does not end."""
    root = tmp_path / "theirs"
    root.mkdir()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HARNESS, str(root), box.image, box.run_id),
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        stdout=asyncio.subprocess.PIPE,
    )
    yield process
    if process.returncode is None:
        process.kill()
        await process.wait()


async def test_a_dead_harness_leaves_nothing_running(box: Box, harness: asyncio.subprocess.Process) -> None:
    async def runs() -> bool:  # for the engine, a container is only `created` until the call that started it is over
        return [each["State"] for each in await box.containers()] == ["running"]

    async def nothing_runs() -> bool:
        return all(each["State"] != "running" for each in await box.containers())

    async def is_gone() -> bool:  # other tests reap, too
        return not socket_dir.exists()

    assert harness.stdout is not None
    async with asyncio.timeout(PATIENCE_S):
        assert await harness.stdout.readline() == b"begun\n"
    await until(runs)
    await reap_containers()
    assert await runs(), "its harness lives"
    socket_dir = Path((await box.containers())[0]["Labels"][ownership.SOCKET_DIR])
    assert socket_dir.is_dir()
    harness.send_signal(signal.SIGKILL)
    await harness.wait()
    await until(nothing_runs)
    await reap_containers()
    assert await box.containers() == []
    await until(is_gone)
