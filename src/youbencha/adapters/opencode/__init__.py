"""The adapter for opencode, and its configuration."""

from youbencha.adapters.opencode.adapter import OpenCodeAdapter, OpenCodeConfig

__all__ = ["OpenCodeAdapter", "OpenCodeConfig"]
