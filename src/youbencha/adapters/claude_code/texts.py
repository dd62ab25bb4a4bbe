"""Read Claude Code's messages: its own causes of failure, and what its text says of a run."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pydantic import ConfigDict, TypeAdapter

from youbencha.adapters.cli_agent import Cause, codes
from youbencha.adapters.cli_agent.causes import INVALID_OPTION
from youbencha.log.model import ToolCall
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

# No version of the CLI was seen to print these strings in `-p` mode (it prints the answer and nothing else): wrappers
# and logs do, and an answer may. They count at the beginning of a line, outside of code blocks, and never if there is
# a measurement.

_MODEL = re.compile(r"model:[ \t]+(claude[\w.\-]*|[\w.\-]+(?=[ \t]*(?:$|[(,;|])))", re.IGNORECASE)
_VERSION = re.compile(r"claude code (?:cli )?v?(\d+(?:\.\d+)*)|(\d+\.\d+\.\d+) \(claude code\)", re.IGNORECASE)
_TOKENS = re.compile(r"\b(input|output) tokens:[ \t]*(\d[\d,]*)", re.IGNORECASE)
_TOOL_CALL = re.compile(r"\[tool:[ \t]+([\w.\-]+)\][ \t]*(.*)", re.IGNORECASE)
_CLAIM_OR_FENCE = re.compile(
    r"^ {0,3}(?:(`{3,}|~{3,})|((?:model:|(?:input|output) tokens:|\[tool:|claude code|\d+\.\d+\.\d+ \(claude).*))",
    re.IGNORECASE | re.MULTILINE,
)
_TOOL_CALLS = TypeAdapter(tuple[ToolCall, ...], config=ConfigDict(defer_build=True))


def read_claims(text: str) -> SessionRecord:
    """What a text says of its session: the version, the model, the tokens and the tool calls."""
    model = version = None
    tokens: dict[str, int | None] = {}
    calls: list[dict[str, str]] = []
    for line in _claims_in(text):
        if found := _TOOL_CALL.match(line):
            calls.append({"name": found[1], "arguments": found[2].rstrip()})
        elif found := _MODEL.match(line):
            model = model or found[1]
        elif found := _VERSION.match(line):
            version = version or found[1] or found[2]
        else:
            for kind, digits in _TOKENS.findall(line):
                tokens.setdefault(kind.lower(), _number(digits))
    counted = Tokens(tokens.get("input"), tokens.get("output"))
    return SessionRecord(
        facts=SessionFacts(
            model=model, agent_version=version, usage=None if counted == Tokens() else SessionUsage(counted)
        ),
        tool_calls=_TOOL_CALLS.validate_python(calls),
    )


def _claims_in(text: str) -> Iterator[str]:
    """The lines that begin like a claim, outside of code blocks; without the spaces before them."""
    fence = ""
    for mark, claim in _CLAIM_OR_FENCE.findall(text):
        if claim and not fence:
            yield claim
        elif mark and not fence:
            fence = mark
        elif mark and mark.startswith(fence):
            fence = ""


def _number(digits: str) -> int | None:
    # A longer number is not a token count (and int() refuses very long ones).
    return int(digits.replace(",", "")) if len(digits) <= 24 else None
