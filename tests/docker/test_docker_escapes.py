"""What a hostile agent may try from inside a container: it stays inside, and nothing is left."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest

from claude_bench import says, script
from docker_engine import containers_of
from youbencha.gateway.call import Labels
from youbencha.gateway.gateway import Gateway
from youbencha.gateway.upstreams import same_for_all
from youbencha.process import Command, Limits, ProcessResult
from youbencha.sandbox.base import Sandbox
from youbencha.sandbox.docker.sandbox import open_docker_sandbox
from youbencha.scripted_model import ScriptedModel
from youbencha.spec.sandbox import SandboxSpec

PATIENCE_S = 60.0
LIMITS = Limits(timeout_s=PATIENCE_S, settle_s=0.1)


class Place:
    """A workspace, and sandboxes on it."""

    def __init__(self, root: Path, image: str) -> None:
        self.root, self.image = root, image
        self.workspace = root / "workspace"
        self.workspace.mkdir()
        self.run_id = f"escape-{os.urandom(4).hex()}"

    @asynccontextmanager
    async def sandbox(self, **spec: Any) -> AsyncIterator[Sandbox]:
        scratch = self.root / f"scratch-{os.urandom(4).hex()}"
        scratch.mkdir()
        wanted = SandboxSpec(type="docker", image=self.image, **spec)
        async with open_docker_sandbox(
            wanted, workspace=self.workspace, scratch=scratch, run_id=self.run_id, on_event=lambda _: None
        ) as sandbox:
            yield sandbox

    async def python(self, program: str, *arguments: str, **spec: Any) -> ProcessResult:
        """No gateway is needed, so the container does not even have that."""
        async with self.sandbox(network="none", **spec) as sandbox:
            return await self.python_in(sandbox, program, *arguments)

    async def python_in(self, sandbox: Sandbox, program: str, *arguments: str) -> ProcessResult:
        argv = ("python3", "-c", program, *arguments)
        command = Command(argv=argv, cwd=self.workspace, env=sandbox.environment(os.environ))
        done = await sandbox.run(command, limits=LIMITS)
        await sandbox.freeze()
        assert containers_of(self.run_id) == []
        return done

    def report(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.workspace / name).read_text())
        return found


@pytest.fixture
def place(tmp_path: Path, image: str) -> Place:
    return Place(tmp_path, image)


@pytest.fixture
def decoy() -> Iterator[int]:
    """A service of the host, open to all that can reach one of its addresses."""
    with closing(socket.create_server(("0.0.0.0", 0))) as server:
        threading.Thread(target=_greet, args=(server,), daemon=True).start()
        yield server.getsockname()[1]


def _greet(server: socket.socket) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        connection.close()


def addresses_of_host() -> list[str]:
    found = [address.address for addresses in psutil.net_if_addrs().values() for address in addresses]
    return [address for address in found if address.count(".") == 3]


REACH = """
import json, socket, sys
reached = {}
for name in sys.argv[1:]:
    host, _, port = name.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=3).close()
        reached[name] = "reached"
    except OSError as error:
        reached[name] = type(error).__name__ + ": " + str(error)
json.dump(reached, open("/workspace/reached.json", "w"))
"""


async def test_no_port_of_the_host_and_no_internet(place: Place, decoy: int) -> None:
    hosts = ["127.0.0.1", "host.docker.internal", "172.17.0.1", "192.168.65.2", *addresses_of_host()]
    with closing(socket.create_connection(("127.0.0.1", decoy), timeout=PATIENCE_S)):
        pass  # it is there, for those who may
    wanted = {*(f"{host}:{decoy}" for host in hosts), "1.1.1.1:443", "8.8.8.8:53", "example.com:80"}
    done = await place.python(REACH, *wanted)
    assert done.exit.code == 0, done.output
    reached = place.report("reached.json")
    assert set(reached) == wanted
    assert [name for name, how in reached.items() if how == "reached"] == []


async def test_with_an_open_network_the_host_can_be_reached(place: Place, decoy: int) -> None:
    """So the test above can fail."""
    async with place.sandbox(network="open") as sandbox:
        wanted = [f"{address}:{decoy}" for address in addresses_of_host() if not address.startswith("127.")]
        await place.python_in(sandbox, REACH, *wanted)
    assert "reached" in place.report("reached.json").values()


BREAK_OUT = """
import ctypes, json, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
secret, toolbox = sys.argv[1:]
tried = {}
def attempt(name, act):
    try:
        act()
        tried[name] = "did it"
    except OSError as error:
        tried[name] = "refused: " + str(error)
def call(name, *arguments):
    if getattr(libc, name)(*arguments) != 0:
        raise OSError(ctypes.get_errno(), name)
attempt("read the host's file", lambda: open(secret).read())
for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/podman/podman.sock"):
    attempt("see " + path, lambda: os.stat(path))
attempt("write to the toolbox", lambda: open(toolbox + "/planted", "w"))
attempt("write to /etc", lambda: open("/etc/planted", "w"))
attempt("write beside the sockets", lambda: open("/.youbencha/planted", "w"))
attempt("mount", lambda: call("mount", b"none", b"/mnt", b"tmpfs", 0, None))
attempt("remount /", lambda: call("mount", None, b"/", None, 32, None))
attempt("new namespace", lambda: call("unshare", 0x10000000 | 0x00020000))
attempt("make a device", lambda: os.mknod("/tmp/disk", 0o60600, os.makedev(254, 0)))
attempt("become another user", lambda: os.setuid(os.getuid() + 1))
attempt("change the clock", lambda: time.clock_settime(0, 0))
attempt("write a kernel setting", lambda: open("/proc/sys/kernel/core_pattern", "w").write("|/tmp/x"))
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
facts = {
    "capabilities": {name: int(status[name], 16) for name in ("CapPrm", "CapEff", "CapBnd", "CapInh", "CapAmb")},
    "flags": [status["NoNewPrivs"].strip(), status["Seccomp"].strip()],
    "ids": [os.getuid(), os.getgid()],
    "processes": [name for name in os.listdir("/proc") if name.isdigit()],
    "environment": dict(os.environ),
}
json.dump({"tried": tried, "facts": facts}, open("/workspace/report.json", "w"))
"""
_SHOWN = ("LANG", "TERM", "TZ", "PATH")


async def test_the_host_cannot_be_reached(place: Place, tmp_path: Path) -> None:
    secret, toolbox = tmp_path / "secret.txt", tmp_path / "toolbox"
    secret.write_text("the host's")
    toolbox.mkdir()
    async with place.sandbox(network="none") as sandbox:
        sandbox.share(toolbox)
        done = await place.python_in(sandbox, BREAK_OUT, str(secret), sandbox.inside(toolbox))
    assert done.exit.code == 0, done.output
    report = place.report("report.json")
    assert {name: how for name, how in report["tried"].items() if not how.startswith("refused")} == {}
    facts = report["facts"]
    assert set(facts["capabilities"].values()) == {0}
    assert facts["flags"] == ["1", "2"]
    assert facts["ids"] == [os.getuid(), os.getgid()]
    assert len(facts["processes"]) < 6
    assert facts["environment"]["HOME"] == "/home/agent"
    of_harness = {value for name, value in os.environ.items() if name not in _SHOWN and len(value) > 8}
    assert of_harness.isdisjoint(facts["environment"].values())
    assert list(toolbox.iterdir()) == []


ASK = """
import json, sys, urllib.error, urllib.request
body = json.dumps({"model": "claude-opus-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]})
for key in sys.argv[1:]:
    headers = {"x-api-key": key, "anthropic-version": "2023-06-01"}
    request = urllib.request.Request("http://host.docker.internal:4000/v1/messages", body.encode(), headers)
    try:
        print(urllib.request.urlopen(request).status)
    except urllib.error.HTTPError as error:
        print(error.code)
"""


async def test_a_key_of_another_trial_is_refused(place: Place) -> None:
    async with (
        ScriptedModel(script(says("Yes."))) as model,
        Gateway(upstreams=same_for_all(model.url, "sk-real")) as gateway,
        place.sandbox() as sandbox,
    ):
        forwarded = sandbox.forward_port(4000)
        assert forwarded is not None
        await gateway.listen_on(forwarded.socket)
        own = gateway.issue(Labels("own"), peers=frozenset({str(forwarded.socket)}))
        other = gateway.issue(Labels("other"), peers=frozenset({"/elsewhere.sock"}))
        done = await place.python_in(sandbox, ASK, own.key, other.key, "sk-yb-forged", "sk-real")
        headers = {"x-api-key": own.key, "anthropic-version": "2023-06-01"}
        async with aiohttp.ClientSession() as client:  # and outside, the trial's key is of no use
            stolen = await client.post(f"{gateway.url}/v1/messages", json={}, headers=headers)
            assert stolen.status == 401
    assert done.output.split() == ["200", "401", "401", "401"]


ASK_TO_END = """
import os, signal, time
os.kill(1, signal.SIGTERM)
for _ in range(50):
    time.sleep(0.02)
print("went on")
"""


async def test_process_1_ignores_programs_inside(place: Place) -> None:
    done = await place.python(ASK_TO_END)
    assert (done.exit.code, done.output) == (0, "went on\n")


FORK_BOMB = """
import os, time
made = 0
while True:
    try:
        if os.fork() == 0:
            time.sleep(1000)
    except OSError:
        break
    made += 1
open("/workspace/made.txt", "w").write(str(made))
"""


async def test_a_fork_bomb(place: Place) -> None:
    done = await place.python(FORK_BOMB, pids=64)
    assert done.exit.code == 0, done.output
    assert 30 < int((place.workspace / "made.txt").read_text()) < 64


async def test_the_image_is_read_only(place: Place) -> None:
    done = await place.python("open('/var/big', 'wb')")
    assert done.exit.code == 1
    assert "Read-only file system" in done.output


STUBBORN = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
ready, tell = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        alive = open("/workspace/alive.txt", "a", buffering=1)
        alive.write("x")
        os.write(tell, b"x")
        os.closerange(0, 3)
        while True:
            alive.write("x\\n")
            time.sleep(0.01)
    os._exit(0)
os.read(ready, 1)
print("begun", flush=True)
if sys.argv[1] == "stay":
    time.sleep(1000)
"""


@pytest.mark.parametrize("how", ["leaves", "stay"])
async def test_detached_processes_that_ignore_signals_are_ended(place: Place, how: str) -> None:
    """Whether the agent ends and leaves something behind, or has to be ended."""
    async with place.sandbox(network="none") as sandbox:
        begun = asyncio.Event()
        argv = ("python3", "-c", STUBBORN, how)
        done = await sandbox.run(
            Command(argv=argv, cwd=place.workspace, env=sandbox.environment(os.environ)),
            limits=LIMITS,
            on_line=lambda _: begun.set(),
            stop=begun if how == "stay" else None,
        )
        assert done.stopped == (how == "stay"), done
        await sandbox.freeze()
        assert containers_of(place.run_id) == []
    alive = place.workspace / "alive.txt"
    before = alive.stat().st_size
    await asyncio.sleep(0.2)  # for something that must not happen
    assert alive.stat().st_size == before > 0
