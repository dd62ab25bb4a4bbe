"""Long lines on a terminal."""

from __future__ import annotations

import pytest

from youbencha.cli.terminal import wrap


def test_continuation_lines_are_indented() -> None:
    assert wrap("one two three four five six", 24, indent=6) == "one two three four\n      five six"


def test_a_prefix_reduces_the_width_of_the_first_line() -> None:
    assert wrap("one two three four five", 26, indent=2, taken=10) == "one two three\n  four five"


def test_a_list_keeps_its_indentation() -> None:
    text = "Two problems:\n  - the first one is long\n  - short"
    assert wrap(text, 22, indent=0) == "Two problems:\n  - the first one is\n    long\n  - short"


def test_a_path_is_not_broken() -> None:
    path = "/srv/somewhere/a-directory-with-a-long-name/testcase.yaml"
    assert path in wrap(f"There is no file {path}.", 40, indent=6)


@pytest.mark.parametrize("width", [10, 1_000_000])
def test_too_narrow_or_wide_enough_text_is_not_wrapped(width: int) -> None:
    assert wrap("one  two\n  - three", width, indent=6).split() == ["one", "two", "-", "three"]
    assert wrap("one two three four five", width, indent=6) == "one two three four five"
