"""Read Claude Code's messages: its own causes of failure, and plain text."""

from __future__ import annotations

import re
from dataclasses import dataclass

from youbencha.adapters.cli_agent import Cause, codes
from youbencha.adapters.cli_agent.causes import INVALID_OPTION
from youbencha.json_lines import clean_text
from youbencha.log.model import Message, ToolCall
from youbencha.log.session import SessionFacts, SessionRecord
from youbencha.usage import SessionUsage, Tokens

OWN_CAUSES = (
    Cause(
        code=codes.API_ERROR,
        kind="max_output_tokens",
        kinds=frozenset({"max_output_tokens"}),
        pattern=r"exceeded the \d+ output token maximum",
        message="The model's answer did not fit into its limit of output tokens",
        hint="Raise `max_tokens` (CLAUDE_CODE_MAX_OUTPUT_TOKENS).",
    ),
    Cause(
        code=codes.EXIT_CODE,
        kind=INVALID_OPTION,
        pattern=r"^error: (?:unknown option|option '[^']*' argument)",
        message="{agent} does not accept its options",
        hint="This version of the CLI does not know an option: correct it, or use another version.",
    ),
)

# No version of the CLI was seen to print these strings in `-p` mode (it prints the answer and nothing else), so they
# are a fallback for wrappers and logs that do. Numbers come from stream-json if there is one.

# A name that is not Claude's counts only at the start of a line: "Data Model: users" is an answer, not a model.
MODEL_PATTERN = re.compile(r"\bModel:\s+(claude[\w\-.]*)|^[^\w\n]*Model:\s+([\w\-.]+)", re.IGNORECASE | re.MULTILINE)

VERSION_PATTERN = re.compile(
    r"\bClaude Code (?:CLI )?v?(\d+(?:\.\d+)*)|\b(\d+\.\d+\.\d+) \(Claude Code\)", re.IGNORECASE
)

INPUT_TOKENS_PATTERN = re.compile(r"\bInput tokens:\s*(\d[\d,]*)", re.IGNORECASE)
OUTPUT_TOKENS_PATTERN = re.compile(r"\bOutput tokens:\s*(\d[\d,]*)", re.IGNORECASE)
TOOL_CALL_PATTERN = re.compile(r"\[TOOL:\s+([\w.\-]+)\][ \t]*([^\n]*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TextToolCall:
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class TextFacts:
    """What a plain text shows about its session."""

    content: str
    model: str | None
    version: str | None
    input_tokens: int | None
    output_tokens: int | None
    tool_calls: tuple[TextToolCall, ...]


def read_text(output: str) -> TextFacts:
    content = clean_text(output).strip()
    lowered = _lowered(content)
    return TextFacts(
        content=content,
        model=_first(MODEL_PATTERN, "model:", content, lowered),
        version=_first(VERSION_PATTERN, "claude code", content, lowered),
        input_tokens=_number(_first(INPUT_TOKENS_PATTERN, "input tokens:", content, lowered)),
        output_tokens=_number(_first(OUTPUT_TOKENS_PATTERN, "output tokens:", content, lowered)),
        tool_calls=tuple(TextToolCall(found[1], found[2].strip()) for found in TOOL_CALL_PATTERN.finditer(content)),
    )


def plain_session(output: str) -> SessionRecord:
    """A session from its output in text mode."""
    found = read_text(output)
    tokens = Tokens(found.input_tokens, found.output_tokens)
    usage = None if tokens == Tokens() else SessionUsage(tokens)
    return SessionRecord(
        facts=SessionFacts(model=found.model, agent_version=found.version, usage=usage),
        messages=(Message(role="assistant", content=found.content),) if found.content else (),
        tool_calls=tuple(ToolCall(name=call.name, arguments=call.arguments) for call in found.tool_calls),
    )


def _first(pattern: re.Pattern[str], key: str, text: str, lowered: str) -> str | None:
    """The pattern's first match, searched only in lines that contain `key`: 1 MB takes 5 ms instead of 200."""
    at = lowered.find(key)
    while at >= 0:
        start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
        end = end if end >= 0 else len(text)
        if found := pattern.search(text, start, end):
            return next(group for group in found.groups() if group)
        at = lowered.find(key, end)
    return None


def _lowered(text: str) -> str:
    """The text in lower case, with the same length ("İ" has a lower case of two characters)."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else "".join(c.lower() if c.isascii() else c for c in text)


def _number(digits: str | None) -> int | None:
    # A longer number is not a token count (and int() refuses very long ones).
    return int(digits.replace(",", "")) if digits and len(digits) <= 24 else None
