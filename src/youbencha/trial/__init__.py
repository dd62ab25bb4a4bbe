"""One trial from start to end, and its outcome."""

from __future__ import annotations
