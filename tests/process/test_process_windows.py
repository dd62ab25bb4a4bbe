"""The logic of the Windows system, with a stand-in for its kernel that acts on real processes."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from pathlib import Path

import pytest
from process_programs import Programs, eventually, open_descriptors, run_into_deadline, soon
from windows_stand_in import StandInKernel, StandInPtyProcess, stand_in_winpty

from youbencha.errors import YouBenchaError
from youbencha.process import Command, Limits, ProcessStartError, run, windows
from youbencha.process.windows import WindowsSystem


@pytest.fixture
def kernel() -> StandInKernel:
    return StandInKernel()


@pytest.fixture
def system(kernel: StandInKernel) -> WindowsSystem:
    return WindowsSystem(kernel, stand_in_winpty)


async def test_a_program_runs_in_a_job(programs: Programs, kernel: StandInKernel, system: WindowsSystem) -> None:
    before = open_descriptors()
    command = programs.shell("cat; echo out; echo err >&2; exit 7", stdin=b"in\n")
    result = await run(command, system=system)
    assert sorted(result.output.splitlines()) == ["err", "in", "out"]
    assert (result.exit.code, result.exit.signal, result.exit.leftovers) == (7, None, ())
    assert (result.exit.cpu_s, result.exit.peak_rss_bytes) == (0.5, 1234)
    spools = ["open_to_append"] * 2
    assert kernel.calls == ["create_job", *spools, "start_suspended", "assign", "resume", "terminate", "close"]
    assert not kernel.open_handles
    assert open_descriptors() == before


async def test_the_deadline_ends_the_job(programs: Programs, kernel: StandInKernel, system: WindowsSystem) -> None:
    command = programs.shell("echo begun; ./setsid sh -c './$0 1000; :' $0 & ./$0 1000")
    result, _ = await run_into_deadline(command, Limits(timeout_s=0.5), "begun", system=system)
    assert programs.alive() == []
    assert result.timed_out
    assert result.output == "begun\n"
    assert (result.exit.code, result.exit.signal, result.exit.leftovers) == (None, "SIGKILL", ())
    assert not result.exit.by_itself
    assert not kernel.open_handles


async def test_leftovers_are_named_and_ended(programs: Programs, system: WindowsSystem) -> None:
    result = await run(programs.shell("./setsid sh -c './$0 1000; :' $0 & exit 3"), system=system)
    assert programs.alive() == []
    assert result.exit.code == 3
    assert result.exit.leftovers
    assert all(os.path.isabs(program) for program in result.exit.leftovers)


async def test_short_lived_helpers_are_waited_for(programs: Programs, system: WindowsSystem) -> None:
    script = "(sleep 0.1; echo helped) & echo end"
    result = await run(programs.shell(script), system=system, limits=Limits(settle_s=1000))
    assert (result.output, result.exit.leftovers, result.exit.by_itself) == ("end\nhelped\n", (), True)


async def test_the_console_host_is_not_a_leftover(
    programs: Programs, kernel: StandInKernel, system: WindowsSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is the program itself, nor who has gone meanwhile."""
    paths = {1: r"C:\Windows\System32\conhost.exe", 2: None, 3: r"C:\tool.exe", 4: "?"}
    monkeypatch.setattr(windows, "_program", paths.get)
    monkeypatch.setattr(kernel, "processes", lambda _: list(paths))
    assert (await run(programs.shell("exit 0"), system=system)).exit.leftovers == (r"C:\tool.exe", "?")


async def test_stop_and_cancel(programs: Programs, kernel: StandInKernel, system: WindowsSystem) -> None:
    stop = asyncio.Event()
    stopped = await run(programs.shell("echo x; ./$0 1000"), system=system, stop=stop, on_line=lambda _: stop.set())
    assert stopped.stopped
    running = asyncio.create_task(run(programs.shell("touch begun; ./$0 1000"), system=system))
    await soon((programs.cwd / "begun").exists, running)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert programs.alive() == []
    assert not kernel.open_handles


@pytest.mark.parametrize("failing", ["create_job", "open_to_append", "start_suspended", "assign", "resume"])
async def test_a_failing_call_leaves_nothing(programs: Programs, failing: str) -> None:
    kernel = StandInKernel(fail=failing)
    before = len(open_descriptors())
    with pytest.raises(ProcessStartError, match=f"{failing} failed"):
        await run(programs.shell("./$0 1000"), system=WindowsSystem(kernel, stand_in_winpty))
    eventually(lambda: not programs.alive())
    assert not kernel.open_handles
    assert len(open_descriptors()) == before


async def test_a_too_long_command_line_is_not_reported_as_a_missing_program(
    programs: Programs, kernel: StandInKernel, system: WindowsSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    class TooLong(FileNotFoundError):
        winerror = 206  # as Windows says it

    def refuse(*_: object, **__: object) -> None:
        raise TooLong(errno.ENOENT, "The filename or extension is too long")

    monkeypatch.setattr(kernel, "start_suspended", refuse)
    with pytest.raises(ProcessStartError) as caught:
        await run(programs.shell(":"), system=system)
    assert "too long" in (caught.value.hint or "")


async def test_a_missing_program(programs: Programs, system: WindowsSystem, kernel: StandInKernel) -> None:
    for terminal in (False, True):
        with pytest.raises(ProcessStartError):
            await run(programs.command("/no/such/program", terminal=terminal), system=system)
    assert not kernel.open_handles


async def test_a_terminal(programs: Programs, kernel: StandInKernel, system: WindowsSystem) -> None:
    script = "import os, sys; os.set_blocking(1, True); print(os.isatty(1)); print('x' * 3_000_000); sys.exit(4)"
    result = await run(programs.python(script, terminal=True), system=system)
    assert result.output.replace("\r", "") == "True\n" + "x" * 3_000_000 + "\n"
    assert result.exit.code == 4
    assert kernel.calls[:3] == ["create_job", "open_process", "assign"]
    assert not kernel.open_handles


async def test_a_terminal_is_closed_afterwards(programs: Programs, system: WindowsSystem) -> None:
    before, threads = len(open_descriptors()), threading.active_count()
    for _ in range(3):
        await run(programs.shell("echo x", terminal=True), system=system)
    await soon(lambda: (len(open_descriptors()), threading.active_count()) == (before, threads))


async def test_stdin_of_a_terminal_is_at_its_end(programs: Programs, system: WindowsSystem) -> None:
    script = "import sys; print(len(sys.stdin.buffer.read()))"
    result = await run(programs.python(script, terminal=True), system=system, limits=Limits(timeout_s=30))
    assert result.output.strip() == "0"


async def test_stdin_with_a_terminal_is_refused(
    programs: Programs, kernel: StandInKernel, system: WindowsSystem
) -> None:
    with pytest.raises(ProcessStartError, match="standard input") as caught:
        await run(programs.shell("cat", stdin=b"text", terminal=True), system=system)
    assert "by file" in (caught.value.hint or "")
    assert not kernel.open_handles


async def test_an_unknown_exit_code_is_not_success(
    programs: Programs, system: WindowsSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StandInPtyProcess, "isalive", lambda self: not self.has_ended())
    result = await run(programs.shell("exit 0", terminal=True), system=system)
    assert result.exit.code is None
    assert result.exit.shell_code == -1


async def test_terminal_output_after_the_exit(
    programs: Programs, system: WindowsSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StandInPtyProcess, "late_s", 0.2)
    result = await run(programs.shell("echo late", terminal=True), system=system)
    assert result.output.strip() == "late"


async def test_a_terminal_at_the_deadline(programs: Programs, system: WindowsSystem) -> None:
    command = programs.shell("echo x; ./$0 1000", terminal=True)
    result, _ = await run_into_deadline(command, Limits(timeout_s=0.5), "x", system=system)
    assert result.timed_out
    assert result.output.strip() == "x"
    eventually(lambda: not programs.alive())


async def test_without_pywinpty_there_is_a_hint(programs: Programs, kernel: StandInKernel) -> None:
    with pytest.raises(YouBenchaError, match="pywinpty") as caught:
        await run(programs.shell(":", terminal=True), system=WindowsSystem(kernel))
    assert "youbencha[windows]" in (caught.value.hint or "")
    assert not kernel.open_handles


async def test_batch_files_run_in_their_interpreter(
    programs: Programs, system: WindowsSystem, kernel: StandInKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMSPEC", r"C:\cmd.exe")
    await run(programs.command(r"C:\npm\claude.cmd", "-p", 'say "hi" & calc'), system=system)
    assert kernel.argv == r'''"C:\cmd.exe" /e:ON /v:OFF /d /c ""C:\npm\claude.cmd" -p "say ""hi"" & calc""'''
    with pytest.raises(ProcessStartError, match="8191") as caught:
        await run(programs.command("claude.cmd", "x" * 8_000, "y" * 200), system=system)
    assert caught.value.context["errno"] == errno.E2BIG
    with pytest.raises(ProcessStartError, match="line break"):
        await run(programs.command("claude.cmd", "two\nlines"), system=system)
    with pytest.raises(ProcessStartError, match="batch file"):
        await run(programs.command("claude.cmd", "a & b", terminal=True), system=system)


async def test_the_one_variable_that_windows_needs(
    tmp_path: Path, system: WindowsSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SYSTEMROOT", r"C:\Windows")
    for env, expected in (({}, r"C:\Windows"), ({"SystemRoot": "mine"}, "mine")):
        result = await run(Command(argv=("/usr/bin/env",), cwd=tmp_path, env=env), system=system)
        shown = dict(line.split("=", 1) for line in result.output.splitlines())
        assert {name.upper(): value for name, value in shown.items() if name != "STAND_IN"} == {"SYSTEMROOT": expected}
