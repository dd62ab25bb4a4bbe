"""Output is complete up to its limit, in the result and in the log file, while the program runs."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from process_programs import NEEDS_A_SHELL, Programs, assert_in_time, run_into_deadline, soon

from systems import linux_only
from youbencha.errors import YouBenchaError
from youbencha.process import OUTPUT_LIMIT_BYTES, TRUNCATION_MARK, Limits, Redactor, run

pytestmark = NEEDS_A_SHELL

WRITE_BYTES = """
import os, sys
left, unit = int(sys.argv[2]), b'0123456789abcde\\n' * 4096
while left:
    left -= os.write(1 + left // len(unit) % 2, unit[:left])
open('finished', 'w').close()
"""


async def test_output_up_to_the_limit_is_complete(programs: Programs) -> None:
    log = programs.cwd / "output.log"
    result = await run(programs.python(WRITE_BYTES, str(OUTPUT_LIMIT_BYTES)), log_file=log)
    assert not result.truncated
    assert len(result.output) == log.stat().st_size == result.total_bytes == OUTPUT_LIMIT_BYTES
    assert log.read_text() == result.output
    assert TRUNCATION_MARK not in result.output


async def test_output_beyond_the_limit_is_cut_marked_and_does_not_stop_the_program(programs: Programs) -> None:
    log = programs.cwd / "output.log"
    result = await run(programs.python(WRITE_BYTES, str(OUTPUT_LIMIT_BYTES + 5_000_001)), log_file=log)
    kept, mark, _ = result.output.partition("\n" + TRUNCATION_MARK)
    assert result.truncated
    assert len(kept.encode()) == OUTPUT_LIMIT_BYTES
    assert mark
    assert result.total_bytes == OUTPUT_LIMIT_BYTES + 5_000_001
    assert result.exit.code == 0
    assert (programs.cwd / "finished").exists()
    assert log.read_bytes() == result.output.encode()


async def test_one_byte_too_many(programs: Programs) -> None:
    exactly = await run(programs.shell("printf 12345"), limits=Limits(output_bytes=5))
    beyond = await run(programs.shell("printf 123456"), limits=Limits(output_bytes=5))
    assert exactly.output == "12345"
    assert beyond.output.startswith(f"12345\n{TRUNCATION_MARK}")


async def test_the_end_of_a_long_output_is_kept_beside_its_beginning(programs: Programs) -> None:
    result = await run(
        programs.shell("seq 1000000; echo LAST-secret-LINE"),
        redactor=Redactor(["secret"]),
        limits=Limits(output_bytes=1000),
    )
    assert result.end is not None
    assert result.end.text.endswith("\n999999\n1000000\nLAST-[REDACTED]-LINE\n")
    assert result.total_bytes == 1000 + result.end.left_out_bytes + 256 * 1024
    assert result.last_output == result.end.text


async def test_nothing_is_twice_in_the_beginning_and_the_end(programs: Programs) -> None:
    result = await run(programs.shell("printf 12345; printf 678"), limits=Limits(output_bytes=5))
    assert result.end is not None
    assert (result.end.text, result.end.left_out_bytes) == ("678", 0)
    assert (await run(programs.shell("printf 12345"), limits=Limits(output_bytes=5))).end is None


async def test_half_a_secret_is_not_at_the_start_of_the_end(programs: Programs) -> None:
    """Wherever the end begins: it may be in the middle of a secret."""
    secret = "s" + "0123456789abcdef" * 8
    for length in range(0, 131, 26):
        script = f"i=0; while [ $i -lt 9000 ]; do echo {secret}; i=$((i+1)); done; printf %{length + 1}s x"
        result = await run(programs.shell(script), redactor=Redactor([secret]), limits=Limits(output_bytes=1000))
        assert result.end is not None
        assert "0123" not in result.end.text


async def test_both_streams_arrive_line_by_line(programs: Programs) -> None:
    result = await run(programs.shell("i=0; while [ $i -lt 500 ]; do echo out$i; echo err$i >&2; i=$((i+1)); done"))
    lines = result.output.splitlines()
    assert [line for line in lines if line.startswith("out")] == [f"out{n}" for n in range(500)]
    assert [line for line in lines if line.startswith("err")] == [f"err{n}" for n in range(500)]


async def test_split_characters_and_invalid_bytes(programs: Programs) -> None:
    script = """
import os, time
for byte in '漢🎉é'.encode():
    os.write(1, bytes([byte]))
    time.sleep(0.01)
os.write(1, b' \\xff\\xfe \\xf0\\x9f')
"""
    log = programs.cwd / "output.log"
    result = await run(programs.python(script), log_file=log)
    assert result.output == "漢🎉é \ufffd\ufffd \ufffd"
    assert log.read_bytes() == "漢🎉é".encode() + b" \xff\xfe \xf0\x9f"


async def test_the_log_grows_while_the_program_runs(programs: Programs) -> None:
    """The program goes on only once the test has seen its line in the log file."""
    log = programs.cwd / "logs" / "output.log"
    running = asyncio.create_task(
        run(programs.shell("echo first; while [ ! -e seen ]; do sleep 0.01; done; echo second"), log_file=log)
    )
    await soon(lambda: log.exists() and log.read_bytes() == b"first\n", running)
    (programs.cwd / "seen").touch()
    assert (await running).output == "first\nsecond\n"
    assert log.read_bytes() == b"first\nsecond\n"


async def test_lines_are_passed_on_while_the_program_runs(programs: Programs) -> None:
    lines: list[bytes] = []

    def on_line(line: bytes) -> None:
        lines.append(line)
        (programs.cwd / "seen").touch()

    script = "echo one; while [ ! -e seen ]; do sleep 0.01; done; echo err >&2; echo; printf unfinished"
    await run(programs.shell(script), on_line=on_line)
    assert lines == [b"one", b"", b"unfinished"]


async def test_a_failing_line_callback_ends_the_program(programs: Programs) -> None:
    def on_line(line: bytes) -> None:
        raise ValueError(f"cannot read {line!r}")

    with pytest.raises(ValueError, match="cannot read b'x'"):
        await run(programs.shell("echo x; sleep 1000"), on_line=on_line)
    assert not programs.alive()


async def test_lines_continue_after_the_output_limit(programs: Programs) -> None:
    lines: list[bytes] = []
    await run(programs.shell("seq 1 20000"), limits=Limits(output_bytes=10), on_line=lines.append)
    assert lines == [str(n).encode() for n in range(1, 20001)]


async def test_secrets_are_masked_in_what_is_written_and_not_in_what_is_parsed(programs: Programs) -> None:
    secret, lines, log = "pa55-w0rd-of-mine", list[bytes](), programs.cwd / "output.log"
    script = "import sys, time\nfor c in sys.argv[2]: print(c, end='', flush=True); time.sleep(0.005)\nprint('!')"
    result = await run(programs.python(script, secret), redactor=Redactor([secret]), on_line=lines.append, log_file=log)
    assert result.output == "[REDACTED]!\n" == log.read_text()
    assert lines == [f"{secret}!".encode()]
    assert result.printed == f"{secret}!\n"


async def test_a_log_that_cannot_be_created_is_an_error(programs: Programs) -> None:
    (programs.cwd / "taken").touch()
    for path in (programs.cwd / "taken", programs.cwd / "taken" / "below"):
        with pytest.raises(YouBenchaError) as caught:
            await run(programs.shell("touch ran"), log_file=path)
        assert caught.value.code == "ARTIFACTS_NOT_WRITABLE"
    assert not (programs.cwd / "ran").exists()


FULL_DISK = """
import asyncio, resource, signal, sys
from pathlib import Path
from youbencha.process import Command, run
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
async def main():
    argv = ('/bin/sh', '-c', 'yes 0123456 | head -c 300000')
    command = Command(argv=argv, cwd=Path('.'), env={'PATH': '/bin:/usr/bin'})
    await run(command)  # its guard and spools are not limited
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
    result = await run(command, log_file=Path('output.log'))
    print(len(result.output), result.exit.code, result.log_error)
asyncio.run(main())
"""


def test_a_full_disk_loses_the_log_but_not_the_result(tmp_path: Path) -> None:
    """A limit on the size of files stands in for the disk: it takes a part of the write, then refuses."""
    answer = subprocess.run([sys.executable, "-c", FULL_DISK], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert answer.stdout.startswith("300000 0 [Errno 27] File too large")
    assert (tmp_path / "output.log").stat().st_size == 100_000


def disk_of_nameless_files() -> int:
    total = 0
    for fd in os.listdir("/proc/self/fd"):
        try:
            if "youbencha-spool" in os.readlink(f"/proc/self/fd/{fd}"):
                total += os.fstat(int(fd)).st_blocks * 512
        except OSError:
            continue
    return total


@linux_only("elsewhere a file cannot be looked at by its descriptor, and has no holes")
async def test_a_runaway_writer_takes_bounded_disk_and_no_more_time(programs: Programs) -> None:
    """On a loaded machine `yes` gets far ahead between two looks, but what it wrote is given back again and again."""
    for timeout_s in (1.5, 15.0):
        disk: list[int] = []
        running = asyncio.create_task(run_into_deadline(programs.shell('exec yes "$0"'), Limits(timeout_s=timeout_s)))
        while not running.done():
            disk.append(disk_of_nameless_files())
            await asyncio.sleep(0.05)
        result, late = await running
        if 4 * max(disk) < result.total_bytes > 20 * OUTPUT_LIMIT_BYTES:
            break
    assert result.timed_out
    assert result.truncated
    assert result.total_bytes > 20 * OUTPUT_LIMIT_BYTES
    assert 4 * max(disk) < result.total_bytes
    assert max(disk) < 4 * 1024**3
    assert_in_time(late)
