"""The adapter for Codex, OpenAI's CLI, and its configuration."""

from youbencha.adapters.codex.adapter import CodexAdapter, CodexConfig

__all__ = ["CodexAdapter", "CodexConfig"]
