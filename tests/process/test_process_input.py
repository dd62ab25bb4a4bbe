"""A standard input that stays open: a conversation with a program."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from pathlib import Path

import pytest
from process_programs import open_descriptors, soon

from systems import linux_only
from youbencha.process import Command, Input, Limits, ProcessStartError, Redactor, Stream, run

ECHO = "import sys\nfor line in sys.stdin: print('heard', line.strip(), flush=True)\nprint('over')"
DEAF = "import sys, time; print('here', flush=True); time.sleep(600)"
CLOSES = "import os, sys, time; os.close(0); print('closed', flush=True); time.sleep(600)"
MORE_THAN_A_PIPE_HOLDS = b"x" * 4_000_000


def python(directory: Path, script: str, stdin: Input) -> Command:
    return Command(argv=(sys.executable, "-S", "-c", script), cwd=directory, env={}, stdin=stdin)


def feeders() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "youbencha-stdin"]


async def test_a_conversation(tmp_path: Path) -> None:
    """Each word is an answer to the one before: nothing waits for an end of file."""
    stdin, heard = Input(), []

    def answer(line: bytes) -> None:
        heard.append(line.decode().strip())
        if len(heard) < 3:
            stdin.write(f"word {len(heard)}\n".encode())
        else:
            stdin.close()

    stdin.write(b"hello\n")
    result = await run(python(tmp_path, ECHO, stdin), on_line=answer)
    assert heard == ["heard hello", "heard word 1", "heard word 2", "over"]
    assert result.exit.code == 0


async def test_written_input_arrives_before_the_end_of_file(tmp_path: Path) -> None:
    script = "import sys; print(len(sys.stdin.buffer.read()))"
    stdin = Input()
    stdin.write(MORE_THAN_A_PIPE_HOLDS)
    stdin.close()
    stdin.write(b"too late")
    result = await run(python(tmp_path, script, stdin))
    assert result.output.split() == [str(len(MORE_THAN_A_PIPE_HOLDS))]


@pytest.mark.parametrize("script", [DEAF, CLOSES])
async def test_a_program_that_does_not_read_does_not_block_the_writer(tmp_path: Path, script: str) -> None:
    stdin, stop = Input(), asyncio.Event()
    stdin.write(MORE_THAN_A_PIPE_HOLDS)
    result = await run(python(tmp_path, script, stdin), stop=stop, on_line=lambda _: stop.set())
    assert result.stopped
    await soon(lambda: not feeders())


async def test_a_program_that_dies_with_its_input_unread(tmp_path: Path) -> None:
    stdin = Input()
    stdin.write(MORE_THAN_A_PIPE_HOLDS)
    result = await run(python(tmp_path, "import sys; sys.exit(7)", stdin))
    assert result.exit.code == 7
    stdin.write(b"anybody there?\n")
    await soon(lambda: not feeders())


async def test_input_after_a_closed_pipe_is_discarded() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    stdin = Input()
    stdin.connect(writer)
    stdin.write(b"anybody there?")
    await soon(lambda: not feeders())
    stdin.write(MORE_THAN_A_PIPE_HOLDS)
    assert stdin._waiting.empty()


async def test_a_deadline_with_the_input_open(tmp_path: Path) -> None:
    stdin = Input()
    result = await run(python(tmp_path, ECHO, stdin), limits=Limits(timeout_s=0.3))
    assert result.timed_out
    await soon(lambda: not feeders())


@linux_only("descriptors are counted in /dev/fd")
async def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    async def once() -> None:
        stdin = Input()
        stdin.write(b"hello\n")
        stdin.close()
        await run(python(tmp_path, ECHO, stdin))

    await once()  # whatever is opened once and kept
    await soon(lambda: not feeders())
    before = open_descriptors()
    await once()
    await soon(lambda: not feeders())
    assert open_descriptors() == before


async def test_a_program_that_does_not_start_leaves_no_thread(tmp_path: Path) -> None:
    stdin = Input()
    with pytest.raises(ProcessStartError):
        await run(Command(argv=(str(tmp_path / "missing"),), cwd=tmp_path, env={}, stdin=stdin))
    await soon(lambda: not feeders())


class Letters:
    """Something that the program says by another way."""

    stream = Stream.OUT
    skipped_bytes = 0

    def __init__(self) -> None:
        self.waiting = [b"by letter: my word is s3cr3t-v4lue\n"]

    def read(self) -> bytes:
        return self.waiting.pop() if self.waiting else b""

    def skip_to_end(self) -> None: ...

    def close(self) -> None: ...


async def test_lines_from_another_channel_are_part_of_the_output(tmp_path: Path) -> None:
    lines: list[bytes] = []
    stdin = Input()
    stdin.close()
    command = python(tmp_path, "print('by mouth')", stdin)
    result = await run(
        command,
        extra_sources=[Letters()],
        on_line=lines.append,
        log_file=tmp_path / "log",
        redactor=Redactor(["s3cr3t-v4lue"]),
    )
    assert sorted(lines) == [b"by letter: my word is s3cr3t-v4lue", b"by mouth"]
    assert (tmp_path / "log").read_text() == result.output
    assert "by letter: my word is [REDACTED]" in result.output
