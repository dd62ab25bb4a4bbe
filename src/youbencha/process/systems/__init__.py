"""What differs between Linux, macOS and Windows, behind one small interface."""

from __future__ import annotations

import sys
from functools import cache

from youbencha.process.systems.base import Running, Source, System

__all__ = ["Running", "Source", "System", "this_system"]


@cache
def this_system() -> System:
    system: System
    if sys.platform == "win32":
        from youbencha.process.systems.windows import WindowsSystem

        system = WindowsSystem()
    else:
        from youbencha.process.systems.posix import PosixSystem

        system = PosixSystem()
    return system
