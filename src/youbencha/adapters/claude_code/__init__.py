"""Claude Code: the adapter, and the configuration that it takes."""

from youbencha.adapters.claude_code.adapter import ClaudeCodeAdapter
from youbencha.adapters.claude_code.config import ClaudeCodeConfig

__all__ = ["ClaudeCodeAdapter", "ClaudeCodeConfig"]
