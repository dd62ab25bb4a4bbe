"""Recognise what Claude Code's messages mean: causes of failure, reset times, text mode."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from youbencha.adapters.claude_code import codes
from youbencha.adapters.claude_code.config import CLAUDE
from youbencha.adapters.cli_agent import causes
from youbencha.adapters.cli_agent.causes import Cause, pattern
from youbencha.json_lines import clean_text
from youbencha.log import Message, ToolCall, iso_time
from youbencha.log.session import SessionFacts, SessionRecord
from youbencha.usage import SessionUsage, Tokens

_STATUS_IN_TEXT = re.compile(r"API Error: (?:Request rejected \()?(\d{3})\b")


@dataclass(frozen=True, kw_only=True)
class Evidence(causes.FailureEvidence):
    """What was said about a failure; older versions say the HTTP status in the text only."""

    def http_status(self) -> int | None:
        found = _STATUS_IN_TEXT.search(self.text)
        return self.status or (int(found[1]) if found else None)

    def resets_at(self, seen_at: datetime) -> float | None:
        return reset_time(self.text, seen_at)


CAUSES = (
    Cause(
        code=codes.MAX_TURNS,
        kind="max_turns",
        subtypes=frozenset({"error_max_turns"}),
        words=pattern(r"^Error: Reached max turns"),
        says="Claude Code stopped at its limit of turns",
        hint="Raise `max_turns`, or give the agent a smaller task.",
    ),
    Cause(
        code=codes.MAX_BUDGET,
        kind="max_budget",
        subtypes=frozenset({"error_max_budget_usd"}),
        statuses=frozenset({402}),
        words=pattern(
            r"youBencha: the budget is spent|budget has been exceeded|exceeded (?:usd )?budget|^Error: .*maximum budget"
        ),
        says="Claude Code stopped because the budget was spent",
        hint="Raise the budget of the run (`max_budget_usd`, or the gateway's cap).",
    ),
    Cause(
        code=codes.AUTH_FAILED,
        kind="authentication",
        kinds=frozenset({"authentication_failed"}),
        statuses=frozenset({401}),
        words=pattern(r"not logged in|invalid api key|please run /login|failed to authenticate|oauth token .*expired"),
        says="Claude Code failed at authentication: no valid API key or login",
        hint=CLAUDE.how_to_authenticate,
    ),
    Cause(
        code=codes.RATE_LIMIT,
        kind="rate_limit",
        kinds=frozenset({"rate_limit"}),
        statuses=frozenset({429}),
        words=pattern(r"limit reached|spending cap reached|hit your .*limit|reached your .*limit|rate_limit_error"),
        says="Claude Code was stopped by a rate limit",
        hint="Wait until the limit resets, run fewer trials at a time, or use a key with a higher limit.",
    ),
    Cause(
        code=codes.REFUSED,
        kind="refusal",
        refusal=True,
        words=pattern(r"violate our usage policy|safeguards flagged"),
        says="The model declined the request",
        hint="Reword the task, or run it on another model; this is the model's answer, not a fault of the run.",
    ),
    Cause(
        code=codes.API_ERROR,
        kind="billing",
        kinds=frozenset({"billing_error"}),
        words=pattern(r"credit balance is too low"),
        says="The account behind the key has no credit",
        hint="Add credit to the account, or use another key.",
    ),
    Cause(
        code=codes.API_ERROR,
        kind="model_not_found",
        kinds=frozenset({"model_not_found"}),
        statuses=frozenset({404}),
        says="The model is unknown to the API, or the key may not use it",
        hint="Check `model`, and that the key (or the gateway) offers it.",
    ),
    Cause(
        code=codes.API_ERROR,
        kind="prompt_too_long",
        statuses=frozenset({413}),
        words=pattern(r"prompt is too long"),
        says="The conversation no longer fits into the model's context",
        hint="Give the agent a smaller task or a shorter prompt, or use a model with a larger context.",
    ),
    Cause(
        code=codes.API_ERROR,
        kind="max_output_tokens",
        kinds=frozenset({"max_output_tokens"}),
        words=pattern(r"exceeded the \d+ output token maximum"),
        says="The model's answer did not fit into its limit of output tokens",
        hint="Raise `max_tokens` (CLAUDE_CODE_MAX_OUTPUT_TOKENS).",
    ),
    Cause(
        code=codes.API_ERROR,
        kind="server",
        kinds=frozenset({"server_error", "overloaded"}),
        statuses=frozenset({500, 502, 503, 504, 529}),
        words=pattern(r"connection error|unable to connect|connection refused|request timed out|malformed response"),
        says="The API did not answer, or answered that it cannot serve",
        hint="Try again later; if it stays so, check ANTHROPIC_BASE_URL, the gateway and the network.",
    ),
)

EXECUTION = Cause(
    code=codes.EXECUTION_ERROR,
    kind="execution",
    says="Claude Code broke off in the middle of its work",
    hint="The raw log shows the last thing it did. Interrupted tools and a model call that was cut are the usual "
    "reasons; run it again.",
)

OTHER = Cause(
    code=codes.API_ERROR,
    kind="other",
    says="A call to the model failed",
    hint="The text above is the API's own; the raw log has the whole exchange.",
)


def find_cause(evidence: Evidence) -> Cause | None:
    """The row that fits, if one does."""
    return causes.find_cause(evidence, CAUSES)


def cause_of(evidence: Evidence) -> Cause:
    """Of a failure that the agent itself reported; subtypes of later versions are failures too."""
    return find_cause(evidence) or (EXECUTION if evidence.subtype else OTHER)


# Plain text from the CLI, and what the seeds hope to find in it.
#
# No version of the CLI was seen to print these strings in `-p` mode (it prints the answer and nothing else), so they
# are a fallback for wrappers and logs that do. Numbers come from stream-json wherever there is one.

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
    """What a plain text says about the session that wrote it."""

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
    """The pattern's first find, tried only on lines with `key` in them: 1 MB takes 5 ms instead of 200."""
    at = lowered.find(key)
    while at >= 0:
        start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
        end = end if end >= 0 else len(text)
        if found := pattern.search(text, start, end):
            return next(group for group in found.groups() if group)
        at = lowered.find(key, end)
    return None


def _lowered(text: str) -> str:
    """In small letters, each in its place ("İ" has a small form of two characters)."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else "".join(c.lower() if c.isascii() else c for c in text)


def _number(digits: str | None) -> int | None:
    # Longer than any count of tokens is not one (and int() refuses absurd lengths).
    return int(digits.replace(",", "")) if digits and len(digits) <= 24 else None


# When a usage limit ends, from what the CLI says of it.
#
#     Claude AI usage limit reached|1794781501                          1.0.x
#     Session limit reached ∙ resets 10:25pm                            1.0.128: local time
#     5-hour limit reached · resets 10:25pm (UTC)                       2.0.62
#     You've hit your weekly limit · resets Nov 18, 3:50pm (America/New_York)
#
# The year is never said, so the next such moment is meant.

_EPOCH = re.compile(r"limit reached\|(\d{9,11})\b")

_CLOCK = re.compile(
    r"resets (?:(?P<month>[A-Z][a-z]{2}) (?P<day>\d{1,2}),? )?(?:at )?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?\s?(?P<half>[ap]m)(?: \((?P<zone>[^)]+)\))?"
)

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def reset_time(text: str, seen_at: datetime) -> float | None:
    """Seconds since the epoch; None if the text does not say, or says it in a way we do not know."""
    if epoch := _EPOCH.search(text):
        return float(epoch[1])
    clock = _CLOCK.search(text)
    return _next_moment(clock, seen_at) if clock else None


def _next_moment(clock: re.Match[str], seen_at: datetime) -> float | None:
    try:
        now = seen_at.astimezone(_zone(clock["zone"]))
        hour = int(clock["hour"]) % 12 + (12 if clock["half"] == "pm" else 0)
        moment = now.replace(hour=hour, minute=int(clock["minute"] or 0), second=0, microsecond=0)
        if not clock["month"]:
            # The minute that is running may be the one that is meant: seconds are not said.
            return (moment if moment >= now - timedelta(minutes=1) else moment + timedelta(days=1)).timestamp()
        moment = moment.replace(month=_MONTHS.index(clock["month"]) + 1, day=int(clock["day"]))
        return (moment if moment >= now - timedelta(days=1) else moment.replace(year=now.year + 1)).timestamp()
    except (ValueError, ZoneInfoNotFoundError):  # no such day, or no such zone here
        return None


def _zone(name: str | None) -> tzinfo | None:
    """None: the local zone, which is the CLI's too."""
    return ZoneInfo(name) if name else None


def moment_of(seconds: float | None) -> str | None:
    """An epoch time as our files write it; None for one that no calendar holds."""
    if seconds is None or not math.isfinite(seconds):
        return None
    try:
        return iso_time(seconds)
    except (OverflowError, ValueError, OSError):
        return None
