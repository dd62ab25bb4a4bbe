"""Commands in containers, as `process.run` would run them; and the properties of such a container."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import aiodocker
import pytest
from docker_boxes import PATIENCE_S, Box, until

from youbencha.errors import YouBenchaError
from youbencha.process import Input, Limits, Started
from youbencha.sandbox.docker import engine as engine_module
from youbencha.sandbox.docker import ownership
from youbencha.sandbox.docker.container import Container, container_settings
from youbencha.sandbox.docker.engine import Engine, EngineCause, EngineError, EngineInfo, User, connect
from youbencha.sandbox.docker.image import AccountLine, account_mounts, ensure_image, with_line
from youbencha.sandbox.docker.mounts import Mounts, make_mount_point
from youbencha.sandbox.docker.sandbox import open_docker_sandbox
from youbencha.spec.sandbox import SandboxSpec

MIB = 1024 * 1024
LIMITS = Limits(timeout_s=PATIENCE_S)


@pytest.fixture
def box(tmp_path: Path, engine: object, image: str) -> Box:
    return Box(tmp_path, image)


async def test_user_and_working_directory(box: Box) -> None:
    done = await box.run("sh", "-c", "id -u; id -g; pwd; echo $HOME; umask; cat /proc/self/status; echo x > here")
    uid, gid, cwd, home, _, *status = done.output.splitlines()
    assert (uid, gid) == (str(os.getuid()), str(os.getgid()))
    assert (cwd, home) == ("/workspace", "/home/agent")
    facts = dict(line.split(":\t", 1) for line in status)
    assert {facts[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert (facts["NoNewPrivs"], facts["Seccomp"]) == ("1", "2")
    made = (box.workspace / "here").stat()
    assert (made.st_uid, made.st_gid) == (os.getuid(), os.getgid())


async def test_writable_and_read_only_paths(box: Box, tmp_path: Path) -> None:
    tool = tmp_path / "tools" / "tool"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho tool\n")
    tool.chmod(0o755)
    ours = tmp_path / "ours"
    ours.mkdir()
    attempts = ("/x", "/usr/x", "/etc/x", "/.youbencha/x", "/.youbencha/ports/x", f"{tool}", f"{tool.parent}/x")
    allowed = ("/workspace/x", "/home/agent/x", "/tmp/x", "/dev/shm/x", f"{ours}/x")
    script = "for path; do if echo x 2>/dev/null > $path; then echo $path; fi; done"
    async with box.open() as sandbox:
        sandbox.share(tool.parent)
        sandbox.share(ours, writable=True)
        done = await sandbox.run(box.command("sh", "-c", f"{{ {script}; }} 2>/dev/null", "sh", *attempts, *allowed))
        assert done.output.splitlines() == list(allowed)
        assert (await sandbox.run(box.command(sandbox.inside(tool)))).output == "tool\n"
    assert {(box.scratch / "home" / "x").read_text(), (box.scratch / "tmp" / "x").read_text()} == {"x\n"}


async def test_an_image_that_may_be_changed(box: Box) -> None:
    done = await box.run("sh", "-c", "touch /opt/x && rm -r /usr/share/zoneinfo; ls /opt", writable=True)
    expected = "x\n" if os.getuid() == 0 else ""
    assert done.output.endswith(expected)
    assert (await box.run("ls", "/opt")).output == ""


async def test_socket_families_that_bypass_the_network_are_refused(box: Box) -> None:
    """vsock leads from a virtual machine to its host; io_uring would open sockets past the filter."""
    program = """
import socket
kinds = {16: socket.SOCK_RAW, 38: socket.SOCK_SEQPACKET}
for family in (1, 2, 16, 31, 38, 40):
    try:
        socket.socket(family, kinds.get(family, socket.SOCK_STREAM)).close()
        print(family, "opened")
    except OSError as error:
        print(family, error.errno)
"""
    results = dict(line.split() for line in (await box.run("python3", "-c", program)).output.splitlines())
    assert {results["1"], results["2"], results["16"]} == {"opened"}
    assert {results["40"], results["31"], results["38"]} == {str(errno.EAFNOSUPPORT)}


def test_an_account_line_is_added_for_an_unknown_user_id() -> None:
    passwd = b"root:x:0:0:root:/root:/bin/bash\nagent:x:7:7::/:/bin/sh\n"
    line = AccountLine("/etc/passwd", 1234, "agent:x:1234:5::/home/agent:/bin/sh")
    assert with_line(passwd, line) == passwd + b"agent1234:x:1234:5::/home/agent:/bin/sh\n"
    assert with_line(passwd, line._replace(number=7)) == passwd
    assert with_line(b"", line) == b"agent:x:1234:5::/home/agent:/bin/sh\n"


async def test_the_user_has_a_name(box: Box, tmp_path: Path) -> None:
    """Looked up in the image itself, once."""
    user = User(54321, 54322)
    async with connect() as engine:
        image = (await ensure_image(engine, box.image, print)).id
        labels = ownership.labels(box.run_id, "none", tmp_path)
        made = await account_mounts(engine, image, user, labels, cache_dir=tmp_path)
        mounts = {str(mount.inside): mount for mount in made}
        assert [mounts[name].outside.read_text().splitlines()[-1] for name in sorted(mounts)] == [
            "agent:x:54322:",
            "agent:x:54321:54322::/home/agent:/bin/sh",
        ]
        assert mounts["/etc/passwd"].outside.read_text().startswith("root:")
        assert await account_mounts(engine, image, user, labels, cache_dir=tmp_path) == made
        assert await account_mounts(engine, image, User(0, 0), labels, cache_dir=tmp_path) == []
    assert await box.containers() == []
    assert (await box.run("whoami")).exit.code == 0


async def test_nothing_of_the_host_is_visible(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-host")
    async with box.open() as sandbox:
        env = sandbox.environment(os.environ)
        assert env.keys() - {"LANG", "LANGUAGE", "TZ", "TERM"} == {"HOME", "PATH", "TMPDIR", "USER", "LOGNAME"} | {
            name for name in os.environ if name.startswith("LC_")
        }
        assert env["PATH"] == sandbox.variables["PATH"]
        command = box.command("sh", "-c", "env; ls -d /var/run/*.sock /run/*.sock; find / -xdev -name docker.sock")
        done = await sandbox.run(command._replace(env=env), limits=LIMITS)
    assert ".sock\n" not in done.output
    assert "sk-host" not in done.output
    assert "PATH=/" in done.output


async def test_the_command_and_its_keys_are_not_stored_by_the_engine(box: Box) -> None:
    """Nothing secret is written where the engine keeps what it knows about containers."""
    seen: list[str] = []

    async def look() -> None:
        async with connect() as engine:
            for each in await box.containers():
                seen.append(repr(await engine.inspect(each["Id"])))

    async with box.open() as sandbox:
        talk = Input()
        command = box.command("cat", stdin=talk, KEY="yb-very-secret")
        running = asyncio.create_task(
            sandbox.run(command, limits=LIMITS, on_start=lambda _: looking.append(asyncio.create_task(look())))
        )
        looking: list[asyncio.Task[None]] = []
        while not looking:
            await asyncio.sleep(0.01)
        await looking[0]
        talk.close()
        await running
    assert seen
    assert "very-secret" not in seen[0]


async def test_thirty_megabytes_arrive_complete(box: Box) -> None:
    """On both streams, by several processes, to the last byte before the exit."""
    lines: list[bytes] = []
    script = """
line=$(head -c 999 /dev/zero | tr '\\0' x)
for i in 1 2 3; do yes $line | head -c 10000000 & done
echo note >&2; wait; echo; printf last
"""
    async with box.open() as sandbox:
        done = await sandbox.run(
            box.command("bash", "-c", script), limits=LIMITS._replace(output_bytes=40 * MIB), on_line=lines.append
        )
    assert done.exit.code == 0
    assert (done.total_bytes, done.skipped_bytes) == (30_000_000 + len("note\n\nlast"), 0)
    assert lines[-1] == b"last"
    assert sum(len(line) + 1 for line in lines) == 30_000_000 + len("\nlast") + 1
    assert "note" in done.output


async def test_a_conversation(box: Box) -> None:
    talk = Input()
    heard: list[bytes] = []

    def answer(line: bytes) -> None:
        heard.append(line)
        if len(heard) < 4:
            talk.write(b"%d\n" % len(heard))
        else:
            talk.close()

    script = "echo start; while read line; do echo got $line; done; echo end"
    async with box.open() as sandbox:
        done = await sandbox.run(box.command("sh", "-c", script, stdin=talk), limits=LIMITS, on_line=answer)
    assert done.output.splitlines() == ["start", "got 1", "got 2", "got 3", "end"]


async def test_stdin_is_passed(box: Box) -> None:
    async with box.open() as sandbox:
        given = os.urandom(3 * MIB)
        done = await sandbox.run(box.command("wc", "-c", stdin=given), limits=LIMITS)
        nothing = await sandbox.run(box.command("wc", "-c"), limits=LIMITS)
    assert (done.output.strip(), nothing.output.strip()) == (str(3 * MIB), "0")


async def test_the_input_is_closed_if_the_program_does_not_start(box: Box) -> None:
    before = threading.active_count()
    talk = Input()
    async with box.open() as sandbox:
        with pytest.raises(YouBenchaError):
            await sandbox.run(box.command("no-such-program", stdin=talk))
    talk.write(b"x" * MIB)

    async def no_thread_left() -> bool:
        return threading.active_count() <= before

    await until(no_thread_left)


async def test_a_terminal(box: Box) -> None:
    script = "stty size < /dev/tty; test -t 1 -a -t 2 && echo both; echo to stderr >&2; printf last"
    async with box.open() as sandbox:
        done = await sandbox.run(box.command("sh", "-c", script, terminal=True), limits=LIMITS)
        plain = await sandbox.run(box.command("sh", "-c", "test -t 1 || echo none"), limits=LIMITS)
        much = await sandbox.run(box.command("head", "-c", "3000000", "/dev/zero", terminal=True), limits=LIMITS)
    assert done.output.splitlines() == ["50 65535", "both", "to stderr", "last"]
    assert "\r" not in done.output
    assert plain.output == "none\n"
    assert much.total_bytes == 3_000_000


async def test_exit_codes_signals_and_leftovers(box: Box) -> None:
    started: list[Started] = []
    leave = "setsid sleep 1000 & while ! grep -q sleep /proc/$!/comm; do :; done"
    async with box.open() as sandbox:
        seven = await sandbox.run(box.command("sh", "-c", "exit 7"), limits=LIMITS, on_start=started.append)
        killed = await sandbox.run(box.command("sh", "-c", "kill -9 $$"), limits=LIMITS)
        worked = await sandbox.run(box.command("python3", "-c", "x = bytearray(40_000_000)"), limits=LIMITS)
        leaving = await sandbox.run(box.command("sh", "-c", leave), limits=LIMITS._replace(settle_s=0.1))
    assert seven.exit.code == 7
    assert started[0].executable == "sh"
    assert started[0].pid > 1
    assert (killed.exit.code, killed.exit.signal, killed.exit.shell_code) == (None, "SIGKILL", 137)
    assert worked.exit.peak_rss_bytes is not None
    assert worked.exit.peak_rss_bytes > 40_000_000
    assert worked.exit.cpu_s
    assert [Path(program).name for program in leaving.exit.leftovers] == ["sleep"]
    assert not leaving.exit.guard_lost
    assert {each.exit.limit_hit for each in (seven, killed, worked, leaving)} == {None}


async def test_short_lived_helpers_are_waited_for(box: Box) -> None:
    patient = LIMITS._replace(settle_s=1000)
    async with box.open() as sandbox:
        helped = await sandbox.run(box.command("sh", "-c", "(sleep 0.1; echo helped) & echo end"), limits=patient)
        command = box.command("sh", "-c", "sleep 1000 & exit 4")
        for timeout_s in (1, 10, PATIENCE_S):
            late = await sandbox.run(command, limits=patient._replace(timeout_s=timeout_s))
            if not late.timed_out:  # a deadline before it had begun shows nothing
                break
    assert (helped.output, helped.exit.leftovers) == ("end\nhelped\n", ())
    assert (late.exit.code, late.timed_out) == (4, False)
    assert [Path(program).name for program in late.exit.leftovers] == ["sleep"]


STUBBORN = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
else:
    signal.signal(signal.SIGTERM, lambda *_: print("asked", flush=True))
    print("up", flush=True)
while True: time.sleep(1)
"""


GRACES_S = (Limits().grace_s, 4.0, PATIENCE_S)
"""On a busy machine, a program may not get its turn within the first. Longer ones would delay the test every time."""


async def test_ended_at_the_deadline(box: Box) -> None:
    async with box.open() as sandbox:
        for grace_s, timeout_s in zip(GRACES_S, (2, 20, PATIENCE_S), strict=True):
            limits = Limits(timeout_s=timeout_s, grace_s=grace_s)
            done = await sandbox.run(box.command("python3", "-c", STUBBORN), limits=limits)
            assert await box.containers() == [], "gone before `run` is over"
            if "asked" in done.output:  # a deadline before it was up shows nothing
                break
    assert (done.timed_out, done.stopped, done.exit.signal) == (True, False, "SIGKILL")
    assert done.output.splitlines() == ["up", "asked"]


async def test_ended_by_stop(box: Box) -> None:
    async with box.open() as sandbox:
        for grace_s in GRACES_S:
            stop = asyncio.Event()
            limits = LIMITS._replace(grace_s=grace_s)
            done = await sandbox.run(
                box.command("python3", "-c", STUBBORN),
                limits=limits,
                stop=stop,
                on_line=lambda _, stop=stop: stop.set(),
            )
            assert await box.containers() == [], "gone before `run` is over"
            if "asked" in done.output:
                break
    assert (done.timed_out, done.stopped, done.exit.signal) == (False, True, "SIGKILL")
    assert done.output.splitlines() == ["up", "asked"]


async def test_ended_by_a_cancellation(box: Box) -> None:
    up = asyncio.Event()
    async with box.open() as sandbox:
        command = box.command("python3", "-c", STUBBORN)
        running = asyncio.create_task(sandbox.run(command, limits=LIMITS, on_line=lambda _: up.set()))
        await asyncio.wait_for(up.wait(), PATIENCE_S)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await box.containers() == [], "gone before `run` is over"


async def test_a_stop_by_the_engine_is_passed_on(box: Box) -> None:
    """It comes from outside. What comes from inside is not: see the escapes."""
    up = asyncio.Event()
    script = "trap 'echo asked; exit 4' TERM; echo up; while :; do sleep 0.05; done"
    async with box.open() as sandbox:
        command = box.command("sh", "-c", script)
        limits = LIMITS._replace(grace_s=30)
        running = asyncio.create_task(sandbox.run(command, limits=limits, on_line=lambda _: up.set()))
        await asyncio.wait_for(up.wait(), PATIENCE_S)
        async with aiodocker.Docker(os.environ.get("DOCKER_HOST")) as client:
            await client.containers.container((await box.containers())[0]["Id"]).kill(signal="SIGTERM")
        done = await running
    assert (done.exit.code, "asked" in done.output) == (4, True)


async def test_a_stopped_program_is_terminated_too(box: Box) -> None:
    async with box.open() as sandbox:
        stop = asyncio.Event()
        command = box.command("sh", "-c", "echo up; kill -STOP $$; echo went on")
        done = await sandbox.run(command, limits=LIMITS._replace(grace_s=30), stop=stop, on_line=lambda _: stop.set())
    assert done.exit.signal == "SIGTERM"


@pytest.mark.parametrize("after_s", [0.0, 0.02, 0.08, 0.2, 0.4])
async def test_cancelled_at_any_moment(box: Box, after_s: float) -> None:
    """Creation under way, start under way, order under way: nothing is left."""
    async with box.open() as sandbox:
        running = asyncio.create_task(sandbox.run(box.command("sleep", "1000"), limits=LIMITS))
        await asyncio.sleep(after_s)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await box.containers() == []


class SlowEngine(Engine):
    """Creates nothing before `may_create` is set, and remembers what it did."""

    def __init__(self, other: Engine) -> None:
        super().__init__(other._client, other.info)
        self.done: list[str] = []
        self.asked, self.may_create = asyncio.Event(), asyncio.Event()

    async def create(self, name: str, config: Mapping[str, Any]) -> None:
        self.asked.set()
        await self.may_create.wait()
        await super().create(name, config)
        self.done.append("create")

    async def remove(self, name: str) -> None:
        await super().remove(name)
        self.done.append("remove")


async def test_a_container_being_created_is_removed_afterwards(box: Box, tmp_path: Path) -> None:
    """The other way round it would be removed first, and then be there."""
    container_labels = ownership.labels(box.run_id, "none", tmp_path)
    async with connect() as real:
        engine = SlowEngine(real)
        container = Container(engine, box.run_id)
        settings = {"Image": box.image, "Cmd": ["sleep", "1000"], "Labels": container_labels, "NetworkDisabled": True}
        starting = asyncio.create_task(container.start(settings))
        await engine.asked.wait()
        starting.cancel()
        removing = asyncio.create_task(container.removed())
        assert await real.inspect(box.run_id) is None  # a removal that did not wait would be over by now
        engine.may_create.set()
        await removing
        await asyncio.wait({starting})
        assert engine.done == ["create", "remove"]
    assert await box.containers() == []


async def test_after_a_second_cancel_the_sandbox_cleans_up(box: Box) -> None:
    async with box.open() as sandbox:
        running = asyncio.create_task(sandbox.run(box.command("sleep", "1000"), limits=LIMITS))
        await asyncio.sleep(0.05)
        for _ in range(3):
            running.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await running
    assert await box.containers() == []


async def test_concurrent_commands_and_none_after_the_freeze(box: Box) -> None:
    async with box.open() as sandbox:
        done = await asyncio.gather(
            *(sandbox.run(box.command("sh", "-c", f"echo {number}"), limits=LIMITS) for number in range(4))
        )
        assert [each.output for each in done] == ["0\n", "1\n", "2\n", "3\n"]
        begun = asyncio.Event()  # there is a container before there is anything in it
        command = box.command("sh", "-c", "echo begun; exec sleep 1000")
        sleeping = asyncio.create_task(sandbox.run(command, limits=LIMITS, on_line=lambda _: begun.set()))
        await begun.wait()
        assert await box.containers() != []
        await sandbox.freeze()
        assert await box.containers() == []
        assert (await sleeping).exit.signal == "SIGKILL"
        with pytest.raises(RuntimeError):
            await sandbox.run(box.command("true"))


async def test_starts_are_limited_apart_from_running_containers(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    starting, most = 0, 0

    async def counted(container: Container, settings: dict[str, Any], start: Any = Container._start) -> None:
        nonlocal starting, most
        starting += 1
        most = max(most, starting)
        await start(container, settings)
        starting -= 1

    monkeypatch.setattr(Container, "_start", counted)
    starts = asyncio.Semaphore(2)
    wait = "touch started-$0; until [ -e go ]; do sleep 0.05; done"

    async def all_started() -> bool:
        return len(list(box.workspace.glob("started-*"))) == 5

    async with box.open(starts=starts) as sandbox:
        tasks = [
            asyncio.create_task(sandbox.run(box.command("sh", "-c", wait, str(number)), limits=Limits(PATIENCE_S)))
            for number in range(5)
        ]
        await until(all_started)
        (box.workspace / "go").touch()
        assert [done.exit.code for done in await asyncio.gather(*tasks)] == [0] * 5
        assert most == 2
        with pytest.raises(YouBenchaError):
            await sandbox.run(box.command("no-such-program"))
        for _ in range(2):
            assert not starts.locked()
            await starts.acquire()
        waiting = asyncio.create_task(sandbox.run(box.command("true")))
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await box.containers() == []


async def test_path_translation(box: Box, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    (tools / "bin").mkdir(parents=True)
    async with box.open() as sandbox:
        sandbox.share(tools)
        pairs = {
            box.workspace / "a" / "b": "/workspace/a/b",
            box.scratch / "home" / ".x": "/home/agent/.x",
            box.scratch / "tmp": "/tmp",
            tools / "bin": str(tools / "bin"),
        }
        for outside, inside in pairs.items():
            assert sandbox.inside(outside) == inside
            assert sandbox.outside(inside) == outside
        assert sandbox.outside("a.txt") == box.workspace / "a.txt"
        assert sandbox.outside("/workspace/../etc/passwd") is None
        assert sandbox.outside("/usr/bin/env") is None
        with pytest.raises(ValueError, match="not shared"):
            sandbox.inside(box.scratch)
        for wrong in ("/", "/usr", "/etc", "/workspace", "/workspace/x", "/tmp", "/home", "/proc/1", "/.youbencha"):
            with pytest.raises(YouBenchaError) as refused:
                sandbox.share(Path(wrong))
            assert refused.value.code == "SANDBOX_SHARE_REFUSED"


async def test_later_shares_are_visible_in_the_next_run(box: Box, tmp_path: Path) -> None:
    """Also where it lies below /tmp, which an agent may have changed by now."""
    first, second, file = tmp_path / "first", tmp_path / "second", tmp_path / "third" / "file"
    for path in (first, second, file.parent):
        path.mkdir()
        (path / "file").write_text(f"{path.name}\n")
    look = box.command("sh", "-c", 'cat "$@" 2>/dev/null', "sh", f"{first}/file", f"{second}/file", str(file))
    async with box.open() as sandbox:
        sandbox.share(first)
        running = asyncio.create_task(sandbox.run(look, limits=LIMITS))
        await asyncio.sleep(0)
        sandbox.share(second)
        sandbox.share(file)
        assert (await running).output == "first\n", "a container that is being made stays as it is"
        assert (await sandbox.run(look, limits=LIMITS)).output == "first\nsecond\nthird\n"


async def test_a_part_of_the_workspace_is_read_only(box: Box, tmp_path: Path) -> None:
    kept = box.workspace / ".ralph" / "loops"
    kept.mkdir(parents=True)
    (kept / "state").write_text("mine")
    tries = "cd .ralph; echo x > loops/state; rm -rf loops; mv loops other; touch events; cd ..; mv .ralph other"
    async with box.open() as sandbox:
        sandbox.protect(kept)
        done = await sandbox.run(box.command("sh", "-c", tries), limits=LIMITS)
        assert done.output.count("Read-only file system") == 2
        assert "'.ralph' to 'other': Device or resource busy" in done.output
        assert (kept / "state").read_text() == "mine"
        assert (box.workspace / ".ralph" / "events").exists()
        (tmp_path / "outside").mkdir()
        (tmp_path / "outside" / "secret").write_text("secret")
        kept.parent.rename(box.workspace / "moved")
        kept.parent.mkdir()
        kept.symlink_to(tmp_path / "outside")
        linked = await sandbox.run(box.command("cat", ".ralph/loops/secret"), limits=LIMITS)
    assert "No such file" in linked.output, "a link is not followed"


def test_no_link_is_followed_when_a_mount_point_is_made(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    (theirs / "link").symlink_to(ours)
    (theirs / "hangs").symlink_to(ours / "new")
    make_mount_point(theirs, PurePosixPath("a/b"), directory=True)
    make_mount_point(theirs, PurePosixPath("a/c/file"), directory=False)
    make_mount_point(theirs, PurePosixPath("a/c/file"), directory=False)
    assert ((theirs / "a/b").is_dir(), (theirs / "a/c/file").is_file()) == (True, True)
    for name, directory in (("link/x", True), ("link/x", False), ("link", True), ("hangs", False), ("a/b", False)):
        with pytest.raises(OSError):
            make_mount_point(theirs, PurePosixPath(name), directory=directory)
    assert list(ours.iterdir()) == []
    mounts = Mounts(tmp_path / "tree", tmp_path / "home", theirs)
    mounts.share(Path("/tmp/link/deep"), writable=False)
    with pytest.raises(YouBenchaError) as refused:
        mounts.make_mount_points()
    assert refused.value.code == "SANDBOX_SHARE_REFUSED"
    assert list(ours.iterdir()) == []


async def test_what_was_shared_and_removed_is_no_obstacle_for_the_next_program(box: Box, tmp_path: Path) -> None:
    """In a loop, each session of an agent shares files of its own."""
    session = tmp_path / "session"
    async with box.open() as sandbox:
        for _ in range(2):
            session.mkdir()
            sandbox.share(session, writable=True)
            done = await sandbox.run(box.command("touch", str(session / "file")), limits=LIMITS)
            assert done.exit.code == 0
            (session / "file").unlink()
            session.rmdir()
        assert (await sandbox.run(box.command("true"), limits=LIMITS)).exit.code == 0


async def test_sandbox_identity_in_the_results(box: Box) -> None:
    async with box.open(cpus=0.5, memory="1g") as sandbox:
        assert (sandbox.kind, sandbox.is_boundary, sandbox.brings_agent) == ("docker", True, False)
        assert sandbox.report().image_digest is None, "it was made on this computer"
        sandbox.image = sandbox.image._replace(digest="sha256:of-a-registry")
        report = sandbox.report()
    assert (report.type, report.network, report.fresh_home) == ("docker", box.spec().network, True)
    assert (report.cpus, report.memory) == (0.5, 1024**3)
    assert (report.image, report.image_digest) == (box.image, "sha256:of-a-registry")
    assert report.image_id is not None
    assert report.image_id.startswith("sha256:")
    assert report.engine is not None
    assert report.engine.split()[0] in ("Docker", "Podman")


@pytest.mark.parametrize(
    ("host", "code", "cause"),
    [
        ("unix:///nowhere/at/all.sock", "SANDBOX_NO_ENGINE", EngineCause.UNREACHABLE),
        ("tcp://127.0.0.1:2375", "SANDBOX_ENGINE_REMOTE", EngineCause.REMOTE),
        ("ssh://somebody@example.com", "SANDBOX_ENGINE_REMOTE", EngineCause.REMOTE),
    ],
)
async def test_no_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, code: str, cause: EngineCause
) -> None:
    monkeypatch.setenv("DOCKER_HOST", host)
    opening = open_docker_sandbox(
        SandboxSpec(type="docker"), workspace=tmp_path, scratch=tmp_path / "s", run_id="none", on_event=print
    )
    with pytest.raises(EngineError) as refused:
        await opening.__aenter__()
    assert (refused.value.code, refused.value.cause) == (code, cause)
    assert refused.value.hint


async def test_an_engine_without_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    """The permission is refused deep below: aiohttp and aiodocker each raise another error about it."""

    async def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(asyncio.get_running_loop(), "create_unix_connection", refuse)
    with pytest.raises(EngineError) as refused:
        async with connect({"DOCKER_HOST": "unix:///run/not-ours.sock"}):
            pass
    assert (refused.value.code, refused.value.cause) == ("SANDBOX_ENGINE_DENIED", EngineCause.PERMISSION)
    assert "group `docker`" in (refused.value.hint or "")


async def test_an_engine_that_accepts_and_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "_FIRST_TIMEOUT_S", 0.1)

    with tempfile.TemporaryDirectory(dir="/tmp") as directory, socket.socket(socket.AF_UNIX) as silent:
        path = f"{directory}/e.sock"
        silent.bind(path)
        silent.listen()
        with pytest.raises(EngineError, match=r"did not answer within 0\.1 s") as refused:
            async with asyncio.timeout(PATIENCE_S / 2), connect({"DOCKER_HOST": f"unix://{path}"}):
                pass
    assert (refused.value.code, refused.value.cause) == ("SANDBOX_NO_ENGINE", EngineCause.UNREACHABLE)
    assert "hangs" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("answer", "cause", "hint"),
    [
        ("invalid mount config: bind source path does not exist: /x", EngineCause.SOURCE_MISSING, "TMPDIR"),
        ("mkdir /data/inner: read-only file system", EngineCause.READ_ONLY, "VOLUME"),
        ("write /var/lib/docker/x: no space left on device", EngineCause.OUT_OF_DISK, "docker system df"),
        ("something else", EngineCause.OTHER, "docker info"),
    ],
)
async def test_why_a_call_failed(box: Box, answer: str, cause: EngineCause, hint: str) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise aiodocker.DockerError(500, answer)

    async with connect() as engine:
        engine._client.containers.create = fail  # type: ignore[method-assign]
        with pytest.raises(EngineError, match="could not create a container") as failed:
            await engine.create(box.run_id, {})
    assert (failed.value.code, failed.value.cause) == ("SANDBOX_ENGINE_FAILED", cause)
    assert failed.value.reason == answer
    assert hint in (failed.value.hint or "")


async def test_a_build_may_use_a_remote_engine(engine: object, monkeypatch: pytest.MonkeyPatch) -> None:
    async with connect() as here:
        elsewhere = here.info._replace(kernel="6.1.0-linuxkit")
    monkeypatch.setattr(engine_module, "_known", dict.fromkeys(engine_module._known, elsewhere))
    async with connect(same_host=False) as engine_of_builds:
        assert engine_of_builds.info == elsewhere
    with pytest.raises(EngineError) as refused:
        async with connect():
            pass
    assert refused.value.cause is EngineCause.REMOTE


async def test_an_image_that_no_registry_has(box: Box) -> None:
    box.image = "127.0.0.1:9/no-such/image:none"
    with pytest.raises(YouBenchaError) as refused:
        await box.run("true")
    assert refused.value.code == "SANDBOX_IMAGE_NOT_FOUND"
    assert box.image in refused.value.message
    assert box.events, "the pull was reported"


def test_engine_info() -> None:
    docker = EngineInfo.parse({"ServerVersion": "20", "KernelVersion": os.uname().release, "NCPU": 2})
    assert (docker.name, docker.rootless, list(docker.missing_limits())) == ("Docker", False, [])
    docker.check_same_host()
    podman = EngineInfo.parse(
        {
            "BuildahVersion": "1",
            "ServerVersion": "5",
            "SecurityOptions": ["name=seccomp,profile=default", "name=rootless", "name=selinux"],
            "MemoryLimit": False,
            "KernelVersion": "6.1.0-linuxkit",
        }
    )
    assert (podman.name, podman.rootless, podman.selinux) == ("Podman", True, True)
    assert list(podman.missing_limits()) == ["memory"]
    with pytest.raises(YouBenchaError, match=r"in a virtual machine .* its kernel is 6\.1\.0-linuxkit") as refused:
        podman.check_same_host()
    assert refused.value.code == "SANDBOX_ENGINE_REMOTE"
    assert "Docker Desktop" in (refused.value.hint or "")

    spec = SandboxSpec(type="docker", cpus=64, memory="1g")
    ours = container_settings(spec, docker, "image", [], {})["HostConfig"]
    assert (ours["NanoCpus"], ours["Memory"], ours["MemorySwap"]) == (2 * 10**9, 1024**3, 1024**3)
    assert [limit["Name"] for limit in ours["Ulimits"]] == ["core", "nofile"]
    theirs = container_settings(spec, podman, "image", [], {})
    assert theirs["User"] == "0:0"
    assert "label=disable" in theirs["HostConfig"]["SecurityOpt"]
    assert "Memory" not in theirs["HostConfig"]
    as_root = podman._replace(rootless=False)
    asked = container_settings(spec, as_root, "image", [], {})["HostConfig"]["Ulimits"]
    assert [limit["Name"] for limit in asked] == ["core", "nofile", "nproc"], "or Podman raises it, and may not"
    most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    assert 0 < asked[2]["Soft"] == asked[2]["Hard"] <= (most if most > 0 else 2**22)
