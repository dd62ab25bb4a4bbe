"""Tools that were used though nobody asked us, and that we would have denied.

The hook by which a CLI asks can be switched off behind our back: 1.0.128 and 2.0.62 do so if the repository's settings
say `disableAllHooks` (measured; 2.1.325 asks all the same). What was done is done, but a run that goes on would be one
that claims a policy and has none.
"""

from __future__ import annotations

from youbencha.control.approval import decided
from youbencha.control.policy import ToolPolicy
from youbencha.control.reading import Message, blocks, text


class Unasked:
    def __init__(self, policy: ToolPolicy) -> None:
        self._policy = policy
        self._matters = not policy.allows_all
        self._asked: set[str] = set()
        self._denied: dict[str, str] = {}

    def asked(self, call: str | None) -> None:
        """1.0.128 does not name it where it asks by itself: then nothing can be told of any call."""
        if call is None:
            self._matters = False
        else:
            self._asked.add(call)

    def found(self, message: Message) -> str | None:
        """Which rule was broken, if this message tells of such a call."""
        kind = message.get("type") if self._matters else None
        for block in blocks(message):
            if kind == "assistant" and block.get("type") == "tool_use":
                self._announced(block)
            elif kind == "user" and block.get("type") == "tool_result" and (broken := self._returned(block)):
                return broken
        return None

    def _announced(self, use: Message) -> None:
        call, tool = text(use.get("id")), text(use.get("name"))
        allowed, reason = decided(self._policy, tool, use.get("input"))
        if call and not allowed:
            self._denied[call] = reason

    def _returned(self, result: Message) -> str | None:
        """A call that failed may have been refused before anybody is asked: for its input, by the CLI's own mode."""
        call = text(result.get("tool_use_id")) or ""
        reason = self._denied.pop(call, None)
        return None if call in self._asked or result.get("is_error") else reason
