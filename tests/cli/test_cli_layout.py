"""Long lines on a terminal."""

from __future__ import annotations

import pytest

from youbencha.cli.console import wrap


def test_what_goes_on_begins_below_the_first_line() -> None:
    assert wrap("one two three four five six", 24, indent=6) == "one two three four\n      five six"


def test_what_stands_before_the_text_takes_room() -> None:
    assert wrap("one two three four five", 26, indent=2, taken=10) == "one two three\n  four five"


def test_a_list_keeps_its_indentation() -> None:
    text = "Two problems:\n  - the first one is long\n  - short"
    assert wrap(text, 22, indent=0) == "Two problems:\n  - the first one is\n    long\n  - short"


def test_a_path_stays_in_one_piece() -> None:
    path = "/srv/somewhere/a-directory-with-a-long-name/testcase.yaml"
    assert path in wrap(f"There is no file {path}.", 40, indent=6)


@pytest.mark.parametrize("width", [10, 1_000_000])
def test_without_room_or_without_need_nothing_is_changed(width: int) -> None:
    assert wrap("one  two\n  - three", width, indent=6).split() == ["one", "two", "-", "three"]
    assert wrap("one two three four five", width, indent=6) == "one two three four five"
