"""The comparison with golden files fails when it should, and replaces only what it names."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden_files import Golden, tidy, tidy_fields

RECORD = {"model": "claude-golden", "status": 200, "usage": {"input_tokens": 12, "cost_usd": None}}


def check(directory: Path, value: object, *, update: bool = False) -> None:
    Golden(directory, update).check_json("record.json", value)


def test_only_equal_content_passes(tmp_path: Path) -> None:
    check(tmp_path, RECORD, update=True)
    check(tmp_path, dict(reversed(RECORD.items())))  # the order of keys does not count
    for changed in (
        {**RECORD, "status": 201},
        {**RECORD, "status": "200"},
        {**RECORD, "new": None},
        {**RECORD, "usage": {"input_tokens": 12}},
        {**RECORD, "usage": {"input_tokens": 12, "cost_usd": 0}},
    ):
        with pytest.raises(pytest.fail.Exception, match="has changed"):
            check(tmp_path, changed)


def test_the_failure_shows_the_change_and_how_to_accept_it(tmp_path: Path) -> None:
    check(tmp_path, RECORD, update=True)
    with pytest.raises(pytest.fail.Exception) as raised:
        check(tmp_path, {**RECORD, "status": 201})
    message = str(raised.value)
    for part in ('-  "status": 200', '+  "status": 201', "pytest tests/golden --update-golden", "CHANGELOG.md"):
        assert part in message


def test_a_missing_golden_file_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match="has changed"):
        check(tmp_path, RECORD)


@pytest.mark.parametrize("files", [{}, {"a.json": "1", "b.json": "2"}, {"a.json": "2"}, {"b.json": "1"}])
def test_a_directory_must_have_the_same_files(tmp_path: Path, files: dict[str, str]) -> None:
    Golden(tmp_path, update=True).check_tree("tree", {"a.json": "1"})
    with pytest.raises(pytest.fail.Exception, match="changed"):
        Golden(tmp_path, update=False).check_tree("tree", files)
    Golden(tmp_path, update=True).check_tree("tree", files)
    Golden(tmp_path, update=False).check_tree("tree", files)


def test_tidy_replaces_the_given_values() -> None:
    value = {"at": "2026-01-15T12:00:00.123Z", "none": None, "path": "/x/y/z", "list": ["http://127.0.0.1:41234/v1"]}
    assert tidy(value, {"/x": "root", "/x/y": "run"}, ("none",)) == {
        "at": "<time>",
        "none": None,
        "path": "<run>/z",
        "list": ["http://127.0.0.1:<port>/v1"],
    }
    assert tidy({"n": 5, "text": "0.0.0.0:80, 2019-05-17"}) == {"n": 5, "text": "0.0.0.0:80, 2019-05-17"}
    line = '{"at":"now","at_all":1,"ms":1.5,"end":null}'
    assert tidy_fields(line, "at", "ms", "end") == '{"at":"<at>","at_all":1,"ms":"<ms>","end":null}'
