"""Why a session failed: from what was said about it to a code, and to what to do.

The first row that fits counts, and an agent's own rows come before the common ones. Patterns are looked for in the
error's own text only: an agent that works on a login page says "not logged in" too. They are compiled when a run has
failed: all of them take 2 ms.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import NamedTuple

import orjson

from youbencha.adapters.cli_agent import codes
from youbencha.json_lines import count, mapping, text
from youbencha.text import iso_time

_STATUS_IN_TEXT = r"API Error: (?:Request rejected \()?(\d{3})\b"
"""How Claude Code before 2.1.197 tells the HTTP status."""


@dataclass(frozen=True, kw_only=True)
class FailureEvidence:
    """What was said about a failure."""

    text: str
    subtype: str | None = None
    """What the agent's result calls it."""
    kind: str | None = None
    """What the agent's error calls it."""
    status: int | None = None
    refused: bool = False

    def http_status(self) -> int | None:
        found = re.search(_STATUS_IN_TEXT, self.text)
        return self.status or (int(found[1]) if found else None)


@dataclass(frozen=True, kw_only=True)
class Cause:
    """One row of the table: what it is known by, and what a person reads about it."""

    code: str
    """One of `codes`, without the agent's prefix."""
    kind: str
    """Goes into the error's context: finer than the code."""
    message: str
    """`{agent}` stands for the agent's title."""
    hint: str | None
    """None: how to authenticate this agent."""
    subtypes: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()
    statuses: frozenset[int] = frozenset()
    pattern: str | None = None
    """Capitals do not matter, and `^` is the start of a line."""
    refusal: bool = False

    def fits(self, evidence: FailureEvidence) -> bool:
        return (
            evidence.subtype in self.subtypes
            or evidence.kind in self.kinds
            or evidence.http_status() in self.statuses
            or (self.refusal and evidence.refused)
            or (self.pattern is not None and self._is_in(evidence.text))
        )

    def _is_in(self, said: str) -> bool:
        return re.search(self.pattern or "", said, re.IGNORECASE | re.MULTILINE) is not None


def find_cause(evidence: FailureEvidence, own: Iterable[Cause] = ()) -> Cause | None:
    """The first row that fits; `own` are the agent's."""
    return next((cause for cause in (*own, *COMMON_CAUSES) if cause.fits(evidence)), None)


COMMON_CAUSES = (
    Cause(
        code=codes.GAVE_UP,
        kind="gave_up",
        subtypes=frozenset({"gave_up"}),
        message="{agent} gave up",
        hint="This is its own verdict on the task, not a fault of the run. See what it said last.",
    ),
    Cause(
        code=codes.MAX_TURNS,
        kind="max_turns",
        subtypes=frozenset({"error_max_turns"}),
        pattern=r"max(?:imum)? (?:session )?turns|turn limit",
        message="{agent} stopped at its limit of turns",
        hint="Raise the limit, or give the agent a smaller task.",
    ),
    Cause(
        code=codes.MAX_BUDGET,
        kind="max_budget",
        subtypes=frozenset({"error_max_budget_usd"}),
        statuses=frozenset({402}),
        pattern=r"youBencha: the budget is spent|budget has been exceeded|exceeded (?:usd )?budget"
        r"|^Error: .*maximum budget",
        message="{agent} stopped because the budget was spent",
        hint="Raise the budget of the run, or the gateway's cap.",
    ),
    Cause(
        code=codes.AUTH_FAILED,
        kind="authentication",
        kinds=frozenset({"authentication", "authentication_error", "authentication_failed"}),
        statuses=frozenset({401}),
        pattern=r"not logged in|no authentication|authentication (?:failed|required|information)|unauthorized"
        r"|(?:invalid|incorrect|missing|no) (?:x-)?api[- ]key|api[- ]key (?:is )?(?:missing|not (?:found|set))"
        r"|please run /login|failed to authenticate|oauth token .*expired",
        message="{agent} failed at authentication: no valid API key or login",
        hint=None,
    ),
    Cause(
        code=codes.RATE_LIMIT,
        kind="rate_limit",
        kinds=frozenset({"rate_limit", "rate_limit_error", "quota"}),
        statuses=frozenset({429}),
        pattern=r"rate[ _-]?limit|too many requests|quota (?:exceeded|exhausted)|limit reached|spending cap reached"
        r"|(?:hit|reached) your .*limit",
        message="{agent} was stopped by a rate limit",
        hint="Wait until the limit resets, run fewer trials at a time, or use a key with a higher limit.",
    ),
    Cause(
        code=codes.REFUSED,
        kind="refusal",
        refusal=True,
        pattern=r"violates? (?:our|the) usage polic|content[ _]filter|safeguards flagged",
        message="The model declined the request",
        hint="Reword the task, or run it on another model; this is the model's answer, not a fault of the run.",
    ),
    Cause(
        code=codes.API_ERROR,
        kind="billing",
        kinds=frozenset({"billing_error"}),
        pattern=r"credit balance is too low|insufficient[ _](?:quota|credit|balance)",
        message="The account behind the key has no credit",
        hint="Add credit to the account, or use another key.",
    ),
    Cause(
        code=codes.API_ERROR,
        kind="model_not_found",
        kinds=frozenset({"model_not_found"}),
        statuses=frozenset({404}),
        pattern=r"model[^\n]{0,80} (?:not found|does not exist|is not available|not supported)",
        message="The model is unknown to the API, or the key may not use it",
        hint="Check `model`, and that the key (or the gateway) offers it.",
    ),
    Cause(
        code=codes.API_ERROR,
        kind="prompt_too_long",
        statuses=frozenset({413}),
        pattern=r"prompt is too long|context[ _]length|maximum context",
        message="The conversation no longer fits into the model's context",
        hint="Give the agent a smaller task or a shorter prompt, or use a model with a larger context.",
    ),
    Cause(
        code=codes.API_ERROR,
        kind="server",
        kinds=frozenset({"server_error", "overloaded"}),
        statuses=frozenset({500, 502, 503, 504, 529}),
        pattern=r"connection (?:error|refused|reset)|unable to connect|ECONNREFUSED|ECONNRESET|ENOTFOUND|EAI_AGAIN"
        r"|fetch failed|request timed out|overloaded|stream (?:disconnected|error)|malformed response",
        message="The API did not answer, or answered that it cannot serve",
        hint="Try again later; if it stays so, check the base URL, the gateway and the network.",
    ),
)

UNKNOWN_FAILURE = Cause(
    code=codes.API_ERROR,
    kind="other",
    message="A call to the model failed",
    hint="The text above is the API's own; the raw log has the whole exchange.",
)
"""Of a failed call that no row knows."""

BROKE_OFF = Cause(
    code=codes.EXECUTION_ERROR,
    kind="execution",
    message="{agent} broke off in the middle of its work",
    hint="The raw log shows the last thing it did. Interrupted tools and a model call that was cut are the usual "
    "reasons; run it again.",
)
"""Of a session whose result is a failure, without naming a call to the model."""

AUTHENTICATION = next(cause for cause in COMMON_CAUSES if cause.code == codes.AUTH_FAILED)


class ApiBody(NamedTuple):
    """An API's whole answer, which some agents quote as their error text."""

    message: str
    status: int | None = None


def read_api_body(said: str) -> ApiBody:
    """Its message says all of it; `said` itself where it is not such a body."""
    try:
        error = mapping(mapping(orjson.loads(said)).get("error")) if said.lstrip().startswith("{") else {}
    except orjson.JSONDecodeError:
        error = {}
    code = count(error.get("code"))
    return ApiBody(text(error.get("message")) or said, code if code is not None and 400 <= code <= 599 else None)


# -- when a usage limit ends -------------------------------------------------------------------------------------
#
#     Claude AI usage limit reached|1794781501                          Claude Code 1.0.x
#     Session limit reached ∙ resets 10:25pm                            1.0.128: local time
#     5-hour limit reached · resets 10:25pm (UTC)                       2.0.62
#     You've hit your weekly limit · resets Nov 18, 3:50pm (America/New_York)
#
# The year is never said, so the next such moment is meant.

_EPOCH = r"limit reached\|(\d{9,11})\b"

_CLOCK = (
    r"resets (?:(?P<month>[A-Z][a-z]{2}) (?P<day>\d{1,2}),? )?(?:at )?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?\s?(?P<half>[ap]m)(?: \((?P<zone>[^)]+)\))?"
)

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def reset_time(said: str, seen_at: datetime) -> float | None:
    """Seconds since the epoch; None if the text does not say, or says it in a way we do not know."""
    if epoch := re.search(_EPOCH, said):
        return float(epoch[1])
    clock = re.search(_CLOCK, said)
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
    except (ValueError, KeyError):  # no such day, or no such zone here
        return None


def _zone(name: str | None) -> tzinfo | None:
    """None: the local zone, which is the CLI's too."""
    from zoneinfo import ZoneInfo

    return ZoneInfo(name) if name else None


def moment_of(seconds: float | None) -> str | None:
    """An epoch time as our files write it; None for one that no calendar holds."""
    if seconds is None or not math.isfinite(seconds):
        return None
    try:
        return iso_time(seconds)
    except (OverflowError, ValueError, OSError):
        return None
