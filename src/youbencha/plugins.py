"""Find plugins by name: built-in ones in a table, those of other packages by entry point."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, NamedTuple

from youbencha.text import did_you_mean


class Plugins(NamedTuple):
    group: str
    """The group of entry points that adds to the built-in ones."""
    built_in: Mapping[str, str]
    """`module:attribute` by name. An entry point cannot replace these, so finding one needs no search of the installed
    packages."""

    def names(self) -> list[str]:
        return sorted({*self.built_in, *self._entry_points()})

    def find(self, name: str) -> str | None:
        """Return `module:attribute` of the plugin."""
        return self.built_in.get(name) or self._entry_points().get(name)

    def hint(self, name: str) -> str:
        """Return a hint for a name that was not found."""
        names = self.names()
        near = did_you_mean(name, names)
        listed = f"Available: {', '.join(names)}. Check the spelling, or install the package that provides it."
        return f"{near[0].upper()}{near[1:]} {listed}" if near else listed

    def _entry_points(self) -> dict[str, str]:
        return {point.name: point.value for point in entry_points(group=self.group)}


ADAPTERS = Plugins(
    "youbencha.adapters",
    {
        "aider": "youbencha.adapters.aider:AiderAdapter",
        "claude-code": "youbencha.adapters.claude_code:ClaudeCodeAdapter",
        "codex": "youbencha.adapters.codex:CodexAdapter",
        "command": "youbencha.adapters.command:CommandAdapter",
        "copilot-cli": "youbencha.adapters.copilot_cli:CopilotCliAdapter",
        "gemini-cli": "youbencha.adapters.gemini_cli:GeminiCliAdapter",
        "opencode": "youbencha.adapters.opencode:OpenCodeAdapter",
    },
)
"""The adapters, one for each agent. All facts about an agent are in its adapter."""


def load(where: str) -> Any:
    """Import what `module:attribute` names."""
    module, _, attribute = where.partition(":")
    return getattr(import_module(module), attribute)
