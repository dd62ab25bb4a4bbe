"""The adapter for Aider, and its configuration."""

from youbencha.adapters.aider.agent import AiderAdapter, AiderConfig

__all__ = ["AiderAdapter", "AiderConfig"]
