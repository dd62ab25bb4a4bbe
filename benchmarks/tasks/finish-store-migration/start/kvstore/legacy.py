"""Format 1: one JSON object."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read_v1(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def write_v1(path: Path, values: dict[str, Any]) -> None:
    path.write_text(json.dumps(values), encoding="utf-8")
