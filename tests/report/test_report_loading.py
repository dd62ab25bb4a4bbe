"""Results are found at a path, or refused with a reason."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import sample

from youbencha.errors import YouBenchaError
from youbencha.log.model import as_json
from youbencha.store.locate import find_results
from youbencha.store.read import MAX_RESULTS_BYTES, load_results


def write(path: Path, document: Any = None, *, age_s: float = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(sample.document() if document is None else document), encoding="utf-8")
    moment = 1_800_000_000 - age_s
    os.utime(path, (moment, moment))
    return path


def refused(path: Path) -> YouBenchaError:
    with pytest.raises(YouBenchaError) as caught:
        load_results(path)
    assert caught.value.hint
    return caught.value


def test_written_results_can_be_read(tmp_path: Path) -> None:
    file = write(tmp_path / "results.json")
    assert load_results(file) == sample.bundle()


def test_a_file_of_any_name(tmp_path: Path) -> None:
    assert find_results(write(tmp_path / "kept.json")) == tmp_path / "kept.json"


def test_an_artifacts_directory_and_a_run(tmp_path: Path) -> None:
    file = write(tmp_path / "run-1" / "artifacts" / "results.json")
    assert find_results(tmp_path / "run-1" / "artifacts") == file
    assert find_results(tmp_path / "run-1") == file


@pytest.mark.parametrize("below", ["", ".youbencha-workspace", ".youbencha-eval"])
def test_the_newest_of_several_runs(tmp_path: Path, below: str) -> None:
    write(tmp_path / below / "run-9" / "artifacts" / "results.json", age_s=100)
    newest = write(tmp_path / below / "run-1" / "artifacts" / "results.json", age_s=5)
    write(tmp_path / below / "run-2" / "artifacts" / "results.json", age_s=10)
    (tmp_path / below / "run-3" / "artifacts").mkdir(parents=True)
    (tmp_path / below / "a-file").write_text("")
    assert find_results(tmp_path) == newest


def run(workspace: Path, when: str, *, age_s: float | None = None, name: str = "run") -> Path:
    """Named as runs are; without an age, it has no results."""
    path = workspace / f"{name}-2026-01-{when}-abc123"
    (path / "artifacts").mkdir(parents=True)
    if age_s is not None:
        write(path / "artifacts" / "results.json", age_s=age_s)
    return path


@pytest.mark.parametrize("below", ["", ".youbencha-workspace"])
def test_the_newest_run_is_the_one_that_began_last(tmp_path: Path, below: str) -> None:
    run(tmp_path / below, "01-120000", age_s=1)  # a report was made of it since
    newest = run(tmp_path / below, "02-120000", age_s=10, name="a")
    run(tmp_path / below, "01-120001")
    (tmp_path / below / "run-2026-01-03-120000-abc123").mkdir()
    (tmp_path / below / "somebody-elses" / "artifacts").mkdir(parents=True)
    assert find_results(tmp_path) == newest / "artifacts" / "results.json"


def test_the_last_written_of_runs_of_the_same_second(tmp_path: Path) -> None:
    run(tmp_path, "01-120000", age_s=10, name="z")
    newest = run(tmp_path, "01-120000", age_s=1, name="b")
    run(tmp_path, "01-120000", name="y")
    assert find_results(tmp_path) == newest / "artifacts" / "results.json"


def test_an_older_run_is_not_reported_instead_of_the_newest(tmp_path: Path) -> None:
    run(tmp_path, "01-120000", age_s=10)
    older = run(tmp_path, "02-120000", age_s=5)
    newest = run(tmp_path, "03-120000")
    error = refused(tmp_path)
    assert error.code == "RESULTS_NOT_FOUND"
    assert str(newest) in error.message
    assert error.hint == f"The newest run with results is {older}: report it with `--from`."
    assert load_results(older) == sample.bundle()


def test_a_single_run_without_results(tmp_path: Path) -> None:
    newest = run(tmp_path, "03-120000")
    assert str(newest) in refused(tmp_path).message
    assert "There is no results.json in" in refused(newest).message


def test_a_runs_own_results_come_before_others_below_it(tmp_path: Path) -> None:
    own = write(tmp_path / "artifacts" / "results.json", age_s=100)
    write(tmp_path / "inner" / "artifacts" / "results.json")
    assert find_results(tmp_path) == own


def test_a_missing_path_and_an_empty_directory(tmp_path: Path) -> None:
    gone = refused(tmp_path / "gone")
    assert gone.code == "RESULTS_NOT_FOUND"
    assert str(tmp_path / "gone") in gone.message
    empty = refused(tmp_path)
    assert empty.code == "RESULTS_NOT_FOUND"
    assert str(tmp_path) in empty.message


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is empty"),
        (b" \n", "it is empty"),
        (b"{", "invalid JSON"),
        (b"\xff\xfe", "it is not UTF-8 text"),
        (b"[1]", "it is not an object"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "invalid JSON"),
        (b"{}", "summary: Field required"),
        (b'{"identity": {}}', "test_case: Field required"),
        (b'{"evaluators": [3], "agent": "x", "test_case": 5, "execution": []}', "execution.started_at"),
    ],
)
def test_invalid_files(tmp_path: Path, content: bytes, reason: str) -> None:
    file = tmp_path / "results.json"
    file.write_bytes(content)
    error = refused(file)
    assert error.code == "RESULTS_INVALID"
    assert str(file) in error.message
    assert reason in error.message


def test_an_invalid_value_is_reported_with_its_path(tmp_path: Path) -> None:
    document = sample.document()
    document["evaluators"][1]["status"] = "great"
    error = refused(write(tmp_path / "results.json", document))
    assert "evaluators.1.status: " in error.message


def test_many_invalid_values_are_not_all_listed(tmp_path: Path) -> None:
    document = sample.document() | {"evaluators": [{}] * 100}
    message = refused(write(tmp_path / "results.json", document)).message
    assert len(message.splitlines()) < 10
    assert "more" in message


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    with file.open("wb") as stream:
        stream.truncate(MAX_RESULTS_BYTES + 1)  # a hole: it takes no room
    assert "is larger than 67,108,864 bytes" in refused(file).message


def test_keys_of_a_newer_version_are_ignored(tmp_path: Path) -> None:
    document = sample.document() | {"signature": {"by": "me"}}
    document["agent"]["mood"] = "good"
    document["evaluators"][2]["assertions"][0]["colour"] = 1
    assert load_results(write(tmp_path / "results.json", document)) == sample.bundle()


def test_assertions_are_written_by_name_and_none_is_lost(tmp_path: Path) -> None:
    """The list that older versions wrote can be read, too."""
    document = sample.document()
    names = ("forbidden_paths", "forbidden_paths", "max_files_changed")
    document["evaluators"][0]["assertions"] = [
        {"name": name, "passed": True, "actual": n} for n, name in enumerate(names)
    ]
    bundle = load_results(write(tmp_path / "results.json", document))
    written = json.loads(as_json(bundle))
    assert list(written["evaluators"][0]["assertions"]) == [
        "forbidden_paths",
        "forbidden_paths (2)",
        "max_files_changed",
    ]
    written["evaluators"][0]["assertions"]["forbidden_paths (2)"]["colour"] = "of a newer version"
    assert load_results(write(tmp_path / "results.json", written)) == bundle


def test_not_a_number_is_unknown(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    file.write_text(json.dumps(sample.document()).replace("1.4591", "NaN"))
    assert load_results(file).evaluators[0].metrics["change_entropy"] is None


def test_text_with_lone_surrogates(tmp_path: Path) -> None:
    document = sample.document()
    document["agent"]["warnings"][0]["message"] = "caf\udce9"
    assert load_results(write(tmp_path / "results.json", document)).agent.warnings[0].message == "caf\\udce9"  # type: ignore[union-attr]


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    file.write_text(json.dumps(sample.document()), encoding="utf-8-sig")
    assert load_results(file) == sample.bundle()
