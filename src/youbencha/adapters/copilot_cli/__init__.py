"""The adapter for the GitHub Copilot CLI, and its configuration."""

from youbencha.adapters.copilot_cli.adapter import CopilotCliAdapter, CopilotCliConfig

__all__ = ["CopilotCliAdapter", "CopilotCliConfig"]
