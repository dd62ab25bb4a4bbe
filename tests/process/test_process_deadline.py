"""At the deadline the whole tree is ended; on an ordinary machine, the caller has its result within a second."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest
from process_programs import (
    NEEDS_A_SHELL,
    NO_ADOPTION,
    PATIENCE_S,
    Programs,
    assert_in_time,
    eventually,
    open_descriptors,
    run_into_deadline,
    soon,
)

from systems import linux_only
from youbencha.process import Command, Exit, Limits, disks, run
from youbencha.process.guard import program_path

pytestmark = [NEEDS_A_SHELL, pytest.mark.repeat(5)]

# Each is a program that starts something which would rather live on. $0 / argv[1] carries the mark.
ESCAPES = {
    "the program itself": "exec ./$0 1000",
    "a child": "./$0 1000 & wait",
    "a grandchild": "sh -c 'sh -c \"./$0 1000 & wait\" $0 & wait' $0",
    "its own session": "./setsid sh -c './$0 1000; :' $0 & wait",
    "its own session, not waited for": "./setsid sh -c './$0 1000; :' $0 & ./$0 1000",
    "double fork": "(./setsid sh -c '(./$0 1000; :) & ' $0 &) ; ./$0 1000",
    "ignores SIGTERM": "trap '' TERM; while :; do ./$0 1000; done",
    "a family that ignores SIGTERM": "trap '' TERM HUP; ./setsid sh -c 'while :; do ./$0 1; done' $0 & wait; ./$0 1000",
    "stopped": "sh -c 'kill -STOP $$; :' $0 & wait",
    "stopped, ignoring SIGTERM": "trap '' TERM; sh -c 'kill -STOP $$; :' $0 & wait; ./$0 1000",
    "without environment": "env -i ./setsid sh -c './$0 1000; :' $0 & wait",
    "answers SIGTERM with children": "trap './setsid sh -c \"./$0 1000; :\" $0 & ' TERM; while :; do sleep 0.05; done",
}


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize(
    "escape",
    [pytest.param(name, marks=[linux_only(NO_ADOPTION)] if name == "double fork" else []) for name in ESCAPES],
)
async def test_nothing_survives_the_deadline(programs: Programs, escape: str, terminal: bool) -> None:
    command = programs.shell("echo begun; " + ESCAPES[escape], terminal=terminal)
    result, late = await run_into_deadline(command, Limits(timeout_s=0.3, grace_s=0.2), "begun\n")
    assert programs.alive() == []
    assert result.timed_out
    assert not result.stopped
    assert not result.exit.exited_on_its_own
    assert result.output.startswith("begun\n")
    assert_in_time(late)


async def test_an_exit_not_reported_in_time_counts_as_a_kill(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a machine that is too busy: the caller does not wait for the report."""
    monkeypatch.setattr(sys.modules["youbencha.process.run"], "_KILL_MARGINS_S", (0, 0))
    command = programs.shell("trap '' TERM; while :; do ./$0 1000; done")
    result = await run(command, limits=Limits(timeout_s=0.1, grace_s=0))
    assert (result.exit.code, result.exit.signal, result.timed_out) == (None, "SIGKILL", True)
    await soon(lambda: programs.alive() == [])


async def test_the_deadline_with_the_usual_grace(programs: Programs) -> None:
    result, late = await run_into_deadline(
        programs.shell("trap '' TERM; echo deaf; ./$0 1000 & wait; ./$0 1000"), Limits(timeout_s=0.2), "deaf\n"
    )
    assert programs.alive() == []
    assert (result.exit.code, result.exit.signal) == (None, "SIGKILL")
    assert_in_time(late)


async def test_the_program_may_write_output_on_sigterm(programs: Programs) -> None:
    script = """
import os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b"last words\\n"), sys.exit(9)))
os.write(1, b"ready\\n")  # not print: the signal may come while that is still at it, and print inside print fails
signal.pause()
"""
    stop = asyncio.Event()
    result = await run(programs.python(script), stop=stop, on_line=lambda _: stop.set(), limits=Limits(grace_s=20))
    assert result.output == "ready\nlast words\n"
    assert result.exit.code == 9
    assert result.exit.leftovers == ()


async def test_a_stopped_process_may_write_output_too(programs: Programs) -> None:
    script = """
import os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b"last words\\n"), sys.exit()))
os.write(1, b"ready\\n")
os.kill(os.getpid(), signal.SIGSTOP)
"""
    stop = asyncio.Event()
    limits = Limits(grace_s=20)
    result = await run(
        programs.python(script + "signal.pause()"), stop=stop, on_line=lambda _: stop.set(), limits=limits
    )
    assert result.output == "ready\nlast words\n"


@pytest.mark.parametrize("terminal", [False, True])
async def test_output_before_the_deadline_is_complete(programs: Programs, tmp_path: Path, terminal: bool) -> None:
    """A file is the witness, not what was captured: a deadline may come too early, but nothing may be lost."""
    said = tmp_path / "said"
    script = f"import time, pathlib; print('spoken ' * 20_000, flush=True); pathlib.Path({str(said)!r}).touch()"
    command = programs.python(f"{script}; time.sleep(1000)", terminal=terminal)
    for timeout_s in (0.3, 3, 30):
        result = await run(command, limits=Limits(timeout_s=timeout_s, grace_s=0.2))
        if said.exists():
            break
    assert result.timed_out
    assert result.output.count("spoken") == 20_000


BOMB = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(6):
    if os.fork() == 0:
        os.setsid()
time.sleep(1000)
"""


async def test_a_small_fork_bomb(programs: Programs) -> None:
    """64 processes, each in a session of its own, deaf to SIGTERM."""
    result, late = await run_into_deadline(programs.python(BOMB), Limits(timeout_s=0.5))
    assert programs.alive() == []
    assert result.timed_out
    assert_in_time(late)


class SlowSystem:
    """Stands in for a very busy machine, on which a tree ends long after the grace time."""

    pid = None
    sources = ()
    was_killed = False

    def __init__(self) -> None:
        self.is_gone = asyncio.Event()

    async def spawn(self, command: Command, limits: Limits) -> SlowSystem:
        return self

    async def wait(self) -> Exit:
        await self.is_gone.wait()
        return Exit(code=4, signal=None, lifetime_s=0.0, exited_on_its_own=True)

    def end(self) -> None:
        asyncio.get_running_loop().call_later(1.0, self.is_gone.set)

    async def kill(self) -> None:
        self.was_killed = True

    def warm_up(self) -> None: ...
    def close(self) -> None: ...


async def test_the_result_waits_for_a_tree_that_ends_slowly(programs: Programs) -> None:
    """What still runs would change the files that are compared next."""
    system = SlowSystem()
    result = await run(programs.shell("unused"), limits=Limits(timeout_s=0, grace_s=0), system=system)
    assert system.is_gone.is_set()
    assert not system.was_killed, "how the program ended would be lost"
    assert (result.exit.code, result.timed_out) == (4, False)


@linux_only(NO_ADOPTION)
async def test_leftovers_of_a_normal_end_are_ended_and_counted(programs: Programs) -> None:
    script = "for i in 1 2 3; do ./setsid sh -c './$0 1000' $0 & done; echo done; exit 4"
    result = await run(programs.shell(script))
    assert programs.alive() == []
    assert result.exit.code == 4
    assert len(result.exit.leftovers) >= 3
    assert all(os.path.isabs(program) for program in result.exit.leftovers)
    assert not result.timed_out
    assert result.output == "done\n"


async def test_short_lived_helpers_are_waited_for(programs: Programs, tmp_path: Path) -> None:
    """However long it may take: it is back as soon as the helper is."""
    done = tmp_path / "done"
    script = (
        f"(while ! [ -e '{tmp_path}/go' ]; do sleep 0.02; done; echo helped; : > '{done}') & "
        f"echo end; : > '{tmp_path}/go'"
    )
    result = await run(programs.shell(script), limits=Limits(settle_s=1000))
    assert (result.exit.code, result.exit.leftovers) == (0, ())
    assert result.output == "end\nhelped\n"
    assert done.exists()


async def test_a_deadline_after_the_programs_exit_is_not_a_timeout(programs: Programs) -> None:
    result = await run(programs.shell("./$0 1000 & exit 4"), limits=Limits(timeout_s=3, settle_s=1000))
    assert programs.alive() == []
    assert (result.exit.code, result.timed_out, len(result.exit.leftovers)) == (4, False, 1)
    assert result.duration_s < 3, "our waiting is none of its time"


async def test_stop_ends_the_wait_for_helpers(programs: Programs) -> None:
    stop = asyncio.Event()
    script = "(trap '' TERM; while kill -0 $$ 2>/dev/null; do sleep 0.02; done; echo alone; ./$0 1000) & exit 4"
    result = await run(programs.shell(script), limits=Limits(settle_s=1000), stop=stop, on_line=lambda _: stop.set())
    assert programs.alive() == []
    assert (result.exit.code, result.output, result.stopped) == (4, "alone\n", False)  # it had ended before
    assert result.exit.exited_on_its_own
    assert result.exit.leftovers


@linux_only("a process that has ended and was not reaped")
def test_a_process_that_ends_meanwhile_is_not_a_leftover() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    assert child.stdin is not None
    eventually(lambda: program_path(psutil.Process(child.pid)) == os.path.realpath(sys.executable))
    looked_at = psutil.Process(child.pid)
    child.stdin.close()
    eventually(lambda: looked_at.status() == psutil.STATUS_ZOMBIE)
    assert program_path(psutil.Process(child.pid)) is None
    child.wait()
    assert program_path(looked_at) is None


async def test_a_grandchild_with_open_stdout_causes_no_delay(programs: Programs) -> None:
    result = await run(
        programs.shell("sh -c 'trap \"\" TERM; while :; do ./$0 1; done' $0 & echo end"), limits=Limits(timeout_s=300)
    )
    assert result.output == "end\n"
    assert not result.timed_out
    assert programs.alive() == []


async def test_stop_ends_the_program_early(programs: Programs) -> None:
    stop = asyncio.Event()
    result = await run(
        programs.shell("echo ready; ./$0 1000 & wait"),
        limits=Limits(timeout_s=600),
        stop=stop,
        on_line=lambda _: stop.set(),
    )
    assert result.stopped
    assert not result.timed_out
    assert result.exit.signal == "SIGTERM"
    assert programs.alive() == []


async def test_a_stop_set_before_the_start(programs: Programs) -> None:
    stop = asyncio.Event()
    stop.set()
    assert (await run(programs.shell("./$0 1000"), stop=stop)).stopped


async def test_a_cancelled_run_ends_the_tree_and_keeps_the_log(programs: Programs) -> None:
    log = programs.cwd / "output.log"
    task = asyncio.create_task(run(programs.shell("printf 'half a l'; ./setsid ./$0 1000 & ./$0 1000"), log_file=log))
    await soon(lambda: log.exists() and log.read_bytes(), task)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert programs.alive() == []
    assert log.read_bytes() == b"half a l"
    assert str(log) not in {file.path for file in psutil.Process().open_files()}


async def test_a_run_cancelled_at_any_moment_leaves_nothing(programs: Programs) -> None:
    await run(programs.shell("exit 0"))  # the fork server and its next guard stay
    before = open_descriptors()
    for step in range(25):
        task = asyncio.create_task(run(programs.shell("exec ./$0 1000")))
        for _ in range(step):
            await asyncio.sleep(0)
        await asyncio.sleep(step / 5000)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert programs.alive() == []
    assert len(open_descriptors()) <= len(before)


async def test_a_cancel_during_termination(programs: Programs) -> None:
    task = asyncio.create_task(run(programs.shell("trap '' TERM; echo x; ./$0 1000 & wait; ./$0 1000")))
    await asyncio.sleep(0.2)
    task.cancel()
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    eventually(lambda: not programs.alive())


HARNESS = """
import asyncio, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background ignores it, and so would we
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from pathlib import Path
from youbencha.process import Command, run
script = "trap '' TERM; ./setsid env -i sh -c 'trap \\"\\" TERM; ./$0 1000; :' $0 & echo ready; ./$0 1000; :"
command = Command(argv=('/bin/sh', '-c', script, sys.argv[1]), cwd=Path('.'), env={'PATH': '/bin:/usr/bin'})
def on_line(line):
    import psutil
    print(*[p.pid for p in psutil.Process().children(recursive=True)], flush=True)
async def main():
    await asyncio.gather(run(command, on_line=on_line), run(command))
try:
    asyncio.run(main())
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGKILL"])
def test_the_tree_dies_with_the_harness(programs: Programs, name: str) -> None:
    """The agents, their guards and the fork server."""
    with programs.harness(HARNESS) as harness:
        assert harness.stdout
        family = list(map(int, harness.stdout.readline().split()))
        assert len(family) >= 4
        harness.send_signal(signal.Signals[name])
        harness.wait()
    eventually(lambda: not any(map(is_alive, family)), "our own processes live on")
    eventually(lambda: not programs.alive(), "the agent lives on")


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def test_a_hanging_file_system_does_not_delay_deadlines(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a home directory on a network that is down: here, a check of the free space that does not return."""
    network_is_back = threading.Event()

    def hang(directory: Path) -> disks.FreeSpace:
        network_is_back.wait(2 * PATIENCE_S)
        return disks.FreeSpace(0, 0, full=False)

    monkeypatch.setattr(disks, "free_space", hang)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.01)

    ticking = asyncio.create_task(tick())
    try:
        async with asyncio.timeout(PATIENCE_S):
            result = await run(programs.shell("exec ./$0 1000"), limits=Limits(timeout_s=0.3, grace_s=0.2))
    finally:
        network_is_back.set()
        ticking.cancel()
    assert result.timed_out
    assert ticks > 10
    assert programs.alive() == []
