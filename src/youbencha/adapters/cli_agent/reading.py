"""Reading a bounded output again: where it was cut, and where its events are. No copy of it is taken."""

from __future__ import annotations

from collections.abc import Iterator

from youbencha.adapters.cli_agent.terminal_text import clean_text, strip_ansi
from youbencha.log import ErrorRecord, Message
from youbencha.process import TRUNCATION_MARK, Redactor

_NOISE = "\x1b\r \t"


def truncation(output: str) -> int | None:
    """Where the marker stands, if the output was cut. Inside an event it would follow no raw line end."""
    if output.startswith(TRUNCATION_MARK):
        return 0
    found = output.find("\n" + TRUNCATION_MARK)
    if found >= 0:
        return found + 1
    last = output.rfind("\n", 0, len(output) - 1) + 1
    found = output.find(TRUNCATION_MARK, last)
    # Whole events in the last line only quote it.
    return found if found >= 0 and not output.rstrip().endswith("}") else None


def event_spans(output: str, end: int) -> Iterator[tuple[int, int]]:
    """Where the lines are that may be events. By "\\n" alone: splitlines() would also cut at U+2028 inside a text."""
    start, find = 0, output.find
    while start < end:
        stop = find("\n", start, end)
        if stop < 0:
            stop = end
        first = output[start]
        if first == "{" or (first in _NOISE and strip_ansi(output[start:stop]).lstrip().startswith("{")):
            yield start, stop
        start = stop + 1


def with_prompt(messages: list[Message], prompt: object, redactor: Redactor) -> list[Message]:
    """The conversation begins with what the agent was asked to do."""
    if not isinstance(prompt, str) or not prompt:
        return messages
    # The output came redacted; the prompt comes straight from the configuration, and may name a secret too.
    prompt = redactor.text(clean_text(prompt))
    # Some CLIs repeat it in their output.
    replayed = messages and messages[0].role == "user" and messages[0].content == prompt
    return messages if replayed else [Message(role="user", content=prompt), *messages]


def has_code(records: tuple[ErrorRecord, ...], code: str) -> bool:
    return any(record.code == code for record in records)
