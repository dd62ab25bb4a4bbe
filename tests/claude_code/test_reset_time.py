"""The texts were printed by real CLIs (1.0.128 to 2.1.325)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from youbencha.adapters.causes import reset_time

NOW = datetime(2026, 11, 15, 20, 30, tzinfo=UTC)


def at(*moment: int) -> float:
    return datetime(*moment, tzinfo=UTC).timestamp()  # type: ignore[misc, arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Claude AI usage limit reached|1794781501", 1794781501.0),
        ("5-hour limit reached · resets 10:25pm (UTC)", at(2026, 11, 15, 22, 25)),
        ("You've hit your session limit · resets 8:29pm (UTC)", at(2026, 11, 15, 20, 29)),
        ("You've hit your session limit · resets 8:28pm (UTC)", at(2026, 11, 16, 20, 28)),
        ("You've hit your weekly limit · resets Nov 18, 3:50pm (America/New_York)", at(2026, 11, 18, 20, 50)),
        ("Weekly limit reached · resets Jan 2, 12am (UTC)", at(2027, 1, 2, 0, 0)),
        ("Weekly limit reached · resets 12pm (UTC)", at(2026, 11, 16, 12, 0)),
        ("You've hit your limit · resets 3am (Asia/Tokyo)", at(2026, 11, 16, 18, 0)),
        ("Claude AI usage limit reached|0", None),
        ("You've hit your limit · resets Feb 30, 3pm (UTC)", None),
        ("You've hit your limit · resets 3pm (Nowhere/Land)", None),
        ("API Error: Request rejected (429) · slow down", None),
        ("", None),
    ],
)
def test_reset_time(text: str, expected: float | None) -> None:
    assert reset_time(text, NOW) == expected


def test_without_a_zone_local_time_is_assumed() -> None:
    local = datetime(2026, 11, 15, 22, 25).astimezone()
    assert reset_time("Session limit reached ∙ resets 10:25pm", local.replace(hour=20)) == local.timestamp()
