"""Where mirrors of repositories are kept when nobody says."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path


def default_cache_dir(
    env: Mapping[str, str] = os.environ, platform: str = sys.platform, home: Path | None = None
) -> Path:
    """The place that this system has for what can be had again."""
    return _user_cache(env, platform, home or Path.home()) / "youbencha"


def _user_cache(env: Mapping[str, str], platform: str, home: Path) -> Path:
    if platform == "win32":
        return Path(env.get("LOCALAPPDATA") or home / "AppData" / "Local")
    if platform == "darwin":
        return home / "Library" / "Caches"
    # The XDG specification says to ignore a relative path here.
    xdg = Path(env.get("XDG_CACHE_HOME") or "")
    return xdg if xdg.is_absolute() else home / ".cache"
