"""What day it is."""

from __future__ import annotations

import os
from datetime import date


def today() -> date:
    """Today, or the day that LENDING_TODAY names."""
    named = os.environ.get("LENDING_TODAY")
    return date.fromisoformat(named) if named else date.today()
