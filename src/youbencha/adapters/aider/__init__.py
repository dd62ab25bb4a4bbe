"""Aider: the adapter, and the configuration that it takes."""

from youbencha.adapters.aider.adapter import AiderAdapter
from youbencha.adapters.aider.command import AiderConfig

__all__ = ["AiderAdapter", "AiderConfig"]
