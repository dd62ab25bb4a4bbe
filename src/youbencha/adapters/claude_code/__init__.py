"""The adapter for Claude Code, and its configuration."""

from youbencha.adapters.claude_code.agent import ClaudeCodeAdapter
from youbencha.adapters.claude_code.options import ClaudeCodeConfig

__all__ = ["ClaudeCodeAdapter", "ClaudeCodeConfig"]
