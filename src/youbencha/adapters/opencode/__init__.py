"""opencode: the adapter, and the configuration that it takes."""

from youbencha.adapters.opencode.adapter import OpenCodeAdapter, OpenCodeConfig

__all__ = ["OpenCodeAdapter", "OpenCodeConfig"]
