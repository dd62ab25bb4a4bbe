"""The files of a loop: written whole, read with suspicion."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from systems import posix_only
from youbencha.errors import YouBenchaError
from youbencha.loop.directory import LoopDirectory, new_loop_id
from youbencha.store.layout import ITERATIONS_FILE, STATE_FILE
from youbencha.store.loops import IterationRecord, LoopState

AT = "2026-01-01T00:00:00Z"


def record(number: int) -> IterationRecord:
    return IterationRecord(iteration=number, outcome="completed", backend="x", started_at=AT, duration_ms=1)


def state_of(directory: LoopDirectory) -> LoopState:
    return LoopState(loop_id=directory.loop_id, config_file=None, started_at=AT, objective="Do it.")


@pytest.fixture
def directory(tmp_path: Path) -> LoopDirectory:
    made = LoopDirectory(tmp_path, new_loop_id())
    made.create()
    made.save(state_of(made))
    for number in (1, 2):
        made.append(record(number))
    return made


def refusal(directory: LoopDirectory) -> YouBenchaError:
    before = {path: path.read_bytes() for path in directory.path.iterdir()}
    with pytest.raises(YouBenchaError) as caught:
        LoopDirectory(directory.tree, directory.loop_id).load()
    assert {path: path.read_bytes() for path in directory.path.iterdir()} == before, "nothing is lost"
    assert caught.value.code == "LOOP_STATE_UNUSABLE"
    assert "start a new loop" in (caught.value.hint or "")
    return caught.value


def test_written_and_read(directory: LoopDirectory) -> None:
    found = LoopDirectory.newest(directory.tree)
    state, records = found.load()
    assert (state, records) == (state_of(directory), (record(1), record(2)))
    current = (directory.tree / ".ralph/current-events").read_text().strip()
    assert directory.tree / current == directory.events_file
    assert directory.events_file.read_bytes() == b""


def test_the_newest_loop(directory: LoopDirectory) -> None:
    later = LoopDirectory(directory.tree, "99991231-235959-000000")
    later.create()
    assert LoopDirectory.newest(directory.tree).loop_id == directory.loop_id, "it has no state yet"
    later.save(state_of(later))
    assert LoopDirectory.newest(directory.tree).loop_id == later.loop_id
    newer = LoopDirectory(directory.tree, "20250101-000000-000000")
    newer.create()
    newer.save(state_of(newer).model_copy(update={"started_at": "2026-01-01T02:00:00+01:00"}))
    assert LoopDirectory.newest(directory.tree).loop_id == newer.loop_id, "the time in a name may be a local one"


def test_no_loop(tmp_path: Path) -> None:
    with pytest.raises(YouBenchaError) as caught:
        LoopDirectory.newest(tmp_path)
    assert caught.value.code == "NO_LOOP"


def test_something_else_is_in_the_place(tmp_path: Path) -> None:
    (tmp_path / ".ralph").write_text("mine")
    with pytest.raises(YouBenchaError):
        LoopDirectory(tmp_path, new_loop_id()).create()
    assert (tmp_path / ".ralph").read_text() == "mine"


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_state_that_was_cut(directory: LoopDirectory, share: float) -> None:
    file = directory.path / STATE_FILE
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * share)])
    assert "not valid JSON" in refusal(directory).message


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"version": 2}, "its version is 2, and this youBencha reads version 1"),
        ({"version": None}, "it is not the state of a loop"),
        ({"iterations": -1}, "iterations"),
        ({"unknown": 1}, "unknown"),
        ({"loop_id": "other"}, "it belongs to the loop other"),
    ],
)
def test_a_state_that_was_edited(directory: LoopDirectory, change: dict[str, object], expected: str) -> None:
    file = directory.path / STATE_FILE
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    assert expected in refusal(directory).message


@pytest.mark.parametrize("text", ["[]", "1", "null", "[" * 100_000])
def test_a_state_that_is_something_else(directory: LoopDirectory, text: str) -> None:
    (directory.path / STATE_FILE).write_text(text)
    refusal(directory)


@posix_only("links need no permission there")
def test_a_state_that_is_a_link(directory: LoopDirectory, tmp_path: Path) -> None:
    file = directory.path / STATE_FILE
    file.rename(tmp_path / "elsewhere.json")
    file.symlink_to(tmp_path / "elsewhere.json")
    assert "is a link" in refusal(directory).message


def test_a_journal_with_a_damaged_line(directory: LoopDirectory) -> None:
    file = directory.path / ITERATIONS_FILE
    file.write_bytes(b"{}\n" + file.read_bytes())
    assert "line 1 is not a record" in refusal(directory).message


def test_a_last_line_that_was_cut_off_is_dropped_when_the_loop_goes_on(directory: LoopDirectory) -> None:
    file = directory.path / ITERATIONS_FILE
    with file.open("ab") as journal:
        journal.write(b'{"iteration": 3, "out')
    again = LoopDirectory(directory.tree, directory.loop_id)
    assert len(again.load().records) == 2
    again.append(record(3))
    assert len(file.read_bytes().splitlines()) == 3
    assert [record.iteration for record in LoopDirectory.newest(directory.tree).load().records] == [1, 2, 3]


@pytest.mark.parametrize("damage", ["removed", "emptied", "grown", "a directory"])
def test_what_an_agent_does_to_the_journal_is_undone(directory: LoopDirectory, damage: str) -> None:
    file = directory.path / ITERATIONS_FILE
    if damage == "grown":
        with file.open("ab") as journal:
            journal.write(record(9).model_dump_json().encode() + b"\n")
    elif damage == "emptied":
        file.write_bytes(b"")
    else:
        file.unlink()
        if damage == "a directory":
            file.mkdir()
    directory.append(record(3))
    assert [record.iteration for record in LoopDirectory.newest(directory.tree).load().records] == [1, 2, 3]


def test_the_state_is_replaced_not_written_into(directory: LoopDirectory) -> None:
    file = directory.path / STATE_FILE
    with file.open("rb") as before:
        directory.save(state_of(directory).model_copy(update={"iterations": 5}))
        assert json.loads(before.read())["iterations"] == 0
    assert json.loads(file.read_text())["iterations"] == 5
    assert [path.name for path in directory.path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("is_link", [True, False])
def test_something_else_in_the_place_of_our_files_is_replaced(
    directory: LoopDirectory, tmp_path: Path, is_link: bool
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (directory.path / STATE_FILE).unlink()
    (directory.path / STATE_FILE / "below").mkdir(parents=True)
    (directory.path / "summary.md").mkdir()
    iterations = directory.path / "iterations"
    iterations.symlink_to(outside) if is_link else os.mkfifo(iterations)
    directory.save(state_of(directory))
    directory.write("summary.md", "text")
    assert directory.iteration_dir(1).is_dir()
    assert directory.load().state == state_of(directory)
    assert (directory.path / "summary.md").read_text() == "text"
    assert list(outside.iterdir()) == []


def test_the_newest_loop_after_a_change_of_the_time_zone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From Kiritimati (UTC+14) to Niue (UTC-11), the clock on the wall goes back by more than a day."""
    made = []
    try:
        for zone in ("UTC-14", "UTC+11"):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            made.append(LoopDirectory(tmp_path, new_loop_id()[:-6] + f"{len(made):06}"))
            made[-1].create()
            made[-1].save(state_of(made[-1]))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert LoopDirectory.newest(tmp_path).loop_id == made[-1].loop_id
