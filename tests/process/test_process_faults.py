"""Guard and fork server may be killed, stopped or forked themselves. No process survives because of it."""

from __future__ import annotations

import asyncio
import os
import signal

import psutil
import pytest
from process_programs import NEEDS_A_SHELL, NO_ADOPTION, Programs, eventually, soon

from systems import linux_only
from youbencha.process import Limits, ProcessStartError, run

pytestmark = NEEDS_A_SHELL

DETACHED = "./setsid sh -c 'trap \"\" TERM; ./$0 1000; :' $0 & env -i ./setsid sh -c './$0 1000; :' $0 & "


@linux_only(NO_ADOPTION)
async def test_killing_the_guard_ends_the_tree(programs: Programs) -> None:
    result = await run(programs.shell(DETACHED + "echo said before; kill -KILL $PPID; ./$0 1000"))
    assert result.exit.guard_lost
    assert (result.exit.signal, result.exit.shell_code, result.output) == ("SIGKILL", 137, "said before\n")
    assert programs.alive() == []
    assert (await run(programs.shell("echo fine"))).output == "fine\n"


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "QUIT"])
async def test_guard_and_fork_server_ignore_other_signals(programs: Programs, name: str) -> None:
    """An agent may clean up with `pkill python`."""
    script = f"kill -{name} $PPID $(./ppid $PPID); echo lives; exit 3"
    result = await run(programs.shell(script))
    assert (result.output, result.exit.code) == ("lives\n", 3)


def has_died(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


async def test_a_killed_fork_server_is_replaced(programs: Programs) -> None:
    result = await run(programs.shell("server=$(./ppid $PPID); kill -KILL $server; echo $server; exit 5"))
    assert result.exit.code == 5
    server = int(result.output)
    await soon(lambda: has_died(server))  # a kill takes effect later on a busy machine
    assert (await run(programs.shell("echo again"))).output == "again\n"
    assert not psutil.pid_exists(server)


@linux_only(NO_ADOPTION)
async def test_the_deadline_holds_with_fork_server_and_guard_killed(programs: Programs) -> None:
    """The tree is not adopted then: the tag and the session find it."""
    script = "./setsid sh -c './$0 1000; :' $0 & kill -KILL $(./ppid $PPID) $PPID; ./$0 1000"
    result = await run(programs.shell(script), limits=Limits(timeout_s=60))
    assert result.exit.guard_lost
    assert programs.alive() == []


@linux_only(NO_ADOPTION)
@pytest.mark.parametrize("name", ["STOP", "TSTP"])
async def test_a_stopped_guard_is_continued(programs: Programs, name: str) -> None:
    script = DETACHED + f"kill -{name} $PPID; ./$0 1000"
    result = await run(programs.shell(script), limits=Limits(timeout_s=0.5, grace_s=0.2))
    assert result.timed_out
    assert programs.alive() == []


async def test_a_stopped_guard_without_a_fork_server_cannot_save_the_agent(programs: Programs) -> None:
    """The last resort: the harness kills the guard, and finds by tag and session what it guarded."""
    script = "while [ ! -e go ]; do sleep 0.01; done; kill -KILL $(./ppid $PPID); kill -STOP $PPID; touch done; "
    stop = asyncio.Event()

    async def stop_when_done() -> None:
        await soon((programs.cwd / "done").exists)
        stop.set()

    stopping = asyncio.create_task(stop_when_done())
    result = await run(
        programs.shell(script + "./setsid ./$0 1000 & ./$0 1000"),
        on_start=lambda _: (programs.cwd / "go").touch(),
        stop=stop,
        limits=Limits(grace_s=0.1),
    )
    await stopping
    assert result.stopped
    assert (result.exit.code, result.exit.signal) == (None, "SIGKILL")
    assert result.exit.lifetime_s > 0
    assert programs.alive() == []


STOPPING_HARNESS = """
import asyncio, sys
from pathlib import Path
from youbencha.process import Command, run
script = 'kill -STOP $PPID; echo ready; ./$0 1000'
command = Command(argv=('/bin/sh', '-c', script, sys.argv[1]), cwd=Path('.'), env={'PATH': '/bin:/usr/bin'})
asyncio.run(run(command, on_line=lambda line: print('ready', flush=True)))
"""


def test_a_stopped_guard_notices_the_end_of_the_harness(programs: Programs) -> None:
    with programs.harness(STOPPING_HARNESS) as harness:
        assert harness.stdout
        assert harness.stdout.readline() == b"ready\n"
        harness.kill()
        harness.wait()
    eventually(lambda: not programs.alive())


@linux_only(NO_ADOPTION)
async def test_other_runs_continue_when_one_guard_is_killed(programs: Programs) -> None:
    other = asyncio.create_task(run(programs.shell("while [ ! -e go ]; do sleep 0.01; done; echo whole")))
    lost = await run(programs.shell(DETACHED + "kill -KILL $PPID; ./$0 1000"))
    assert lost.exit.guard_lost
    assert len(programs.alive()) >= 1
    (programs.cwd / "go").touch()
    assert (await other).output == "whole\n"


FORKING_HARNESS = """
import asyncio, os, signal, sys
from pathlib import Path
from youbencha.process import Command, run
argv = ('/bin/sh', '-c', 'echo ready; ./$0 1000', sys.argv[1])
command = Command(argv=argv, cwd=Path('.'), env={'PATH': '/bin:/usr/bin'})
def on_line(line):
    pid = os.fork()
    if pid == 0:
        signal.pause()
    print(pid, flush=True)
asyncio.run(run(command, on_line=on_line))
"""


def test_a_fork_of_the_harness_does_not_keep_the_agent_alive(programs: Programs) -> None:
    with programs.harness(FORKING_HARNESS) as harness:
        assert harness.stdout
        fork = int(harness.stdout.readline())
        try:
            harness.kill()
            harness.wait()
            eventually(lambda: not [line for line in programs.alive() if " 1000" in line], "the fork holds the line")
        finally:
            os.kill(fork, signal.SIGKILL)


async def ready_fork_server(programs: Programs) -> psutil.Process:
    """With a guard that waits for the next program."""
    used = int((await run(programs.shell("echo $PPID"))).output)
    living = [child for child in psutil.Process().children() if not has_died(child.pid)]
    (fork_server,) = [child for child in living if "guard.py" in " ".join(child.cmdline())]
    eventually(lambda: [guard for guard in fork_server.children() if guard.pid != used])
    return fork_server


async def test_a_fork_server_killed_with_a_request_unread_is_replaced(programs: Programs) -> None:
    fork_server = await ready_fork_server(programs)
    fork_server.suspend()
    await run(programs.shell(":"))  # by the guard that was ready; the wish for the next one stays unread
    fork_server.kill()
    eventually(lambda: fork_server.status() == psutil.STATUS_ZOMBIE)
    assert (await run(programs.shell("echo again"))).output == "again\n"


async def test_a_fork_server_that_does_not_answer_is_replaced(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    from youbencha.process import posix  # not on Windows

    fork_server = await ready_fork_server(programs)
    fork_server.suspend()
    await run(programs.shell(":"))  # by the guard that was ready
    with monkeypatch.context() as impatient:
        impatient.setattr(posix, "_START_TIMEOUT_S", 0.2)
        with pytest.raises(ProcessStartError, match="does not answer"):
            await run(programs.shell(":"))
    assert not fork_server.is_running()
    assert (await run(programs.shell("echo again"))).output == "again\n"
