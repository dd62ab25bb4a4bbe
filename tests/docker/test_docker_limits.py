"""Memory, processes and disk: a limit that ends an agent is named, and nothing is left."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest
from docker_boxes import PATIENCE_S, Box

from small_disk import small_disk
from youbencha.events import WarningRaised
from youbencha.process import LimitHit, Limits
from youbencha.sandbox.docker.disk import DiskWatch

MIB = 1024 * 1024


@pytest.fixture
def box(tmp_path: Path, engine: object, image: str) -> Box:
    return Box(tmp_path, image)


async def test_memory(box: Box) -> None:
    done = await box.run("python3", "-c", "x = bytearray(500_000_000)", memory="64m")
    assert done.exit.limit_hit == LimitHit("memory", "64 MiB")
    assert done.exit.signal == "SIGKILL"
    assert not done.exit.guard_lost
    assert await box.containers() == []


async def test_memory_limit_in_a_tool_that_the_agent_survives(box: Box) -> None:
    """The agent was not stopped by it: only a warning."""
    done = await box.run("sh", "-c", "python3 -c 'x = bytearray(500_000_000)' || echo went on", memory="64m")
    assert done.exit.code == 0
    assert done.exit.limit_hit is None
    assert "went on\n" in done.output
    warned = [event for event in box.events if isinstance(event, WarningRaised)]
    assert [event.code for event in warned] == ["SANDBOX_LIMIT_TOUCHED"]
    assert "memory (64 MiB)" in warned[0].message


async def test_processes(box: Box) -> None:
    bomb = "import os, time\nfor _ in range(1000):\n    if os.fork() == 0:\n        time.sleep(1000)"
    done = await box.run("python3", "-c", bomb, pids=32)
    assert done.exit.code == 1
    assert done.exit.limit_hit == LimitHit("processes", "32")
    assert await box.containers() == []


async def test_open_files_and_core_files(box: Box) -> None:
    """The same for everybody, as far as this computer allows it."""
    own = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = 65536 if own < 0 else min(own, 65536)
    done = await box.run("sh", "-c", "ulimit -Sn; ulimit -Hn; ulimit -Hc")
    assert done.output.split() == [str(most), str(most), "0"]


async def test_a_fork_bomb_at_the_deadline(box: Box) -> None:
    async with box.open(pids=64) as sandbox:
        command = box.command("python3", "-c", "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass")
        done = await sandbox.run(command, limits=Limits(timeout_s=2))
        assert done.timed_out
        assert done.exit.limit_hit is None, "the deadline ended it, not the limit"
        assert await box.containers() == []


@pytest.mark.parametrize("place", ["/workspace", "/home/agent", "/tmp"])
async def test_disk(box: Box, place: str) -> None:
    fill = f"cd {place}; trap '' TERM; i=0; while head -c 8000000 /dev/zero > f$i; do i=$((i+1)); done; sleep 1000"
    (box.workspace / "there-before").write_bytes(bytes(60 * MIB))
    async with box.open(disk="48m") as sandbox:
        done = await sandbox.run(box.command("sh", "-c", fill), limits=Limits(timeout_s=PATIENCE_S))
    assert done.exit.limit_hit == LimitHit("disk", "48 MiB")
    assert not done.timed_out


TAKE = """
import ctypes, os, socket, threading, time
libc = ctypes.CDLL(None, use_errno=True)
def take(path, size=400 << 20):
    file = os.open(path, os.O_CREAT | os.O_RDWR)
    os.unlink(path)
    os.posix_fallocate(file, 0, size)
    return file
"""
HIDDEN = {
    "deleted": "take('/tmp/x')",
    "deleted, in a thread's own descriptors": """
def thread():
    assert libc.syscall(436, 1 << 20, 1 << 20, 2) == 0  # close_range: unshare
    take('/tmp/x')
    time.sleep(1000)
threading.Thread(target=thread).start()
""",
    "deleted and mapped": "file = take('/tmp/x'); assert libc.mmap(None, 4096, 1, 1, file, None) != -1; os.close(file)",
    "deleted and sent": """
pair = socket.socketpair()
file = take('/tmp/x'); socket.send_fds(pair[0], [b'x'], [file]); os.close(file)
""",
    "reserved in stdout": "assert libc.fallocate(1, 1, ctypes.c_long(0), ctypes.c_long(400 << 20)) == 0",
    "reserved in stderr": "assert libc.fallocate(2, 1, ctypes.c_long(0), ctypes.c_long(400 << 20)) == 0",
    "many empty files": "for number in range(10_000): open(f'/tmp/{number}', 'w').close()",
    "many directories": "for number in range(10_000): os.mkdir(f'/home/agent/{number}')",
    "moved behind the count": """
import select, struct
watch, places, here = libc.inotify_init1(0), {}, '/tmp/0'
for number in range(1200):
    os.mkdir(f'/tmp/{number}')
    places[libc.inotify_add_watch(watch, b'/tmp/%d' % number, 0x10)] = f'/tmp/{number}'  # closed after reading
file = os.open('/tmp/0/big', os.O_CREAT | os.O_RDWR)
def write():
    for _ in range(700):
        os.write(file, bytes(1 << 20))
        time.sleep(0.01)
threading.Thread(target=write).start()
counting, last = False, here
while True:  # before a count to the directory that is read first, which is the last of the count before
    if select.select([watch], [], [], 0.05)[0]:
        data, at = os.read(watch, 1 << 16), 0
        there = places[struct.unpack_from('i', data)[0]]
        if not counting and there != here:
            os.rename(f'{here}/big', f'{there}/big')
            here = there
        counting = True
        while at < len(data):
            which, _, _, length = struct.unpack_from('iIII', data, at)
            last, at = places[which], at + 16 + length
    elif counting:
        if last != here:
            os.rename(f'{here}/big', f'{last}/big')
            here = last
        counting = False
""",
}


@pytest.mark.parametrize("how", HIDDEN.values(), ids=list(HIDDEN))
async def test_disk_space_that_no_directory_shows(tmp_path: Path, image: str, how: str) -> None:
    with small_disk(tmp_path / "disk", size=1024 * MIB, files=20_000) as disk:
        box = Box(disk, image)
        async with box.open(disk="64m") as sandbox:
            command = box.command("python3", "-c", f"{TAKE}{how}\ntime.sleep(1000)")
            done = await sandbox.run(command, limits=Limits(timeout_s=PATIENCE_S))
    assert done.exit.limit_hit == LimitHit("disk", "64 MiB"), done.output
    assert not done.timed_out


async def test_files_on_their_way_are_no_breach_of_the_limit(tmp_path: Path, image: str) -> None:
    """Programs that send descriptors, map removed files or print a lot do nothing wrong."""
    program = f"""{TAKE}
pair = socket.socketpair()
file = take('/tmp/x', 1 << 20); socket.send_fds(pair[0], [b'x'], [file]); libc.mmap(None, 4096, 1, 1, file, None)
os.close(file)
os.posix_fallocate(take('/tmp/y', 1 << 20), 0, 20 << 20)
for number in range(500): os.write(1, bytes(1 << 20))
"""
    with small_disk(tmp_path / "disk", size=1024 * MIB) as disk:
        done = await Box(disk, image).run("python3", "-c", program, disk="64m")
    assert (done.exit.code, done.exit.limit_hit) == (0, None), done.output[-500:]


async def test_disk_limit_in_the_images_files(box: Box) -> None:
    if os.getuid() != 0:
        pytest.skip("only root may change an image's files")
    fill = "head -c 100000000 /dev/zero > /opt/big; sleep 1000"
    async with box.open(disk="48m", writable=True) as sandbox:
        done = await sandbox.run(box.command("sh", "-c", fill), limits=Limits(timeout_s=PATIENCE_S))
    assert done.exit.limit_hit == LimitHit("disk", "48 MiB")


def test_written_bytes(tmp_path: Path) -> None:
    home, tree = tmp_path / "home", tmp_path / "tree"
    home.mkdir()
    tree.mkdir()
    (tree / "before").write_bytes(bytes(3 * MIB))
    watch = DiskWatch([home, tree], 10 * MIB, own=tmp_path)
    assert watch.written() < MIB
    (home / "once").write_bytes(os.urandom(2 * MIB))
    os.link(home / "once", tree / "twice")
    (tree / "elsewhere").symlink_to("/usr")
    os.mkfifo(tree / "pipe")
    with (home / "sparse").open("wb") as sparse:
        sparse.truncate(1 << 40)
    assert 2 * MIB <= watch.written() < 3 * MIB


def test_hidden_files_count_by_the_lost_disk_space(tmp_path: Path) -> None:
    """Deeper than any path can name: the walk cannot see it, so the file system is believed."""
    with small_disk(tmp_path / "disk", size=256 * MIB) as disk:
        watch = DiskWatch([disk], 10 * MIB, own=disk)
        here = os.open(disk, os.O_RDONLY)
        for _ in range(20):
            os.mkdir("d" * 250, dir_fd=here)
            deeper = os.open("d" * 250, os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = deeper
        file = os.open("big", os.O_CREAT | os.O_WRONLY, dir_fd=here)
        for _ in range(64):
            os.write(file, os.urandom(MIB))
        os.fsync(file)
        os.close(file)
        os.close(here)
        assert watch.written() > 32 * MIB


def test_what_no_look_has_found_counts_at_the_end(tmp_path: Path) -> None:
    """An agent can move its files while they are counted, but not when no process is left."""
    with small_disk(tmp_path / "disk", size=256 * MIB) as disk:
        watch = DiskWatch([disk], 10 * MIB, own=disk)
        (disk / "big").write_bytes(bytes(20 * MIB))
        watch._at_last_count = watch._free()
        assert watch.is_exceeded()
