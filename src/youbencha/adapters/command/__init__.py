"""The adapter for any program that gets a prompt, works in the workspace, and ends."""

from youbencha.adapters.command.adapter import CommandAdapter
from youbencha.adapters.command.program import CommandAgentConfig

__all__ = ["CommandAdapter", "CommandAgentConfig"]
