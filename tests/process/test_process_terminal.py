"""With a terminal, a program sees one, and nothing of its output is lost."""

from __future__ import annotations

import time

from process_programs import NEEDS_A_SHELL, Programs

from youbencha.process import Limits, run

pytestmark = NEEDS_A_SHELL

LOOK = """
import os, sys
print(*[os.isatty(fd) for fd in (0, 1, 2)])
print(os.get_terminal_size(1))
print(os.getsid(0) == os.getpid(), os.tcgetpgrp(1) == os.getpgrp())
with open('/dev/tty', 'w') as terminal:
    print('to the terminal', file=terminal)
print('to stderr', file=sys.stderr)
sys.exit(6)
"""


async def test_a_program_sees_its_terminal(programs: Programs) -> None:
    result = await run(programs.python(LOOK, terminal=True))
    assert result.output.splitlines() == [
        "False True True",
        "os.terminal_size(columns=65535, lines=50)",
        "True True",
        "to the terminal",
        "to stderr",
    ]
    assert result.exit.code == 6


async def test_no_terminal_by_default(programs: Programs) -> None:
    result = await run(programs.shell("test -t 1 || echo none; ( : < /dev/tty ) 2> /dev/null || echo none either"))
    assert result.output == "none\nnone either\n"


async def test_five_megabytes_through_a_terminal(programs: Programs) -> None:
    """Written and left at once: the end comes before we have read it."""
    script = "import sys; sys.stdout.write(''.join(f'{n:015d}\\n' for n in range(327_680)))"
    result = await run(programs.python(script, terminal=True))
    assert result.output == "".join(f"{n:015d}\n" for n in range(327_680))
    assert result.exit.code == 0


async def test_a_program_that_closes_its_terminal_and_continues(programs: Programs) -> None:
    """At its end a terminal is readable for ever: waiting for it must not become a busy loop."""
    busy, began = time.process_time(), time.monotonic()
    result = await run(programs.shell("echo before; exec > /dev/null 2>&1; ./$0 2; exit 2", terminal=True))
    assert (result.output, result.exit.code) == ("before\n", 2)
    assert time.process_time() - busy < 0.6 * (time.monotonic() - began)


async def test_lines_of_a_terminal(programs: Programs) -> None:
    lines: list[bytes] = []
    await run(programs.shell("echo a; echo b >&2", terminal=True), on_line=lines.append)
    assert lines == [b"a", b"b"]


async def test_a_flood_through_a_terminal_ends_at_the_deadline(programs: Programs) -> None:
    result = await run(programs.shell('exec yes "$0"', terminal=True), limits=Limits(timeout_s=0.5))
    assert result.timed_out
    assert result.total_bytes > 1_000_000
