"""Golden pictures are those of the versions in constraints.txt."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

import pytest

CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"


def pinned_only(*packages: str) -> pytest.MarkDecorator:
    """Skip a test of what these packages draw if they are installed in other versions, as the nightly run does."""
    pins = set(re.findall(r"^([\w.-]+)==([\w.]+)", CONSTRAINTS.read_text(encoding="utf-8"), re.MULTILINE))
    others = [name for name in packages if (name, version(name)) not in pins]
    return pytest.mark.skipif(bool(others), reason=f"not in the version of constraints.txt: {', '.join(others)}")
