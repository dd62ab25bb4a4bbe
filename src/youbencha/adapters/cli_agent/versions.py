"""Versions of CLIs: the oldest that an adapter works with, and flags that came later. Every number was measured."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

_VERSION = re.compile(r"^(\d+)\.(\d+)\.(\d+)")


@dataclass(frozen=True, order=True)
class CliVersion:
    major: int
    minor: int
    patch: int

    @classmethod
    def parse(cls, text: str) -> CliVersion | None:
        """From what `--version` prints: `2.1.325 (Claude Code)`."""
        match = _VERSION.match(text.strip())
        return cls(*map(int, match.groups())) if match else None

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


class SupportedVersions(NamedTuple):
    """The versions of a CLI that its adapter works with."""

    oldest: CliVersion
    """The oldest that completed a task with a scripted model. Those before it failed, or could not be tried."""
    flags: Mapping[str, CliVersion] = MappingProxyType({})
    """Flags that are newer than that, by the first version that has them. Before, the adapter does without."""

    def has(self, flag: str, version: str) -> bool:
        """Whether this version has the flag. A version that cannot be compared is taken for a new one."""
        known = CliVersion.parse(version)
        return known is None or known >= self.flags[flag]

    def is_too_old(self, version: str) -> bool:
        known = CliVersion.parse(version)
        return known is not None and known < self.oldest
