"""A real LiteLLM from the toolbox, and what its tests have in common."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from agent_clis import FROM_PYPI
from youbencha.gateway.upstreams import KeyHeader, Upstream
from youbencha.sandbox.toolbox import Toolbox

REAL_KEYS = {"anthropic": "real-anthropic-key", "openai": "real-openai-key", "gemini": "real-gemini-key"}
_HEADERS: dict[str, KeyHeader] = {"anthropic": "x-api-key", "openai": "authorization", "gemini": "x-goog-api-key"}
STARTUP_S = 180.0
"""It takes six seconds; on a machine that does much else, many more."""


def installed_litellm() -> Path:
    """Without it the test is skipped, or fails where it must not be skipped."""
    found = Toolbox().find("litellm", FROM_PYPI["litellm"])
    if found is None:
        reason = "LiteLLM is not in the toolbox: run `make agents` or `yb agents install litellm`"
        if os.environ.get("YOUBENCHA_REQUIRE_REAL_CLI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found.executable


def upstreams(url: str) -> list[Upstream]:
    return [Upstream(provider, url, key, _HEADERS[provider]) for provider, key in REAL_KEYS.items()]  # type: ignore[arg-type]


def processes_with(text: str) -> list[int]:
    """Those that have it among their arguments, zombies apart."""
    found = []
    for process in psutil.process_iter():
        try:
            if any(text in part for part in process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except (psutil.Error, OSError):
            continue
    return found
