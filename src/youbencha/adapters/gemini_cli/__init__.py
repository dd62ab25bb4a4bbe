"""The adapter for Gemini CLI, and its configuration."""

from youbencha.adapters.gemini_cli.adapter import GeminiCliAdapter, GeminiCliConfig

__all__ = ["GeminiCliAdapter", "GeminiCliConfig"]
