"""What a run's directory is called: by what it is, when it began, and a word of its own."""

from __future__ import annotations

import os
import re
import time
from datetime import datetime

_NAME = re.compile(r".+-(2\d{3}-\d{2}-\d{2}-\d{6})-[0-9a-f]{6}")


def new_run_name(kind: str) -> str:
    return f"{kind}-{time.strftime('%Y-%m-%d-%H%M%S')}-{os.urandom(3).hex()}"


def when_made(name: str) -> datetime | None:
    """None if no run of ours is called so."""
    found = _NAME.fullmatch(name)
    try:
        return datetime.fromisoformat(found[1]).astimezone() if found else None
    except ValueError:
        return None
