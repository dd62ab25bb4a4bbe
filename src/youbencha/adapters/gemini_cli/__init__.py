"""Gemini CLI: the adapter, and the configuration that it takes."""

from youbencha.adapters.gemini_cli.adapter import GeminiCliAdapter
from youbencha.adapters.gemini_cli.config import GeminiCliConfig

__all__ = ["GeminiCliAdapter", "GeminiCliConfig"]
