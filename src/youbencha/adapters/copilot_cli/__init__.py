"""GitHub Copilot CLI: the adapter, and the configuration that it takes."""

from youbencha.adapters.copilot_cli.adapter import CopilotCliAdapter
from youbencha.adapters.copilot_cli.config import CopilotCliConfig

__all__ = ["CopilotCliAdapter", "CopilotCliConfig"]
