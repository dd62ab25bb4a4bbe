"""The screen in a real PTY, while an agent prints 50,000 events and a person types."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from bench.measure import ComponentMissing, Figure, env_as_installed, mb, ms

_EVENTS = 50_000
EVENTS_PER_TURN = 50
_WORDS = ("the", "agent", "reads", "a", "file", "and", "writes", "another", "then", "runs", "every", "test", "again")
_NOTES = 100
_KEYS_OF_A_NOTE = len(":note000\r")
_BETWEEN_NOTES_S = 0.05
_PATIENCE_S = 120.0
_GOAL_BYTES = 100e6

_AGENT = """#!/bin/sh
[ "$1" = --version ] && echo "2.1.325 (Claude Code)" && exit
cat {stream}
while [ ! -e {enough} ]; do sleep 0.05; done
cat {result}
"""
_CONFIG = """
cli: {backend: claude}
event_loop: {prompt: Work., max_iterations: 1, checkpoint_interval: 0}
"""


def measure() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="youbencha-bench-") as name:
        session = ScreenSession(Path(name))
        without = session.run(screen=False)
        with_screen = session.run(screen=True)
    yield Figure(
        f"{_EVENTS:,} events of Claude Code to the screen",
        f"{with_screen.took_s:.1f} s, {_EVENTS / with_screen.took_s:,.0f}/s",
        f"without a screen {without.took_s:.1f} s",
        "–",
        None,
    )
    sent = _NOTES * _KEYS_OF_A_NOTE
    lost = sent - with_screen.taken * _KEYS_OF_A_NOTE
    slowest = max(with_screen.delays_s, default=0.0)
    yield Figure(
        f"keys lost, of {sent} typed meanwhile",
        f"{lost}; seen after {ms(statistics.median(with_screen.delays_s))} (slowest {ms(slowest)})",
        f"{with_screen.during:.0%} while events arrived",
        "none lost",
        lost == 0,
    )
    yield Figure(
        "peak RSS of ralph with the screen",
        mb(with_screen.peak_rss),
        f"without a screen {mb(without.peak_rss)}",
        "≤ 100 MB",
        with_screen.peak_rss <= _GOAL_BYTES,
    )


@dataclass(frozen=True)
class SessionRun:
    took_s: float
    """From the first event of the agent to the last one before its result."""
    peak_rss: int
    taken: int = 0
    """Notes that arrived whole."""
    delays_s: tuple[float, ...] = ()
    during: float = 0.0
    """The share of notes that were typed before the last event."""


class ScreenSession:
    """A loop of one iteration, with a fake Claude Code."""

    def __init__(self, directory: Path) -> None:
        self._tree, self._enough = directory / "project", directory / "enough"
        self._tree.mkdir()
        (self._tree / "ralph.yml").write_text(_CONFIG)
        stream, result = directory / "stream.ndjson", directory / "result.ndjson"
        *lines, last = many_events(_EVENTS)
        stream.write_text("".join(f"{line}\n" for line in lines))
        result.write_text(f"{last}\n")
        claude = directory / "bin" / "claude"
        claude.parent.mkdir()
        claude.write_text(_AGENT.format(stream=stream, enough=self._enough, result=result))
        claude.chmod(0o755)
        self._ralph = Path(sys.executable).parent / "ralph"
        if not self._ralph.exists():
            raise ComponentMissing("`ralph` is not installed with this Python: use `make bench`, which installs it")
        env = {name: value for name, value in env_as_installed().items() if name not in ("COLUMNS", "LINES")}
        self._env = {
            **env,
            "PATH": f"{claude.parent}{os.pathsep}{env['PATH']}",
            "HOME": str(directory),
            "XDG_CACHE_HOME": str(directory / "cache"),
            "CLAUDE_CODE_OAUTH_TOKEN": "nothing-secret",
            "IS_SANDBOX": "1",
            "TERM": "xterm-256color",
        }

    def run(self, *, screen: bool) -> SessionRun:
        self._enough.unlink(missing_ok=True)
        shutil.rmtree(self._tree / ".ralph", ignore_errors=True)
        recording = Recorded(self._tree)
        command = [str(self._ralph), "run", *([] if screen else ["--quiet"])]
        with in_terminal(command, cwd=self._tree, env=self._env) as terminal:
            _wait_for(lambda: bool(recording.times("process_started")), "the agent's start")
            sent = _type_notes(terminal.keys) if screen else {}
            _wait_for(lambda: len(recording.times("guidance_given")) >= len(sent), "all notes", fails=False)
            _wait_for(lambda: len(recording.times("tool_returned")) >= _EVENTS // EVENTS_PER_TURN, "the last event")
            self._enough.touch()
            peak_rss = terminal.wait()
        return _result(recording, sent, peak_rss)


class Recorded:
    """What a running loop has recorded so far."""

    def __init__(self, tree: Path) -> None:
        self._tree = tree

    def events(self) -> list[dict[str, Any]]:
        files = self._tree.glob(".ralph/loops/*/recording.jsonl")
        return [json.loads(line) for file in files for line in file.read_bytes().split(b"\n")[:-1]]

    def times(self, kind: str) -> list[float]:
        return [event["at"] for event in self.events() if event["type"] == kind]


class Terminal(NamedTuple):
    process: subprocess.Popen[bytes]
    keys: int
    """The descriptor to type into."""

    def wait(self) -> int:
        """Wait for the end of the process, and return its peak memory."""
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@contextmanager
def in_terminal(command: list[str], *, cwd: Path, env: dict[str, str]) -> Iterator[Terminal]:
    """Start a program in a terminal of 160 x 50, whose output is read and dropped."""
    main, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
    process = subprocess.Popen(command, cwd=cwd, env=env, stdin=terminal, stdout=terminal, stderr=terminal)
    os.close(terminal)
    reading = threading.Thread(target=_read_to_the_end, args=(main,), daemon=True)
    reading.start()
    try:
        yield Terminal(process, main)
    finally:
        if process.returncode is None:
            process.kill()
            process.wait()
        reading.join(5)
        os.close(main)


def _read_to_the_end(descriptor: int) -> None:
    with suppress(OSError):  # the process has ended
        while os.read(descriptor, 1 << 16):
            pass


def _type_notes(keys: int) -> dict[str, float]:
    """Type notes for the next prompt, key by key, and return when each was sent."""
    sent = {}
    for number in range(_NOTES):
        note = f"note{number:03}"
        for key in f":{note}\r":
            os.write(keys, key.encode())
        sent[note] = time.time()
        time.sleep(_BETWEEN_NOTES_S)
    return sent


def _wait_for(holds: Callable[[], bool], what: str, *, fails: bool = True) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not holds():
        if time.monotonic() > deadline:
            if fails:
                raise RuntimeError(f"waited for {what}")
            return
        time.sleep(0.1)


def _result(recording: Recorded, sent: dict[str, float], peak_rss: int) -> SessionRun:
    (began,), last = recording.times("process_started"), recording.times("tool_returned")[-1]
    taken = {event["text"]: event["at"] for event in recording.events() if event["type"] == "guidance_given"}
    return SessionRun(
        took_s=last - began,
        peak_rss=peak_rss,
        taken=len(taken.keys() & sent.keys()),
        delays_s=tuple(at - sent[note] for note, at in taken.items() if note in sent),
        during=sum(at <= last for at in sent.values()) / max(1, len(sent)),
    )


def many_events(number: int) -> Iterator[str]:
    """Yield a session of `number` small messages, and its result."""
    rng = random.Random(20)
    yield _line("system", subtype="init", model="claude-sonnet-4-5", tools=["Bash"], claude_code_version="2.1.325")
    for turn in range(number // EVENTS_PER_TURN):
        pieces = [" ".join(rng.choices(_WORDS, k=4)) + " " for _ in range(EVENTS_PER_TURN - 3)]
        for piece in pieces:
            delta = {"type": "text_delta", "text": piece}
            yield _line("stream_event", event={"type": "content_block_delta", "delta": delta})
        call = {"type": "tool_use", "id": f"toolu_{turn}", "name": "Bash", "input": {"command": f"cat file-{turn}.py"}}
        yield _line("assistant", message=_message(turn, {"type": "text", "text": "".join(pieces)}))
        yield _line("assistant", message=_message(turn, call))
        answer = {"type": "tool_result", "tool_use_id": f"toolu_{turn}", "content": "def main():\n    pass\n" * 10}
        yield _line("user", message={"role": "user", "content": [answer]})
    yield _session_result(number // EVENTS_PER_TURN)


def _message(turn: int, block: Mapping[str, object]) -> dict[str, object]:
    usage = {"input_tokens": 900, "output_tokens": 1, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    return {"id": f"msg_{turn}", "role": "assistant", "model": "claude-sonnet-4-5", "content": [block], "usage": usage}


def _session_result(turns: int) -> str:
    usage = {"inputTokens": 900, "outputTokens": 90, "cacheReadInputTokens": 0, "cacheCreationInputTokens": 0}
    return _line(
        "result",
        subtype="success",
        is_error=False,
        num_turns=turns,
        result="done",
        total_cost_usd=0.1,
        modelUsage={"claude-sonnet-4-5": usage},
    )


def _line(kind: str, **fields: object) -> str:
    return json.dumps({"type": kind, **fields}, separators=(",", ":"))
