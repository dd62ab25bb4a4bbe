"""The adapter for Claude Code, and its configuration."""

from youbencha.adapters.claude_code.adapter import ClaudeCodeAdapter
from youbencha.adapters.claude_code.config import ClaudeCodeConfig

__all__ = ["ClaudeCodeAdapter", "ClaudeCodeConfig"]
