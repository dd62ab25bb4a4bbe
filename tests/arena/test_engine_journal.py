"""The journal survives a kill at any byte and a full disk; the results directory is ours, and runs do not collide."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from small_disk import MIB, fill, small_disk
from youbencha import __version__
from youbencha.errors import YouBenchaError
from youbencha.store.arena import CellInfo, RunInfo
from youbencha.store.arena_run import ArenaRun, create_run, find_arena_run
from youbencha.store.journal import Journal, parse_journal, read_journal
from youbencha.store.layout import JOURNAL_FILE

INFO = RunInfo(
    youbencha_version=__version__,
    created_at="2026-01-01T00:00:00Z",
    trials=1,
    cells=(CellInfo(orchestrator="a", task="t", agent_hash="1", validation_hash="2"),),
)
VALUES = st.dictionaries(st.sampled_from(["reason", "task", "number"]), st.one_of(st.text(), st.integers(), st.none()))


def consume(steps: Iterable[None]) -> None:
    for _ in steps:
        pass


def append(directory: Path, *records: dict[str, Any]) -> None:
    with Journal(directory) as journal:
        for record in records:
            journal.add("step", **record)


@given(st.lists(VALUES, min_size=1, max_size=4))
def test_cut_at_any_byte_it_loses_only_the_line_that_was_cut(records: list[dict[str, Any]]) -> None:
    with TemporaryDirectory() as directory:
        append(Path(directory), *records)
        data = Path(directory, JOURNAL_FILE).read_bytes()
    written = parse_journal(data).records
    assert [{name: line[name] for name in line if name not in ("at", "event")} for line in written] == records
    ends = [end + 1 for end, byte in enumerate(data) if byte == ord("\n")]
    for cut in range(len(data) + 1):
        contents = parse_journal(data[:cut])
        whole = sum(end <= cut for end in ends)
        assert (contents.records, contents.damaged) == (written[:whole], ())
        assert contents.size == max([0, *ends[:whole]])


def test_a_cut_line_is_removed_before_the_next_is_written(tmp_path: Path) -> None:
    append(tmp_path, {"number": 1}, {"number": 2})
    file = tmp_path / JOURNAL_FILE
    whole = file.read_bytes()
    for cut in (1, 10, len(whole) // 2 - 1):
        file.write_bytes(whole[:-cut])
        append(tmp_path, {"number": 3})
        contents = read_journal(tmp_path)
        assert ([record["number"] for record in contents.records], contents.damaged) == ([1, 3], ())


def test_a_line_is_in_the_file_at_once(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.add("step", number=1)
        assert [record["number"] for record in read_journal(tmp_path).records] == [1]


def test_a_full_disk_is_an_error_and_leaves_whole_lines(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", size=MIB) as disk:
        with Journal(disk) as journal:
            journal.add("step", number=1)
            fill(disk / "ballast")
            with pytest.raises(YouBenchaError) as caught:
                consume(journal.add("step", text="x" * 4096, number=number) for number in range(20))
            assert caught.value.code == "RESULTS_NOT_WRITABLE"
            assert "--resume" in (caught.value.hint or "")
        contents = read_journal(disk)
        assert contents.damaged == ()
        assert contents.size == (disk / JOURNAL_FILE).stat().st_size
        assert contents.records[0]["number"] == 1


def test_runs_that_begin_in_the_same_second_do_not_collide(tmp_path: Path) -> None:
    runs = [create_run(tmp_path / "results", INFO) for _ in range(50)]
    assert len({run.path for run in runs}) == 50
    assert find_arena_run(tmp_path / "results").name == runs[-1].name
    assert find_arena_run(tmp_path / "results", "latest").name == runs[-1].name
    assert find_arena_run(tmp_path / "results", runs[3].name).path == runs[3].path
    assert find_arena_run(tmp_path / "results", str(runs[3].path)).info() == INFO


def test_a_directory_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("results of ten years")
    with pytest.raises(YouBenchaError, match="something other than results") as caught:
        create_run(tmp_path, INFO)
    assert caught.value.code == "RESULTS_NOT_OURS"
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    with pytest.raises(YouBenchaError, match="is not a directory") as caught:
        create_run(tmp_path / "thesis.txt", INFO)
    assert caught.value.code == "RESULTS_NOT_OURS"


def test_an_empty_directory_and_one_of_the_original_are_used(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "original" / "runs" / "2026-01-01T00-00-00Z").mkdir(parents=True)
    (tmp_path / "original" / "notes.txt").touch()
    for name in ("empty", "original"):
        assert create_run(tmp_path / name, INFO).info() == INFO


def test_a_run_that_does_not_exist_is_named(tmp_path: Path) -> None:
    for which in (None, "latest", "2026"):
        with pytest.raises(YouBenchaError) as caught:
            find_arena_run(tmp_path, which)
        assert caught.value.code == "RUN_NOT_FOUND"
    for _ in range(2):
        create_run(tmp_path / "results", INFO)
    with pytest.raises(YouBenchaError, match="Several runs"):
        find_arena_run(tmp_path / "results", "2")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": 99'])
def test_a_damaged_run_file_is_an_error(tmp_path: Path, content: bytes) -> None:
    run = create_run(tmp_path / "results", INFO)
    (run.path / "run.json").write_bytes(content)
    with pytest.raises(YouBenchaError) as caught:
        ArenaRun(run.path).info()
    assert caught.value.code == "RUN_INVALID"


def test_where_links_are_not_possible_latest_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("links are not possible here")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    run = create_run(tmp_path, INFO)
    assert (tmp_path / "latest").is_file()
    assert find_arena_run(tmp_path).path == run.path


def test_lines_that_are_nested_too_deeply_are_damaged() -> None:
    contents = parse_journal(b"[" * 100_000 + b"\n" + b'{"event": "attempt_started"}\n')
    assert contents.damaged == (1,)
    assert contents.has_begun, "the first line may have said so"
