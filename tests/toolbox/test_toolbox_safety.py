"""Killed installers, two at once, damage, full disks."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from toolbox_packages import Lines, WheelHouse, plant, posix, says

from youbencha.errors import YouBenchaError
from youbencha.sandbox.toolbox.fetch import PartialInstall, partial_install, run_watched
from youbencha.sandbox.toolbox.toolbox import Toolbox

pytestmark = posix

INSTALLER = """
import asyncio, sys
from pathlib import Path
from youbencha.errors import YouBenchaError
from youbencha.sandbox.toolbox.toolbox import Toolbox
toolbox, say = Toolbox(Path(sys.argv[1])), lambda *text: print(*text, flush=True)
try:
    asyncio.run(toolbox.install("claude-code", "2.0.62", source="pypi", progress=say))
except YouBenchaError as error:
    print(error.code)
"""


def installer(toolbox: Toolbox) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", INSTALLER, str(toolbox.root)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not (path.exists() and path.read_text().endswith("\n")):
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.02)


def leftovers(toolbox: Toolbox) -> list[Path]:
    return list((toolbox.root / "claude-code").glob(".partial-*"))


def processes_at(path: Path) -> list[psutil.Process]:
    """All that have the path in their arguments or for a working directory."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        words = [*(process.info["cmdline"] or ()), process.info["cwd"] or ""]
        if any(str(path) in word for word in words):
            found.append(process)
    return found


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 60
    while psutil.pid_exists(pid):
        assert time.monotonic() < deadline, f"{pid} still runs"
        time.sleep(0.02)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[PartialInstall]:
    with partial_install(tmp_path) as under_way:
        yield under_way


async def test_a_killed_installer_leaves_no_installation(
    toolbox: Toolbox, wheels: WheelHouse, tmp_path: Path, lines: Lines
) -> None:
    mark = tmp_path / "trying"
    wheels.sdk("0.1.14", "2.0.62", binary=f"#!/bin/sh\necho $$ > '{mark}'\nexec sleep 60\n")
    with installer(toolbox) as process:
        wait_for(mark)
        process.kill()
    wait_until_gone(int(mark.read_text()))
    assert leftovers(toolbox) != []
    assert toolbox.installed() == []
    assert toolbox.find("claude-code", "2.0.62") is None

    wheels.sdk("0.1.14", "2.0.62")
    have = await toolbox.install("claude-code", "2.0.62", progress=lines.add)
    assert toolbox.installed() == [have]
    assert leftovers(toolbox) == []
    assert not any("waiting" in line for line in lines)


async def test_an_interrupted_installation_is_cleaned_up_at_once(toolbox: Toolbox, wheels: WheelHouse) -> None:
    wheels.sdk("0.1.14", "2.0.62")

    def interrupt(step: str, _detail: str = "", /) -> None:
        if step.startswith("unpacking"):
            installing.cancel()

    installing = asyncio.create_task(toolbox.install("claude-code", "2.0.62", progress=interrupt))
    with pytest.raises(asyncio.CancelledError):
        await installing
    assert leftovers(toolbox) == []
    assert toolbox.installed() == []


def test_ctrl_c_while_pip_waits_for_the_network(toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{silent.getsockname()[1]}/simple")
        with installer(toolbox) as process:
            silent.settimeout(30)
            connection, _ = silent.accept()
            with connection:
                assert len(processes_at(toolbox.root)) > 1
                process.send_signal(signal.SIGINT)
                _, complaint = process.communicate(timeout=10)
    assert "KeyboardInterrupt" in complaint
    assert processes_at(toolbox.root) == []
    assert leftovers(toolbox) == []
    assert toolbox.installed() == []


def test_two_concurrent_installers(toolbox: Toolbox, wheels: WheelHouse, tmp_path: Path) -> None:
    count = tmp_path / "count"
    slow = f"#!/bin/sh\necho once >> '{count}'\nsleep 1.5\necho 2.0.62\n"
    wheels.sdk("0.1.14", "2.0.62", binary=slow)
    with installer(toolbox) as one, installer(toolbox) as two:
        outputs = sorted((one.communicate(timeout=60)[0], two.communicate(timeout=60)[0]), key=len)
    assert one.returncode == two.returncode == 0
    assert count.read_text() == "once\n"
    assert sum("claude-code 2.0.62 is already installed" in output for output in outputs) == 1
    waited = next(output for output in outputs if "already installed" in output)
    assert "waiting for another installation of claude-code (process " in waited
    have = toolbox.find("claude-code", "2.0.62")
    assert have is not None
    toolbox.verify(have)


async def test_a_lock_file_of_a_dead_process_is_not_waited_for(
    toolbox: Toolbox, wheels: WheelHouse, lines: Lines
) -> None:
    wheels.sdk("0.1.14", "2.0.62")
    (toolbox.root / "claude-code").mkdir(parents=True)
    (toolbox.root / "claude-code" / ".lock").write_text("1")
    await toolbox.install("claude-code", "2.0.62", progress=lines.add)
    assert not any("waiting" in line for line in lines)


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "{",
        {"sha256": "short"},
        {"version": "2.0.63"},
        {"agent": "codex"},
        {"executable": "../2.0.62/claude"},
        {"executable": "/bin/sh"},
        {"executable": "gone"},
        {"format": 2},
        {"surprise": 1},
    ],
)
def test_a_damaged_manifest_is_not_listed(toolbox: Toolbox, damage: str | dict[str, object]) -> None:
    manifest = plant(toolbox, "2.0.62").executable.parent / "manifest.json"
    whole = json.loads(manifest.read_text())
    manifest.write_text(damage if isinstance(damage, str) else json.dumps(whole | damage))
    assert toolbox.installed() == []
    assert toolbox.damaged() == [manifest.parent]


async def test_installing_repairs_a_damaged_installation(toolbox: Toolbox, copied_wheels: WheelHouse) -> None:
    copied_wheels.sdk("0.1.14", "2.0.62")
    directory = plant(toolbox, "2.0.62").executable.parent
    (directory / "manifest.json").write_text("")
    (directory / "junk").write_text("")
    have = await toolbox.install("claude-code", "2.0.62")
    assert toolbox.installed() == [have]
    assert toolbox.damaged() == []
    assert not (directory / "junk").exists()


def test_a_changed_binary_is_an_error_with_a_hint(toolbox: Toolbox) -> None:
    have = plant(toolbox, "2.0.62")
    toolbox.verify(have)
    have.executable.write_text(says("2.0.62") + "# \n")
    with pytest.raises(YouBenchaError) as caught:
        toolbox.verify(have)
    assert caught.value.code == "AGENT_CHANGED"
    assert "yb agents install claude-code@2.0.62" in str(caught.value)
    have.executable.unlink()
    with pytest.raises(YouBenchaError) as missing:
        toolbox.verify(have)
    assert missing.value.code == "AGENT_MISSING"


def test_remove_deletes_one_version(toolbox: Toolbox) -> None:
    plant(toolbox, "2.0.62")
    kept = plant(toolbox, "2.0.53")
    toolbox.remove("claude-code", "2.0.62")
    assert toolbox.installed() == [kept]
    assert leftovers(toolbox) == []
    with pytest.raises(YouBenchaError) as caught:
        toolbox.remove("claude-code", "2.0.62")
    assert caught.value.code == "AGENT_NOT_INSTALLED"
    assert "2.0.53" in str(caught.value)


@pytest.mark.parametrize(("agent", "version"), [("..", "1.0"), ("claude-code", "../../victim"), ("../victim", "1.0")])
def test_remove_never_leaves_the_toolbox(toolbox: Toolbox, agent: str, version: str) -> None:
    victim = toolbox.root.parent / "victim" / "1.0"
    victim.mkdir(parents=True)
    toolbox.root.mkdir()
    (toolbox.root.parent / "1.0").mkdir()
    with pytest.raises(YouBenchaError):
        toolbox.remove(agent, version)
    assert victim.is_dir()
    assert (toolbox.root.parent / "1.0").is_dir()


async def test_a_root_that_cannot_be_written(tmp_path: Path, wheels: WheelHouse) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(YouBenchaError) as caught:
        await Toolbox(tmp_path / "file" / "toolbox").install("claude-code")
    assert caught.value.code == "TOOLBOX_STORAGE"
    assert "YOUBENCHA_TOOLBOX" in str(caught.value)


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may write everywhere")
async def test_a_root_without_permission(tmp_path: Path, wheels: WheelHouse) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    with pytest.raises(YouBenchaError) as caught:
        await Toolbox(locked / "toolbox").install("claude-code")
    assert caught.value.code == "TOOLBOX_STORAGE"


def test_a_full_disk_leaves_nothing(toolbox: Toolbox, wheels: WheelHouse) -> None:
    """A limit on the size of files stands in for the disk: the wheel is small, the binary is not."""
    wheels.sdk("0.1.14", "2.0.62", binary=says("2.0.62") + "#" * 3_000_000)
    import resource

    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, {resource.RLIM_INFINITY}))\n"
    command = [sys.executable, "-c", limit + INSTALLER, str(toolbox.root)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "TOOLBOX_STORAGE", done.stderr
    assert toolbox.installed() == []
    assert leftovers(toolbox) == []


async def test_a_long_download_is_never_silent(place: PartialInstall, lines: Lines) -> None:
    (place.tree / "file").write_bytes(bytes(5_000_000))

    def tell(step: str, detail: str = "", /) -> None:
        lines.add(step, detail)
        if len(lines) == 3:
            (place.work / "enough").touch()

    command = ["/bin/sh", "-c", f"while ! [ -e '{place.work}/enough' ]; do sleep 0.05; done"]
    done = await run_watched(replace(place, progress=tell), command, label="downloading")
    assert done.succeeded
    assert lines[0] == "downloading"
    said = [re.fullmatch(r"downloading \.\.\. 5 MB on disk, (\d+) s", line) for line in lines[1:]]
    seconds = [int(each[1]) for each in said if each]
    assert len(seconds) == len(said) >= 2
    assert 1 <= seconds[0] <= seconds[1]


async def test_stdout_and_combined_output_are_kept(place: PartialInstall, lines: Lines) -> None:
    command = ["/bin/sh", "-c", "echo one; echo two >&2; echo three; exit 4"]
    done = await run_watched(replace(place, progress=lines.add), command, label="talking")
    assert not done.succeeded
    assert done.stdout == "one\nthree"
    assert sorted(done.output.split()) == ["one", "three", "two"]


async def test_a_progress_callback_that_fails_ends_the_program(place: PartialInstall) -> None:
    def fail(_step: str, detail: str = "", /) -> None:
        if detail and pid.exists() and pid.read_text().endswith("\n"):
            raise BrokenPipeError

    pid = place.work / "pid"
    command = ["/bin/sh", "-c", f"echo $$ > '{pid}'; exec sleep 60"]
    with pytest.raises(BrokenPipeError):
        await run_watched(replace(place, progress=fail), command, label="sleeping")
    assert not psutil.pid_exists(int(pid.read_text()))


async def test_a_step_that_takes_too_long_is_ended(place: PartialInstall, lines: Lines) -> None:
    command = ["/bin/sh", "-c", "echo so far; exec sleep 60"]
    for timeout_s in (0.3, 3, 30):  # the later ones only where it had not begun by then
        with pytest.raises(YouBenchaError, match=r"^sleeping: ") as caught:
            await run_watched(replace(place, progress=lines.add), command, label="sleeping", timeout_s=timeout_s)
        assert caught.value.code == "TOOLBOX_TIMEOUT"
        if caught.value.context["output"]:
            break
    assert caught.value.context["output"] == "so far\n"


async def test_two_installations_in_one_event_loop(toolbox: Toolbox, wheels: WheelHouse, lines: Lines) -> None:
    wheels.sdk("0.1.14", "2.0.62")
    one, two = await asyncio.gather(*(toolbox.install("claude-code", "2.0.62", progress=lines.add) for _ in range(2)))
    assert one == two
    assert sum(line.startswith("downloading") and "..." not in line for line in lines) == 1


async def test_remove_does_not_wait_for_an_installation(toolbox: Toolbox, wheels: WheelHouse) -> None:
    """It would wait for ever, if the installation is a task of the same event loop."""
    plant(toolbox, "2.0.53")
    wheels.sdk("0.1.14", "2.0.62")
    refused: list[str] = []

    def remove(step: str, _detail: str = "", /) -> None:
        if step.startswith("downloading"):
            with pytest.raises(YouBenchaError, match=rf"in progress \(process {os.getpid()}, since ") as caught:
                toolbox.remove("claude-code", "2.0.53")
            refused.append(caught.value.code)

    await toolbox.install("claude-code", "2.0.62", progress=remove)
    assert refused[0] == "TOOLBOX_BUSY"
    toolbox.remove("claude-code", "2.0.53")


@pytest.mark.parametrize(("refusals", "installed"), [(3, True), (99, False)])
async def test_a_directory_held_open_is_waited_for(
    toolbox: Toolbox, copied_wheels: WheelHouse, monkeypatch: pytest.MonkeyPatch, refusals: int, installed: bool
) -> None:
    """As on Windows, where a directory cannot be renamed while a file in it is open."""
    copied_wheels.sdk("0.1.14", "2.0.62")
    rename, held = Path.rename, iter(range(refusals))

    def hold(source: Path, target: Path) -> Path:
        if next(held, None) is not None:
            raise PermissionError(13, "Access is denied")
        return rename(source, target)

    monkeypatch.setattr(Path, "rename", hold)
    if installed:
        await toolbox.install("claude-code", "2.0.62", source="pypi")
    else:
        with pytest.raises(YouBenchaError) as caught:
            await toolbox.install("claude-code", "2.0.62", source="pypi")
        assert caught.value.code == "TOOLBOX_STORAGE"
    assert [have.version for have in toolbox.installed()] == ["2.0.62"] * installed


def test_versions_coexist_and_the_newest_is_found(toolbox: Toolbox) -> None:
    middle, newest, oldest = (plant(toolbox, version) for version in ("2.0.9", "2.0.10", "1.0.200"))
    assert toolbox.installed("claude-code") == [newest, middle, oldest]
    assert toolbox.find("claude-code") == newest
    assert toolbox.find("claude-code", "2.0.9") == middle
    assert toolbox.find("claude-code", "3.0.0") is None
    assert toolbox.installed("codex") == []


def test_a_moved_toolbox_still_works(toolbox: Toolbox, tmp_path: Path) -> None:
    plant(toolbox, "2.0.62")
    moved = Toolbox(toolbox.root.rename(tmp_path / "elsewhere"))
    have = moved.find("claude-code", "2.0.62")
    assert have is not None
    assert have.executable == tmp_path / "elsewhere/claude-code/2.0.62/claude"
    moved.verify(have)
