"""GitHub Copilot CLI: the adapter, and the configuration that it takes."""

from youbencha.adapters.copilot_cli.adapter import CopilotCliAdapter, CopilotCliConfig

__all__ = ["CopilotCliAdapter", "CopilotCliConfig"]
