"""Numbers and unknown values, formatted for people."""

from __future__ import annotations

from typing import Any

import pytest

from youbencha.text import (
    format_count,
    format_duration,
    format_percent,
    format_size,
    format_usd,
    format_value,
    label,
    plural,
    short_value,
)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (None, "unknown"),
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1.0 s"),
        (59_940, "59.9 s"),
        (59_950, "1 min 00 s"),
        (60_000, "1 min 00 s"),
        (187_412, "3 min 07 s"),
        (3_599_600, "1 h 00 min"),
        (7_260_000, "2 h 01 min"),
    ],
)
def test_durations(milliseconds: int | None, text: str) -> None:
    assert format_duration(milliseconds) == text


@pytest.mark.parametrize(
    ("dollars", "text"),
    [
        (None, "unknown"),
        (0, "$0.00"),
        (0.00001, "< $0.0001"),
        (0.0421, "$0.0421"),
        (1, "$1.00"),
        (1234.5, "$1,234.50"),
    ],
)
def test_dollars(dollars: float | None, text: str) -> None:
    assert format_usd(dollars) == text


def test_counts() -> None:
    assert [format_count(None), format_count(0), format_count(1_204_000)] == ["unknown", "0", "1,204,000"]
    assert [plural(1, "file"), plural(0, "file"), plural(2000, "file")] == ["1 file", "0 files", "2,000 files"]


def test_percentages_are_never_rounded_up_to_100() -> None:
    assert [
        format_percent(1),
        format_percent(0.99999),
        format_percent(0.784),
        format_percent(0.5),
        format_percent(0),
    ] == [
        "100%",
        "99.9%",
        "78.4%",
        "50%",
        "0%",
    ]


def test_sizes() -> None:
    assert [
        format_size(0),
        format_size(1023),
        format_size(1536),
        format_size(5 * 1024**2),
        format_size(3 * 1024**4),
    ] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "5 MiB",
        "3 TiB",
    ]


@pytest.mark.parametrize(
    ("anything", "text"),
    [
        (None, "unknown"),
        (True, "yes"),
        (False, "no"),
        (12345, "12,345"),
        (0.5, "0.5"),
        (2.0, "2"),
        (1.45914, "1.4591"),
        (0.00012345, "0.000123"),
        (float("nan"), "nan"),
        ("text", "text"),
        ([1, "ä"], '[1, "ä"]'),
        ({"a": {"b": None}}, '{"a": {"b": null}}'),
        ({"odd": {1}}, '{"odd": "{1}"}'),
    ],
)
def test_metric_values(anything: Any, text: str) -> None:
    assert format_value(anything) == text


def test_a_long_value_is_cut_with_an_ellipsis() -> None:
    shown = short_value(list(range(10_000)))
    assert len(shown) == 600
    assert shown.endswith("…")


def test_labels() -> None:
    assert label("files_changed") == "Files changed"
    assert label("") == ""
