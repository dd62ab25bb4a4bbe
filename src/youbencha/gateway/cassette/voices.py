"""Whose words a text of a request is: what may differ from run to run depends on it. Pure.

What a tool gave back is full of dates, times and sizes of the moment. The model's own earlier words were recorded, so
they come back as they were. In all else, a person's words above all, 30 seconds are not 5 minutes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

Voice = Literal["tool", "model", "told"]

_OUTPUT_KEYS = frozenset({"functionResponse", "function_response", "codeExecutionResult"})
_ID_KEYS = frozenset({"id", "tool_use_id", "tool_call_id", "call_id", "item_id"})
"""Made up by a program, in whosever words they stand."""
_TOOL_ROLES = frozenset({"tool", "function"})
_MODEL_ROLES = frozenset({"assistant", "model"})

_TAGS = "env|task-notification|bash-stdout|bash-stderr|local-command-stdout"
_BLOCK = re.compile(
    # A reminder with CLAUDE.md in it holds what people want.
    r"<system-reminder>(?!(?:(?!</system-reminder>).)*# claudeMd\b).*?</system-reminder>"
    rf"|<(?P<tag>{_TAGS})>.*?</(?P=tag)>"
    r"|(?:\A|(?<=\n))gitStatus: .*?(?:\nRecent commits:\n(?:[^\n]+\n?)*|\Z)"
    r"|(?:\A|(?<=\n))Recent commits:\n(?:[^\n]+\n?)*"
    r"|(?:\A|(?<=\n))And got this output:\n.*\Z"  # Aider: it has no tools, and tells it as a person would
    r"|\ACommand: [^\n]*\nOutput: .*\Z",  # Claude Code asks a small model which files a command has read
    re.S,
)
_MARK = re.compile(
    r"<system-reminder>|<env>|<task-|<bash-|<local-|Recent commits:|gitStatus:|got this output:|\nOutput: "
)


def voice_of(value: Mapping[str, Any], around: Voice) -> Voice:
    """Of an object in a request: a message, a block of one, an item."""
    if around == "tool":
        return around
    kind, role = str(value.get("type", "")), value.get("role")
    if kind.endswith(("tool_result", "_call_output")) or role in _TOOL_ROLES:
        return "tool"
    return "model" if role in _MODEL_ROLES or kind.endswith("_call") or kind == "reasoning" else around


def voice_at(key: str, around: Voice) -> Voice:
    return "tool" if key in _OUTPUT_KEYS or key in _ID_KEYS else around


def stretches(text: str, voice: Voice) -> Iterator[tuple[int, int, Voice]]:
    """A text from start to end. What an agent puts among a person's words, it mostly marks: that is tools' output."""
    done = 0
    if voice == "told" and _MARK.search(text):
        for match in _BLOCK.finditer(text):
            yield done, match.start(), voice
            yield match.start(), match.end(), "tool"
            done = match.end()
    yield done, len(text), voice
