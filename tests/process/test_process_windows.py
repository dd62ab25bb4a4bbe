"""The logic of the Windows system, with a stand-in for its kernel that acts on real processes."""

from __future__ import annotations

import asyncio
import ctypes
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from process_lab import Programs, eventually, soon
from windows_stand_in import StandInKernel, StandInPtyProcess, stand_in_winpty

from youbencha.errors import YouBenchaError
from youbencha.process import Command, Limits, ProcessStartError, run
from youbencha.process.systems import windows_kernel
from youbencha.process.systems.windows import WindowsSystem
from youbencha.process.systems.windows_arguments import batch_command_line, is_batch_file


@pytest.fixture
def kernel() -> StandInKernel:
    return StandInKernel()


@pytest.fixture
def windows(kernel: StandInKernel) -> WindowsSystem:
    return WindowsSystem(kernel, stand_in_winpty)


async def test_a_program_runs_in_a_job(programs: Programs, kernel: StandInKernel, windows: WindowsSystem) -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    command = programs.shell("cat; echo out; echo err >&2; exit 7", stdin=b"in\n")
    result = await run(command, system=windows)
    assert sorted(result.output.splitlines()) == ["err", "in", "out"]
    assert (result.exit.code, result.exit.signal, result.exit.leftovers) == (7, None, ())
    assert (result.exit.cpu_s, result.exit.peak_rss_bytes) == (0.5, 1234)
    spools = ["open_to_append"] * 2
    assert kernel.calls == ["create_job", *spools, "start_suspended", "assign", "resume", "terminate", "close"]
    assert not kernel.open_handles
    assert sorted(os.listdir("/proc/self/fd")) == before


async def test_the_deadline_ends_the_job(programs: Programs, kernel: StandInKernel, windows: WindowsSystem) -> None:
    command = programs.shell("echo begun; setsid sh -c './$0 1000; :' $0 & ./$0 1000")
    started = time.monotonic()
    result = await run(command, system=windows, limits=Limits(timeout_s=0.5))
    assert time.monotonic() - started < 1.5
    assert programs.alive() == []
    assert result.timed_out
    assert result.output == "begun\n"
    assert (result.exit.code, result.exit.signal, result.exit.leftovers) == (None, "SIGKILL", ())
    assert not kernel.open_handles


async def test_leftovers_are_counted_and_ended(programs: Programs, windows: WindowsSystem) -> None:
    result = await run(programs.shell("setsid sh -c './$0 1000; :' $0 & exit 3"), system=windows)
    assert programs.alive() == []
    assert result.exit.code == 3
    assert result.exit.leftovers
    assert set(result.exit.leftovers) == {"?"}


async def test_stop_and_cancel(programs: Programs, kernel: StandInKernel, windows: WindowsSystem) -> None:
    stop = asyncio.Event()
    stopped = await run(programs.shell("echo x; ./$0 1000"), system=windows, stop=stop, on_line=lambda _: stop.set())
    assert stopped.stopped
    running = asyncio.create_task(run(programs.shell("touch begun; ./$0 1000"), system=windows))
    await soon((programs.cwd / "begun").exists, running)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert programs.alive() == []
    assert not kernel.open_handles


@pytest.mark.parametrize("failing", ["create_job", "open_to_append", "start_suspended", "assign", "resume"])
async def test_a_failing_call_leaves_nothing(programs: Programs, failing: str) -> None:
    kernel = StandInKernel(fail=failing)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ProcessStartError, match=f"{failing} failed"):
        await run(programs.shell("./$0 1000"), system=WindowsSystem(kernel, stand_in_winpty))
    eventually(lambda: not programs.alive())
    assert not kernel.open_handles
    assert len(os.listdir("/proc/self/fd")) == before


async def test_a_program_that_is_not_there(programs: Programs, windows: WindowsSystem, kernel: StandInKernel) -> None:
    for terminal in (False, True):
        with pytest.raises(ProcessStartError):
            await run(programs.command("/no/such/program", terminal=terminal), system=windows)
    assert not kernel.open_handles


async def test_a_terminal(programs: Programs, kernel: StandInKernel, windows: WindowsSystem) -> None:
    script = "import os, sys; os.set_blocking(1, True); print(os.isatty(1)); print('x' * 3_000_000); sys.exit(4)"
    result = await run(programs.python(script, terminal=True), system=windows)
    assert result.output.replace("\r", "") == "True\n" + "x" * 3_000_000 + "\n"
    assert result.exit.code == 4
    assert kernel.calls[:3] == ["create_job", "open_process", "assign"]
    assert not kernel.open_handles


async def test_a_terminal_whose_output_comes_after_the_end(
    programs: Programs, windows: WindowsSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StandInPtyProcess, "late_s", 0.2)
    result = await run(programs.shell("echo late", terminal=True), system=windows)
    assert result.output.strip() == "late"


async def test_a_terminal_at_the_deadline(programs: Programs, windows: WindowsSystem) -> None:
    result = await run(programs.shell("echo x; ./$0 1000", terminal=True), system=windows, limits=Limits(timeout_s=0.5))
    assert result.timed_out
    assert result.output.strip() == "x"
    eventually(lambda: not programs.alive())


async def test_without_pywinpty_there_is_a_hint(programs: Programs, kernel: StandInKernel) -> None:
    with pytest.raises(YouBenchaError, match="pywinpty") as caught:
        await run(programs.shell(":", terminal=True), system=WindowsSystem(kernel))
    assert "youbencha[windows]" in (caught.value.hint or "")
    assert not kernel.open_handles


async def test_batch_files_go_through_their_interpreter(
    programs: Programs, windows: WindowsSystem, kernel: StandInKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMSPEC", r"C:\cmd.exe")
    await run(programs.command(r"C:\npm\claude.cmd", "-p", 'say "hi" & calc'), system=windows)
    assert kernel.argv == r'''"C:\cmd.exe" /e:ON /v:OFF /d /c ""C:\npm\claude.cmd" -p "say ""hi"" & calc""'''
    with pytest.raises(ProcessStartError, match="line break"):
        await run(programs.command("claude.cmd", "two\nlines"), system=windows)
    with pytest.raises(ProcessStartError, match="batch file"):
        await run(programs.command("claude.cmd", "a & b", terminal=True), system=windows)


@pytest.mark.parametrize(
    ("argument", "quoted"),
    [
        ("", '""'),
        ("plain-1.txt", "plain-1.txt"),
        ("two words", '"two words"'),
        ("a&b|c<d>e^f", '"a&b|c<d>e^f"'),
        ("%PATH%", '"%%cd:~,%PATH%%cd:~,%"'),
        ('"', '""""'),
        (r"dir" + "\\", r'"dir\\"'),
        (r"a\b", r"a\b"),
        (r"\\" + '"', '"' + "\\" * 4 + '"""'),
        ("é", '"é"'),
    ],
)
def test_how_an_argument_of_a_batch_file_is_quoted(argument: str, quoted: str) -> None:
    assert batch_command_line("cmd", ["x.bat", argument]) == f'"cmd" /e:ON /v:OFF /d /c ""x.bat" {quoted}"'


@given(st.text(st.sampled_from('ab"\\% &'), max_size=12))
def test_quotes_of_a_batch_argument_always_balance(argument: str) -> None:
    """Outside quotes `&` would begin a second command."""
    line = (
        batch_command_line("cmd", ["x.bat", argument])
        .removeprefix('"cmd" /e:ON /v:OFF /d /c ""x.bat" ')
        .removesuffix('"')
    )
    inside = False
    for character in line:
        inside ^= character == '"'
        assert inside or character not in "& "
    assert not inside


def test_which_files_are_batch_files() -> None:
    assert [name for name in ("a.cmd", "A.BAT", "a.bat. .", "a.exe", "cmd", "a.cmd.exe") if is_batch_file(name)] == [
        "a.cmd",
        "A.BAT",
        "a.bat. .",
    ]


def test_the_structures_have_the_sizes_that_windows_expects() -> None:
    assert ctypes.sizeof(windows_kernel._BasicLimits) == 64
    assert ctypes.sizeof(windows_kernel._ExtendedLimits) == 144
    assert ctypes.sizeof(windows_kernel._Accounting) == 48


async def test_the_one_variable_that_windows_needs(
    tmp_path: Path, windows: WindowsSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SYSTEMROOT", r"C:\Windows")
    for env, expected in (({}, r"C:\Windows"), ({"SystemRoot": "mine"}, "mine")):
        result = await run(Command(argv=("/usr/bin/env",), cwd=tmp_path, env=env), system=windows)
        shown = dict(line.split("=", 1) for line in result.output.splitlines())
        assert {name.upper(): value for name, value in shown.items() if name != "STAND_IN"} == {"SYSTEMROOT": expected}
