"""Gemini CLI: the adapter, and the configuration that it takes."""

from youbencha.adapters.gemini_cli.adapter import GeminiCliAdapter, GeminiCliConfig

__all__ = ["GeminiCliAdapter", "GeminiCliConfig"]
