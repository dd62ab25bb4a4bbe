"""The adapter for any program that gets a prompt, works in the workspace, and ends."""

from youbencha.adapters.command.adapter import CommandAdapter, CommandAgentConfig

__all__ = ["CommandAdapter", "CommandAgentConfig"]
