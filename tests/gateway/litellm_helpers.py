"""Helpers for the tests of a real LiteLLM from the toolbox."""

from __future__ import annotations

import psutil

from youbencha.gateway.upstreams import KeyHeader, Upstream

REAL_KEYS = {"anthropic": "real-anthropic-key", "openai": "real-openai-key", "gemini": "real-gemini-key"}
_HEADERS: dict[str, KeyHeader] = {"anthropic": "x-api-key", "openai": "authorization", "gemini": "x-goog-api-key"}
STARTUP_S = 180.0
"""It takes six seconds; on a machine that does much else, many more."""


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
