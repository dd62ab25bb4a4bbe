"""When a usage limit ends, from what the CLI says of it.

    Claude AI usage limit reached|1794781501                          1.0.x
    Session limit reached ∙ resets 10:25pm                            1.0.128: local time
    5-hour limit reached · resets 10:25pm (UTC)                       2.0.62
    You've hit your weekly limit · resets Nov 18, 3:50pm (America/New_York)

The year is never said, so the next such moment is meant.
"""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from youbencha.log import iso_time

_EPOCH = re.compile(r"limit reached\|(\d{9,11})\b")
_CLOCK = re.compile(
    r"resets (?:(?P<month>[A-Z][a-z]{2}) (?P<day>\d{1,2}),? )?(?:at )?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?\s?(?P<half>[ap]m)(?: \((?P<zone>[^)]+)\))?"
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def reset_time(text: str, seen_at: datetime) -> float | None:
    """Seconds since the epoch; None if the text does not say, or says it in a way we do not know."""
    if epoch := _EPOCH.search(text):
        return float(epoch[1])
    clock = _CLOCK.search(text)
    return _next_moment(clock, seen_at) if clock else None


def _next_moment(clock: re.Match[str], seen_at: datetime) -> float | None:
    try:
        now = seen_at.astimezone(_zone(clock["zone"]))
        hour = int(clock["hour"]) % 12 + (12 if clock["half"] == "pm" else 0)
        moment = now.replace(hour=hour, minute=int(clock["minute"] or 0), second=0, microsecond=0)
        if not clock["month"]:
            # The minute that is running may be the one that is meant: seconds are not said.
            return (moment if moment >= now - timedelta(minutes=1) else moment + timedelta(days=1)).timestamp()
        moment = moment.replace(month=_MONTHS.index(clock["month"]) + 1, day=int(clock["day"]))
        return (moment if moment >= now - timedelta(days=1) else moment.replace(year=now.year + 1)).timestamp()
    except (ValueError, ZoneInfoNotFoundError):  # no such day, or no such zone here
        return None


def _zone(name: str | None) -> tzinfo | None:
    """None: the local zone, which is the CLI's too."""
    return ZoneInfo(name) if name else None


def moment_of(seconds: float | None) -> str | None:
    """An epoch time as our files write it; None for one that no calendar holds."""
    if seconds is None or not math.isfinite(seconds):
        return None
    try:
        return iso_time(seconds)
    except (OverflowError, ValueError, OSError):
        return None
