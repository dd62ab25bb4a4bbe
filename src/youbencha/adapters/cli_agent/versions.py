"""Versions of CLIs: the oldest that an adapter works with, and flags that came later. Every number was measured."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from packaging.version import Version

_VERSION = re.compile(r"\d+\.\d+\.\d+")


def parse_version(text: str) -> Version | None:
    """Parse what `--version` prints: `2.1.325 (Claude Code)`. A pre-release counts as its release."""
    match = _VERSION.match(text.strip())
    return Version(match[0]) if match else None


@dataclass(frozen=True)
class SupportedVersions:
    """The versions of a CLI that its adapter works with."""

    oldest: Version
    """The oldest that completed a task with a scripted model. Earlier ones failed, or could not be tried."""
    flags: Mapping[str, Version] = field(default_factory=dict)
    """The first version with each flag that is newer than `oldest`. Without it, the adapter omits the flag."""

    def has(self, flag: str, version: str) -> bool:
        """Return whether this version has the flag. A version that cannot be compared counts as new."""
        known = parse_version(version)
        return known is None or known >= self.flags[flag]

    def is_too_old(self, version: str) -> bool:
        known = parse_version(version)
        return known is not None and known < self.oldest
