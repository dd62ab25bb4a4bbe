"""Which tools an agent may use.

| rule | covers |
|---|---|
| `Bash` | every use of the tool |
| `Bash(git *)`, `Bash(git:*)` | `git` and `git …`: each command of the line, see `shell` |
| `Edit(src/*)` | a main argument: `*` is any text, in paths too |
| `WebFetch(domain:*.example.org)` | a host |
| `mcp__server`, `mcp__server__*` | every tool of a server |
| `*` | every tool |

A way to measure an agent with fewer tools. Not a boundary: a program that is allowed can start any other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from youbencha.control.rules import Rule, covering, parsed

_RULE = re.compile(r"[^\s()]+(?:\(.+\))?", re.DOTALL)


class Decision(NamedTuple):
    allowed: bool
    reason: str


class ToolPolicy(NamedTuple):
    allow: tuple[str, ...] | None = None
    """None: every tool. Empty: none."""
    deny: tuple[str, ...] = ()
    """Wins over `allow`."""
    root: str = ""
    """Where the agent works: what paths in rules and calls are relative to."""

    @property
    def allows_all(self) -> bool:
        return self.allow is None and not self.deny

    def decide(self, tool: str, given: Mapping[str, object]) -> Decision:
        for text in self.deny:
            if parsed(text).forbids(tool, given, self.root):
                return Decision(False, f"{tool} is denied by the rule {text}")
        if self.allow is None:
            return Decision(True, "every tool is allowed" if not self.deny else "no rule denies it")
        rules = [parsed(text) for text in self.allow]
        return self._allowed([rule for rule in rules if rule.names(tool)], tool, given)

    def _allowed(self, rules: list[Rule], tool: str, given: Mapping[str, object]) -> Decision:
        if not rules:
            return Decision(False, f"no rule allows {tool}")
        whole = next((rule for rule in rules if rule.argument is None), None)
        if whole is not None:
            return Decision(True, f"{tool} is allowed by the rule {whole}")
        found = covering(rules, tool, given, self.root)
        if found.missing is not None:
            return Decision(False, f"no rule allows {tool} with {found.missing}")
        return Decision(True, f"{tool} is allowed by the rule {' and '.join(found.rules)}")


ALLOW_ALL = ToolPolicy()


def problem_in(rule: str) -> str | None:
    """What is wrong with it, or None."""
    if not rule.strip():
        return "a rule is empty"
    if rule != rule.strip():
        return f"the rule {rule!r} begins or ends with a space"
    if _RULE.fullmatch(rule):
        return None
    if "(" in rule or ")" in rule:
        return f"the rule {rule!r} is not of the form Tool(argument)"
    return f"the rule {rule!r} has a space in the tool's name: for an argument write Tool(argument)"
