"""Real programs from the toolbox, for tests that need them."""

from __future__ import annotations

import os

import pytest

from agent_clis import FROM_PYPI, OTHERS
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.sandbox.toolbox.toolbox import Toolbox

fetched = False
"""Whether these programs are part of this run: only `make test-all` fetches them."""


def installed(name: str, version: str | None = None) -> InstalledAgent:
    """Without it the test is skipped, or fails where it must not be skipped; only tests marked `full` may ask."""
    if not fetched:
        pytest.fail(f"{name} is not fetched for `make test`: mark this test `full`")
    version = version or {**OTHERS, **FROM_PYPI}[name]
    found = Toolbox().find(name, version)
    if found is None:
        reason = f"{name} is not in the toolbox: run `yb agents install {name}@{version}`"
        if os.environ.get("YOUBENCHA_REQUIRE_REAL_CLI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found
