"""Whose API a model is reached by, as far as its name tells."""

from __future__ import annotations

from collections.abc import Mapping

from youbencha.gateway.routes import PROVIDER_OF_PREFIX, Provider

_BEGINNINGS: Mapping[str, Provider] = {
    "claude": "anthropic",
    "gpt-": "openai",
    "chatgpt-": "openai",
    "codex-": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "gemini-": "gemini",
}


def provider_of(model: str | None) -> Provider | None:
    """None for a name that does not tell."""
    before, slash, name = (model or "").partition("/")
    if slash:
        return PROVIDER_OF_PREFIX.get(before) if "/" not in name else None
    return next((provider for start, provider in _BEGINNINGS.items() if before.startswith(start)), None)
