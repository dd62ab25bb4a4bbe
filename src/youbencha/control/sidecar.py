"""Writes the metrics sidecar."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_sidecar(path: Path, metrics: Mapping[str, Any]) -> None:
    """Whole or not at all; and never through a link that somebody has put in its place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(metrics, file, indent=2)
            file.write("\n")
        Path(name).chmod(0o644)  # whoever runs an adapter need not be who reads what it wrote
        Path(name).replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
