"""Clones of the original programs whose files youBencha reads. They are not part of this repository.

`YOUBENCHA_ORIGINALS` names the directory with the clones. Tests that need one are marked `full`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import pytest

Original = Literal["youbencha-cli", "thunderdome", "ralph-orchestrator"]
OWNERS: dict[Original, str] = {
    "youbencha-cli": "youbencha",
    "thunderdome": "signalnine",
    "ralph-orchestrator": "mikeyobrien",
}


def original(name: Original) -> Path:
    """Return the clone of an original, `OWNER+NAME` below $YOUBENCHA_ORIGINALS; skip the test without one."""
    directory = os.environ.get("YOUBENCHA_ORIGINALS")
    if not directory:
        pytest.skip("YOUBENCHA_ORIGINALS is not set")
    clone = Path(directory) / f"{OWNERS[name]}+{name}"
    assert clone.is_dir(), f"{clone} is missing; clone github.com/{OWNERS[name]}/{name} there"
    return clone
