"""The adapter for Aider, and its configuration."""

from youbencha.adapters.aider.adapter import AiderAdapter
from youbencha.adapters.aider.command import AiderConfig

__all__ = ["AiderAdapter", "AiderConfig"]
