"""Programs on the real Windows. They end by themselves, should all else fail."""

from __future__ import annotations

import asyncio
import hashlib
import sys
import uuid
from pathlib import Path

import psutil
import pytest
from process_programs import soon

from systems import windows_only
from youbencha.process import Command, Limits, ProcessStartError, run

pytestmark = windows_only("its own processes; test_process_windows.py tests the same code elsewhere")

FAMILY = """
import subprocess, sys, time
mark, generations = sys.argv[1], int(sys.argv[2])
detached = 0x8 | 0x200  # DETACHED_PROCESS, CREATE_NEW_PROCESS_GROUP
if generations:
    argv = [sys.executable, '-S', __file__, mark, str(generations - 1)]
    subprocess.Popen(argv, creationflags=detached, stdin=-3, stdout=-3, stderr=-3)
else:
    open('begun', 'w').close()
time.sleep(float(sys.argv[3]) if len(sys.argv) > 3 else 300)
"""
SHOW_ARGUMENTS = "import sys; print(*map(ascii, sys.argv[1:]), sep='\\n')"


@pytest.fixture
def mark() -> str:
    return f"mark-{uuid.uuid4().hex}"


def alive(mark: str) -> list[str]:
    found = []
    for process in psutil.process_iter():
        try:
            line = process.cmdline()
        except (psutil.Error, OSError):
            continue
        if mark in line:
            found.append(f"{process.pid} {line}")
    return found


def python(directory: Path, script: str, *arguments: str, **options: object) -> Command:
    argv = (sys.executable, "-S", "-c", script, *arguments)
    return Command(**{"argv": argv, "cwd": directory, "env": {}, **options})  # type: ignore[arg-type]


def family(directory: Path, *arguments: str) -> Command:
    """Three generations, the younger two detached; the youngest tells that it is there."""
    (directory / "family.py").write_text(FAMILY)
    return Command(argv=(sys.executable, "-S", str(directory / "family.py"), *arguments), cwd=directory, env={})


async def test_output_and_exit_code(tmp_path: Path) -> None:
    script = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"
    log = tmp_path / "output.log"
    result = await run(python(tmp_path, script), log_file=log)
    assert sorted(result.output.split()) == ["err", "out"]
    assert (result.exit.code, result.exit.signal, result.exit.leftovers) == (7, None, ())
    assert log.read_bytes() == result.output.encode()


async def test_large_output_is_complete(tmp_path: Path) -> None:
    script = "import sys; sys.stdout.buffer.write(b'0123456789abcde\\n' * 300_000)"
    result = await run(python(tmp_path, script))
    assert result.output == "0123456789abcde\n" * 300_000


async def test_the_arguments_of_a_program(tmp_path: Path) -> None:
    arguments = ["", "two  words", '"quoted"', 'back\\slash\\"', "trailing\\", "%PATH% & calc | ^ > x", "漢 🙂", "a\nb"]
    result = await run(python(tmp_path, SHOW_ARGUMENTS, *arguments))
    assert result.output.splitlines() == list(map(ascii, arguments))


async def test_stdin_is_exactly_the_given_data(tmp_path: Path) -> None:
    script = "import sys, hashlib; d = sys.stdin.buffer.read(); print(len(d), hashlib.sha256(d).hexdigest())"
    for data in (None, b"", b"\0\1\r\n\x1a\xff" * 100_000):
        result = await run(python(tmp_path, script, stdin=data), limits=Limits(timeout_s=60))
        assert result.output.split() == [str(len(data or b"")), hashlib.sha256(data or b"").hexdigest()]


async def test_the_deadline_ends_the_whole_tree(tmp_path: Path, mark: str) -> None:
    running = asyncio.create_task(run(family(tmp_path, mark, "2"), limits=Limits(timeout_s=15)))
    await soon((tmp_path / "begun").exists, running)
    assert len(alive(mark)) >= 3
    result = await running
    assert alive(mark) == []
    assert result.timed_out
    assert (result.exit.code, result.exit.signal) == (None, "SIGKILL")


async def test_stop_ends_the_whole_tree(tmp_path: Path, mark: str) -> None:
    stop = asyncio.Event()
    running = asyncio.create_task(run(family(tmp_path, mark, "2"), stop=stop))
    await soon((tmp_path / "begun").exists, running)
    stop.set()
    assert (await running).stopped
    assert alive(mark) == []


async def test_leftovers_are_named_and_ended(tmp_path: Path, mark: str) -> None:
    script = family(tmp_path, mark, "1").argv[2]
    leave = (
        "import subprocess, sys, os, time\n"
        f"subprocess.Popen([sys.executable, '-S', {script!r}, {mark!r}, '0'], creationflags=8)\n"
        "while not os.path.exists('begun'): time.sleep(0.01)"
    )
    result = await run(python(tmp_path, leave), limits=Limits(timeout_s=60))
    assert result.exit.code == 0
    assert alive(mark) == []
    # A virtual environment's python.exe starts another: one or two, both with a path.
    assert {Path(program).name.lower() for program in result.exit.leftovers} == {"python.exe"}


HOSTILE = [
    "plain",
    "",
    "two words",
    'say "hi" & echo pwned > pwned.txt',
    "a|b<c>d^e&f",
    "%PATH% %%",
    "!PATH!",
    "back\\slash\\",
    '\\"',
    "(x) & (y)",
    "漢 é",
]


async def test_hostile_arguments_of_a_batch_file(tmp_path: Path) -> None:
    """As npm's shims do it, the batch file hands all of them on to a program."""
    script = tmp_path / "show arguments.cmd"
    (tmp_path / "show.py").write_text(SHOW_ARGUMENTS)
    script.write_text(f'@echo off\r\n"{sys.executable}" -S "%~dp0show.py" %*\r\nexit /b 5\r\n', newline="")
    result = await run(Command(argv=(str(script), *HOSTILE), cwd=tmp_path, env={}), limits=Limits(timeout_s=60))
    assert result.output.splitlines() == list(map(ascii, HOSTILE))
    assert result.exit.code == 5
    assert not (tmp_path / "pwned.txt").exists()


async def test_start_failures_are_explained(tmp_path: Path) -> None:
    missing = Command(argv=(str(tmp_path / "no-such.exe"),), cwd=tmp_path, env={})
    nowhere = python(tmp_path / "no-such", "0")
    for command, word in (
        (missing, "exist"),
        (nowhere, "directory"),
        (python(tmp_path, "0", "x" * 40_000), "too long"),
    ):
        with pytest.raises(ProcessStartError, match="Cannot start") as caught:
            await run(command)
        assert word in (caught.value.hint or "")
