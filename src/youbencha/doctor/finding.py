"""What was found out, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "note", "failed"]
Group = Literal["system", "storage", "agents"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    group: Group
    name: str
    state: State
    """`note`: something that a run may do without. `failed`: it cannot be used as it is."""
    detail: str
    fix: str | None = None
    """What to do about it."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    findings: tuple[Finding, ...]

    @property
    def usable_agents(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.findings if each.group == "agents" and each.state == "ok")

    @property
    def missing(self) -> tuple[str, ...]:
        """What keeps every run from working. One agent is enough, whichever it is."""
        broken = [each.name for each in self.findings if each.group != "agents" and each.state == "failed"]
        return (*broken, *(() if self.usable_agents else ("an agent that can be used",)))

    @property
    def ready(self) -> bool:
        return not self.missing
