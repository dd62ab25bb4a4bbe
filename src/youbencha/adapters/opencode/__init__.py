"""opencode: the adapter, and the configuration that it takes."""

from youbencha.adapters.opencode.adapter import OpenCodeAdapter
from youbencha.adapters.opencode.config import OpenCodeConfig

__all__ = ["OpenCodeAdapter", "OpenCodeConfig"]
