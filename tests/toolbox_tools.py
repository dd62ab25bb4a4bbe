"""Real programs from the toolbox, for tests that cannot do without."""

from __future__ import annotations

import os

import pytest

from agent_clis import FROM_PYPI, OTHERS
from youbencha.sandbox.toolbox import InstalledAgent, Toolbox


def installed(name: str) -> InstalledAgent:
    """Without it the test is skipped, or fails where it must not be skipped."""
    version = {**OTHERS, **FROM_PYPI}[name]
    found = Toolbox().find(name, version)
    if found is None:
        reason = f"{name} is not in the toolbox: run `make agents` or `yb agents install {name}@{version}`"
        if os.environ.get("YOUBENCHA_REQUIRE_REAL_CLI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found
