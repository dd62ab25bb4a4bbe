"""What runs programs on Windows, as far as other systems can: its descendants are found and ended by psutil."""

from __future__ import annotations

import asyncio
import errno
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from process_programs import Programs, eventually, open_descriptors, run_into_deadline, soon

from youbencha.errors import YouBenchaError
from youbencha.process import Command, Limits, ProcessStartError, run
from youbencha.process.windows import ProcessTree, WindowsSystem, batch_command_line, is_batch_file

SYSTEM = WindowsSystem()


async def test_output_input_and_exit_code(programs: Programs) -> None:
    before = open_descriptors()
    command = programs.shell("cat; echo out; echo err >&2; exit 7", stdin=b"in\n")
    result = await run(command, system=SYSTEM)
    assert sorted(result.output.splitlines()) == ["err", "in", "out"]
    assert (result.exit.code, result.exit.signal, result.exit.leftovers) == (7, None, ())
    assert open_descriptors() == before


async def test_the_deadline_ends_the_tree(programs: Programs) -> None:
    command = programs.shell("echo begun; ./setsid sh -c './$0 1000; :' $0 & ./$0 1000")
    result, _ = await run_into_deadline(command, Limits(timeout_s=0.5), "begun", system=SYSTEM)
    assert programs.alive() == []
    assert result.timed_out
    assert result.output == "begun\n"
    assert (result.exit.code, result.exit.signal, result.exit.leftovers) == (None, "SIGKILL", ())


async def test_stop_and_cancel(programs: Programs) -> None:
    stop = asyncio.Event()
    stopped = await run(programs.shell("echo x; ./$0 1000"), system=SYSTEM, stop=stop, on_line=lambda _: stop.set())
    assert stopped.stopped
    running = asyncio.create_task(run(programs.shell("touch begun; ./$0 1000"), system=SYSTEM))
    await soon((programs.cwd / "begun").exists, running)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert programs.alive() == []


def test_descendants_are_known_after_their_parents_have_ended(programs: Programs) -> None:
    command = programs.shell("./setsid sh -c './$0 1000; :' $0 & ./$0 1000")
    with subprocess.Popen(command.argv, cwd=command.cwd, env=command.env) as process:
        tree = ProcessTree(process.pid)
        eventually(lambda: len(tree.look()) >= 3)
        process.kill()
        process.wait()
        assert len(tree.look()) >= 3
        tree.kill()
        assert tree.look() == []
    assert programs.alive() == []


async def test_short_lived_helpers_are_waited_for(programs: Programs) -> None:
    script = "(sleep 0.1; echo helped) & echo end; sleep 0.05"
    result = await run(programs.shell(script), system=SYSTEM, limits=Limits(settle_s=1000))
    assert result.exit.leftovers == ()
    assert result.output.startswith("end\n")


async def test_what_does_not_start_leaves_nothing(programs: Programs) -> None:
    before = open_descriptors()
    with pytest.raises(ProcessStartError):
        await run(programs.command("/no/such/program"), system=SYSTEM)
    with pytest.raises(YouBenchaError) as caught:
        await run(programs.shell(":", terminal=True), system=SYSTEM)
    assert caught.value.code == "TERMINAL_NOT_AVAILABLE"
    assert open_descriptors() == before


async def test_a_too_long_command_line_is_not_reported_as_a_missing_program(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    class TooLong(FileNotFoundError):
        winerror = 206  # as Windows says it

    def refuse(*_: object, **__: object) -> None:
        raise TooLong(errno.ENOENT, "The filename or extension is too long")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(ProcessStartError) as caught:
        await run(programs.shell(":"), system=SYSTEM)
    assert "too long" in (caught.value.hint or "")


async def test_batch_files_with_arguments_that_cannot_be_passed_on(programs: Programs) -> None:
    with pytest.raises(ProcessStartError) as caught:
        await run(programs.command("claude.cmd", "x" * 8_000, "y" * 200), system=SYSTEM)
    assert caught.value.context["errno"] == errno.E2BIG
    with pytest.raises(ProcessStartError, match="line break"):
        await run(programs.command("claude.cmd", "two\nlines"), system=SYSTEM)


async def test_the_one_variable_that_windows_needs(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYSTEMROOT", r"C:\Windows")
    for env, expected in (({}, r"C:\Windows"), ({"SystemRoot": "mine"}, "mine")):
        result = await run(Command(argv=("/usr/bin/env",), cwd=programs.cwd, env=env), system=SYSTEM)
        shown = dict(line.split("=", 1) for line in result.output.splitlines())
        assert {name.upper(): value for name, value in shown.items()} == {"SYSTEMROOT": expected}


def test_the_line_for_a_batch_file() -> None:
    line = batch_command_line(r"C:\cmd.exe", [r"C:\npm\claude.cmd", "-p", 'say "hi" & calc'])
    assert line == r'''"C:\cmd.exe" /e:ON /v:OFF /d /c ""C:\npm\claude.cmd" -p "say ""hi"" & calc""'''


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
def test_quoting_of_batch_file_arguments(argument: str, quoted: str) -> None:
    assert batch_command_line("cmd", ["x.bat", argument]) == f'"cmd" /e:ON /v:OFF /d /c ""x.bat" {quoted}"'


@given(st.text(st.sampled_from('ab"\\% &'), max_size=12))
def test_quotes_of_a_batch_argument_always_balance(argument: str) -> None:
    """Outside quotes `&` would begin a second command."""
    start, end = '"cmd" /e:ON /v:OFF /d /c ""x.bat" ', '"'
    inside = False
    for character in batch_command_line("cmd", ["x.bat", argument]).removeprefix(start).removesuffix(end):
        inside ^= character == '"'
        assert inside or character not in "& "
    assert not inside


def test_which_files_are_batch_files() -> None:
    names = ("a.cmd", "A.BAT", "a.bat. .", "a.exe", "cmd", "a.cmd.exe")
    assert [name for name in names if is_batch_file(name)] == ["a.cmd", "A.BAT", "a.bat. ."]
