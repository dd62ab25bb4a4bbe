"""A program gets exactly what it was given: arguments, environment, directory, input."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import multiprocessing
import os
import re
import signal
import sys
import threading
from pathlib import Path

import psutil
import pytest
from process_programs import ENV, TRUE, Programs, eventually, open_descriptors

from systems import ON_LINUX, linux_only
from youbencha.process import Command, ProcessStartError, Started, guard, run
from youbencha.process.guard import TAG

AWKWARD = [
    "",
    " two  spaces ",
    "'single' \"double\" `back`",
    "$(touch pwned) ; rm -rf * && exit 3 | $HOME %PATH%",
    "--leading-dashes",
    "-",
    "line\nfeed\r\ttab",
    "back\\slash\\",
    "ünïcödé 漢字 🎉",
    "\udcff\udc80 not UTF-8",
    "*",
    "x" * 100_000,
]


async def test_arguments_arrive_byte_for_byte(programs: Programs) -> None:
    result = await run(programs.python("import sys; print(*map(ascii, sys.argv[2:]), sep='\\n')", *AWKWARD))
    assert result.output.splitlines() == [ascii(argument) for argument in AWKWARD]
    assert not (programs.cwd / "pwned").exists()


@linux_only("`env -0` is not everywhere")
async def test_the_environment_is_the_given_one_and_the_tag(programs: Programs) -> None:
    env = {"A": "1", "EMPTY": "", "ODD": "a=b\nc", "ÜMLAUT": "漢"}
    result = await run(Command(argv=("/usr/bin/env", "-0"), cwd=programs.cwd, env=env))
    shown = dict(entry.split("=", 1) for entry in result.output.split("\0") if entry)
    tag = shown.pop(TAG)
    assert shown == env
    assert len(tag) == 32


async def test_the_working_directory(programs: Programs) -> None:
    assert (await run(programs.shell("pwd -P"))).output == f"{programs.cwd.resolve()}\n"


async def test_a_relative_working_directory_is_the_harness_s(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(programs.cwd)
    (programs.cwd / "below").mkdir()
    result = await run(Command(argv=("/bin/pwd", "-P"), cwd=Path("below"), env=ENV))
    assert result.output == f"{programs.cwd.resolve() / 'below'}\n"


async def test_a_program_is_found_on_its_own_path(programs: Programs) -> None:
    tool = programs.cwd / "my-tool"
    tool.write_text("#!/bin/sh\necho found\n")
    tool.chmod(0o755)
    command = Command(argv=("my-tool",), cwd=Path("/"), env={"PATH": str(programs.cwd)})
    assert (await run(command)).output == "found\n"


@pytest.mark.parametrize("terminal", [False, True])
async def test_stdin_is_empty_by_default(programs: Programs, terminal: bool) -> None:
    result = await run(programs.python("import sys; print(len(sys.stdin.buffer.read()))", terminal=terminal))
    assert result.output == "0\n"


@pytest.mark.parametrize("data", [b"", b"\0\1\2\xff" * 262_144, b"no line feed"])
async def test_stdin_is_exactly_the_given_data(programs: Programs, data: bytes) -> None:
    script = "import sys, hashlib; d = sys.stdin.buffer.read(); print(len(d), hashlib.sha256(d).hexdigest())"
    result = await run(programs.python(script, stdin=data))
    assert result.output == f"{len(data)} {hashlib.sha256(data).hexdigest()}\n"


@linux_only("needs /proc")
async def test_no_other_descriptor_reaches_the_program(programs: Programs) -> None:
    result = await run(programs.shell("ls /proc/$$/fd"))
    assert set(result.output.split()) <= {"0", "1", "2"}


@linux_only("needs /proc")
async def test_signal_handling_is_the_default(programs: Programs) -> None:
    """Neither what our processes ignore nor what the calling thread blocks is passed on."""
    status = (await run(programs.python("print(open('/proc/self/status').read())"))).output
    python_ignores = 1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)
    # What the C library keeps for itself (32, 33) stays ignored for ever below a process that was posix_spawned, as
    # a test worker is from Python 3.13 on.
    of_the_c_library = 1 << 31 | 1 << 32
    assert signals(status, "SigBlk") == 0
    assert signals(status, "SigIgn") & ~python_ignores & ~of_the_c_library == 0


def signals(status: str, which: str) -> int:
    (bits,) = re.findall(rf"{which}:\s*(\w+)", status)
    return int(bits, 16)


@pytest.mark.parametrize("code", [0, 1, 7, 255])
async def test_the_exit_code(programs: Programs, code: int) -> None:
    result = await run(programs.shell(f"exit {code}"))
    assert (result.exit.code, result.exit.signal) == (code, None)
    assert not result.timed_out
    assert not result.stopped


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (signal.SIGSEGV, "SIGSEGV"),
        (signal.SIGKILL, "SIGKILL"),
        pytest.param(40, "SIG40", marks=linux_only("elsewhere there are no real-time signals")),
    ],
)
async def test_a_crash_is_recorded_as_its_signal(programs: Programs, number: int, name: str) -> None:
    result = await run(programs.shell(f"ulimit -c 0; kill -{int(number)} $$"))
    assert (result.exit.code, result.exit.signal) == (None, name)


async def test_resource_usage_is_recorded(programs: Programs) -> None:
    script = "x = b'1' * 80_000_000; n = sum(range(2_000_000))"
    result = await run(programs.python(script))
    assert result.exit.cpu_s is not None
    assert result.exit.cpu_s > 0.01
    assert result.exit.peak_rss_bytes is not None
    assert 80_000_000 < result.exit.peak_rss_bytes < 500_000_000
    assert 0 < result.exit.lifetime_s <= result.ended_at - result.started_at


async def test_the_caller_is_notified_of_the_start(programs: Programs) -> None:
    seen: list[Started] = []
    result = await run(programs.shell("echo $$"), on_start=seen.append)
    assert seen == [Started(int(result.output), "/bin/sh")]


def failing_commands(directory: Path) -> dict[str, Command]:
    (directory / "plain").write_text("#!/bin/sh\n")
    (directory / "garbage").write_bytes(b"\x01\x02\x03")
    (directory / "garbage").chmod(0o755)
    base = {"argv": (TRUE,), "cwd": directory, "env": ENV}
    changes: dict[str, dict[str, object]] = {
        "missing program": {"argv": ("no-such-program",)},
        "missing path": {"argv": (str(directory / "no-such"),)},
        "missing directory": {"cwd": directory / "no-such"},
        "file as directory": {"cwd": directory / "plain"},
        "not executable": {"argv": (str(directory / "plain"),)},
        "a directory": {"argv": (str(directory),)},
        "not a program": {"argv": (str(directory / "garbage"),)},
        "argument too long": {"argv": ("/bin/echo", "x" * (200_000 if ON_LINUX else 5_000_000))},
        "arguments too long": {"argv": ("/bin/echo", *["x" * 100_000] * 100)},
        "NUL in argument": {"argv": ("/bin/echo", "a\0b")},
        "NUL in environment": {"env": {"A": "a\0b"}},
        "illegal name in environment": {"env": {"A=B": "c"}},
        "lone surrogate": {"argv": ("/bin/echo", "\ud800")},
    }
    return {name: Command(**{**base, **change}) for name, change in changes.items()}  # type: ignore[arg-type]


@pytest.mark.parametrize("terminal", [False, True])
async def test_a_program_that_cannot_start_is_explained_and_leaks_nothing(tmp_path: Path, terminal: bool) -> None:
    await run(Command(argv=(TRUE,), cwd=tmp_path, env={}, terminal=terminal))
    before = open_descriptors()
    for name, command in failing_commands(tmp_path).items():
        with pytest.raises(ProcessStartError, match="Cannot start") as caught:
            await run(command._replace(terminal=terminal))
        assert caught.value.code == "PROCESS_START_FAILED", name
        assert caught.value.hint, name
        assert "by hand" not in caught.value.hint, name
    await run(Command(argv=(TRUE,), cwd=tmp_path, env={}))  # leaves a guard ready again, as before
    assert open_descriptors() == before


async def test_running_out_of_descriptors_is_explained(tmp_path: Path) -> None:
    import resource

    await run(Command(argv=(TRUE,), cwd=tmp_path, env={}))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, open_descriptors()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest, hard))
    held = []
    try:
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass
    try:
        with pytest.raises(ProcessStartError, match="Too many open files"):
            await run(Command(argv=(TRUE,), cwd=tmp_path, env={}))
    finally:
        for fd in held:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def guards_of(harness: psutil.Process) -> set[int]:
    """What the fork server has started; a worker that ran other tests before may have other children too."""
    fork_servers = [child for child in harness.children() if guard.__file__ in child.cmdline()]
    assert len(fork_servers) == 1
    return {child.pid for child in fork_servers[0].children()}


def zombies_of(me: psutil.Process) -> list[psutil.Process]:
    found = []
    for child in me.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if child.status() == psutil.STATUS_ZOMBIE:
                found.append(child)
    return found


async def test_many_runs_leak_nothing(programs: Programs) -> None:
    await run(programs.shell(":"))
    before = open_descriptors()
    me = psutil.Process()
    children = {child.pid for child in me.children()}
    guards = guards_of(me)
    threads = threading.active_count()
    for number in range(100):
        result = await run(programs.shell("echo $1", str(number), terminal=number % 10 == 0))
        assert result.output == f"{number}\n"
    assert open_descriptors() == before
    assert {child.pid for child in me.children()} == children
    eventually(lambda: len(guards_of(me) - guards) <= 1, "more than the one guard that waits for the next program")
    eventually(lambda: not zombies_of(me), "a process that has ended was not reaped")
    assert threading.active_count() == threads


async def test_concurrent_runs_do_not_mix(programs: Programs) -> None:
    script = 'i=0; while [ $i -lt 200 ]; do echo "$1 $i"; i=$((i+1)); done; exit "$1"'
    results = await asyncio.gather(*(run(programs.shell(script, str(n), terminal=n % 2 == 1)) for n in range(8)))
    for number, result in enumerate(results):
        assert result.exit.code == number
        assert result.output == "".join(f"{number} {line}\n" for line in range(200))


def run_in_own_loop(directory: Path) -> str:
    return asyncio.run(run(Command(argv=("/bin/echo", "hello"), cwd=directory, env=ENV))).output


def test_consecutive_event_loops(tmp_path: Path) -> None:
    assert [run_in_own_loop(tmp_path) for _ in range(3)] == ["hello\n"] * 3


def test_threads_with_their_own_loops(tmp_path: Path) -> None:
    outputs: list[str] = []
    threads = [threading.Thread(target=lambda: outputs.append(run_in_own_loop(tmp_path))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outputs == ["hello\n"] * 6


def _report_from_fork(directory: Path, answers: multiprocessing.Queue[tuple[str, int]]) -> None:
    output = run_in_own_loop(directory)
    answers.put((output, len(psutil.Process().children())))


@pytest.mark.skipif(sys.platform == "darwin", reason="fork without exec is not safe there")
def test_a_forked_harness_has_its_own_fork_server(tmp_path: Path) -> None:
    run_in_own_loop(tmp_path)
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_report_from_fork, args=(tmp_path, answers))
    child.start()
    assert answers.get(timeout=60) == ("hello\n", 1)
    child.join()
    assert run_in_own_loop(tmp_path) == "hello\n"


async def test_a_signal_without_a_name(programs: Programs) -> None:
    result = await run(programs.shell("kill -40 $$"))
    assert (result.exit.code, result.exit.signal, result.exit.shell_code) == (None, "SIG40", 168)
