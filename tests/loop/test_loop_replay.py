"""`ralph replay`: recordings and raw transcripts, with their pauses or without."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest

from yb import yb
from youbencha.events import AssistantText, Event, GuidanceGiven, IterationStarted
from youbencha.loop.replay import Player
from youbencha.process import Redactor
from youbencha.transcript.recording import Recorder

TRANSCRIPTS = Path(__file__).parent.parent / "data" / "transcripts"


def start(number: int, at: float) -> Event:
    return IterationStarted(iteration=number, backend="claude", model=None, at=at)


HAPPENED = (
    start(1, 1000.0),
    AssistantText(text="One", at=1000.2),
    start(2, 1060.0),
    AssistantText(text="Two", at=1060.1),
)


@pytest.fixture
def loop_dir(tmp_path: Path) -> Path:
    directory = tmp_path / ".ralph" / "loops" / "20261117-1"
    directory.mkdir(parents=True)
    (directory / "loop.json").touch()
    recorder = Recorder(directory / "recording.jsonl", Redactor())
    for event in HAPPENED:
        recorder(event)
    recorder.close()
    return tmp_path


@pytest.mark.parametrize("which", [(), ("20261117-1",), (".ralph/loops/20261117-1",)])
def test_a_loop_is_found_by_its_id_its_directory_or_as_the_newest(loop_dir: Path, which: tuple[str, ...]) -> None:
    done = yb("loop", "replay", *which, "--speed", "max", cwd=loop_dir)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line for line in done.stdout.splitlines() if line] == [
        "0:00:00 ━━ iteration 1 · claude",
        "0:00:00 ● One",
        "0:01:00 ━━ iteration 2 · claude",
        "0:01:00 ● Two",
    ]


def test_json_is_what_was_recorded(loop_dir: Path) -> None:
    file = loop_dir / ".ralph/loops/20261117-1/recording.jsonl"
    done = yb("loop", "replay", str(file), "--speed", "max", "--json")
    assert done.stdout == file.read_text()


@pytest.mark.parametrize("name", sorted(path.name for path in TRANSCRIPTS.glob("*.ndjson"))[:6])
def test_what_claude_code_printed_can_be_played(name: str) -> None:
    done = yb("loop", "replay", str(TRANSCRIPTS / name), "--speed", "max", "--json")
    assert done.returncode == 0
    kinds = [json.loads(line)["type"] for line in done.stdout.splitlines()]
    assert "session_started" in kinds
    assert "session_result" in kinds


@pytest.mark.parametrize(
    ("content", "options", "code"),
    [
        (None, ("other",), "RECORDING_NOT_FOUND"),
        (b"", ("file",), "RECORDING_EMPTY"),
        (b"\x1b[?25h\n", ("file",), "RECORDING_EMPTY"),  # what a terminal gets after the last message
        (b"\x00\xff" * 500, ("file",), "RECORDING_EMPTY"),
        (b"x", ("file", "--speed", "fast"), "OPTION_INVALID"),
        (b"x", ("file", "--speed", "nan"), "OPTION_INVALID"),
        (b"x", ("../file",), "RECORDING_NOT_FOUND"),
        (None, (), "NO_LOOP"),
    ],
)
def test_bad_input(tmp_path: Path, content: bytes | None, options: tuple[str, ...], code: str) -> None:
    if content is not None:
        (tmp_path / "file").write_bytes(content)
    done = yb("loop", "replay", *options, "--no-tui", cwd=tmp_path)
    assert done.returncode == 2
    assert f"[{code}]" in done.stderr


def test_skipped_lines_are_counted(loop_dir: Path) -> None:
    with (loop_dir / ".ralph/loops/20261117-1/recording.jsonl").open("a") as file:
        file.write('{"type":"of_another_version"}\n')
    done = yb("loop", "replay", "--speed", "max", cwd=loop_dir)
    assert done.stderr == "1 line skipped: not an event of this version\n"


async def played(player: Player) -> list[tuple[float, Event]]:
    began, shown = time.monotonic(), list[tuple[float, Event]]()
    await player.play(lambda event: shown.append((time.monotonic() - began, event)))
    return shown


async def test_pauses_are_scaled_and_long_ones_shortened() -> None:
    shown = await played(Player(HAPPENED, speed=20))
    assert [event for _, event in shown] == list(HAPPENED)
    times = [when for when, _ in shown]
    assert 0.01 <= times[1] < 0.2  # 0.2 s
    assert 0.25 <= times[2] - times[1] < 0.5  # a minute, which is shortened to 5 s


async def test_without_pauses_and_from_an_iteration() -> None:
    assert (await played(Player(HAPPENED, speed=None)))[-1][0] < 0.2
    shown = await played(Player(HAPPENED, speed=1.0, first_iteration=2))
    assert shown[2][0] < 0.05
    assert shown[3][0] - shown[2][0] >= 0.09


async def test_a_person_pauses_skips_and_stops() -> None:
    shown: list[Event] = []
    player = Player((*HAPPENED, GuidanceGiven(text="end", at=2000.0)), speed=0.02)
    playing = asyncio.create_task(player.play(shown.append))
    player.pause()
    await asyncio.sleep(0.05)
    assert shown == []
    player.resume()
    await until(lambda: len(shown) == 1)
    assert 1000.0 <= player.now() < 1000.2
    player.try_now()
    await until(lambda: len(shown) == 2)
    player.stop()
    await asyncio.wait_for(playing, 5)
    assert len(shown) == 2
    player.guide("nothing happens")


async def until(condition: object) -> None:
    assert callable(condition)
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def test_the_screen_gets_its_turn_while_a_long_recording_is_played_without_pauses() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def slow(event: Event) -> None:
        time.sleep(0.001)

    task = asyncio.create_task(other())
    await Player([AssistantText(text="x", at=float(number)) for number in range(100)], speed=None).play(slow)
    task.cancel()
    assert turns >= 5
