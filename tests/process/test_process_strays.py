"""Without a subreaper (macOS), the tree is found by descent, session and tag."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from process_programs import NO_ADOPTION, Programs

from systems import linux_only
from youbencha.process import Limits, guard, posix, run

WITHOUT_ADOPTION = f"""
import runpy, socket, sys
sys.argv.pop(0)
import importlib.util
spec = importlib.util.spec_from_file_location("guard", {guard.__file__!r})
guard = importlib.util.module_from_spec(spec)
spec.loader.exec_module(guard)
guard.become_subreaper = lambda: False
guard.ForkServer(socket.socket(fileno=int(sys.argv[0]))).serve()
"""


@pytest.fixture(autouse=True)
def _as_on_macos(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path_factory.mktemp("guard") / "guard_without_subreaper.py"
    script.write_text(WITHOUT_ADOPTION)
    monkeypatch.setattr(posix, "_GUARD_PROGRAM", str(script))
    fresh = posix.ForkServerClient()
    monkeypatch.setattr(posix, "_fork_server", lambda: fresh)


ORPHANS = {
    "in the session": "(sh -c './$0 1000; :' $0 &); ",
    "in a session of its own": "(./setsid sh -c './$0 1000; :' $0 &); ",
    "in the session, without environment": "(env -i sh -c './$0 1000; :' $0 &); ",
    "deaf": "(./setsid sh -c 'trap \"\" TERM; ./$0 1000; :' $0 &); ",
}

EACH_ORPHAN = pytest.mark.parametrize(
    "orphan",
    [pytest.param(name, marks=[linux_only(NO_ADOPTION)] if "setsid" in ORPHANS[name] else []) for name in ORPHANS],
)


async def test_the_subreaper_is_disabled(programs: Programs) -> None:
    """An orphan of a short-lived parent goes to process 1 (or to another subreaper), not to the guard."""
    script = "(sh -c 'while [ ! -e go ]; do sleep 0.01; done; ./ppid $$ > parent; touch done' $0 &); "
    result = await run(
        programs.shell(script + "sleep 0.2; touch go; while [ ! -e done ]; do sleep 0.01; done; echo $PPID")
    )
    assert int((programs.cwd / "parent").read_text()) != int(result.output)


@EACH_ORPHAN
async def test_orphans_are_found_at_the_deadline(programs: Programs, orphan: str) -> None:
    result = await run(programs.shell(ORPHANS[orphan] + "./$0 1000"), limits=Limits(timeout_s=0.5, grace_s=0.2))
    assert result.timed_out
    assert programs.alive() == []


@EACH_ORPHAN
async def test_orphans_are_found_after_a_normal_end(programs: Programs, orphan: str) -> None:
    result = await run(programs.shell(ORPHANS[orphan] + "echo end"))
    assert result.output == "end\n"
    assert len(result.exit.leftovers) >= 1
    assert programs.alive() == []


async def test_a_run_without_orphans(programs: Programs) -> None:
    result = await run(programs.shell("echo fine; exit 3"))
    assert (result.output, result.exit.code, result.exit.leftovers) == ("fine\n", 3, ())


async def test_concurrent_runs_do_not_end_each_other(programs: Programs) -> None:
    slow = asyncio.create_task(
        run(programs.shell("(./setsid sh -c 'sleep 0.5; echo orphan' $0 &); sleep 1; echo slow"))
    )
    await run(programs.shell("echo quick"))
    assert (await slow).output == "orphan\nslow\n"


def test_the_guard_imports_nothing_of_the_package() -> None:
    """It is run by path, so importing it must not import the package around it."""
    assert (
        "youbencha"
        not in Path(guard.__file__).read_text().replace("youbencha-", "").split("import ", 1)[1].split("HEADER")[0]
    )
