"""Codex, OpenAI's CLI: the adapter, and the configuration that it takes."""

from youbencha.adapters.codex.adapter import CodexAdapter, CodexConfig

__all__ = ["CodexAdapter", "CodexConfig"]
