"""Whose API a model is reached by, as far as its name tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from youbencha.gateway.routes import Provider

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
OF_PREFIX: Mapping[str, Provider] = {
    "anthropic": "anthropic",
    "openai": "openai",
    "google": "gemini",
    "gemini": "gemini",
}
"""What stands before the slash of `provider/model`, in opencode's words and in LiteLLM's."""


def provider_of(model: str | None) -> Provider | None:
    """None for a name that does not tell."""
    before, slash, name = (model or "").partition("/")
    if slash:
        return OF_PREFIX.get(before) if "/" not in name else None
    return next((provider for start, provider in _BEGINNINGS.items() if before.startswith(start)), None)
