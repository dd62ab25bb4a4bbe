"""Find the cause of a failed session, with an error code and a hint.

The first row that matches counts, an agent's own rows come before the common ones, and facts before text: a message may
quote anything. Patterns are searched only in the error's text: an agent that works on a login page may print "not
logged in" too. They are compiled only after a failure, because compiling all of them takes 2 ms.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import datetime, timedelta, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo

import orjson

from youbencha.adapters import codes
from youbencha.json_lines import as_count, as_mapping, as_str
from youbencha.text import iso_time

_STATUS_IN_TEXT = r"API Error: (?:Request rejected \()?(\d{3})\b"
"""How Claude Code before 2.1.197 reports the HTTP status."""


NO_CREDIT, MODEL_NOT_FOUND, INVALID_OPTION, ROOT_REFUSED = (
    "billing",
    "model_not_found",
    "invalid_option",
    "root_refused",
)
"""Kinds of causes that the next attempt would meet again."""


class FailureEvidence(NamedTuple):
    """What the agent reported about a failure."""

    text: str
    subtype: str | None = None
    """The subtype of the agent's result."""
    kind: str | None = None
    """The kind of the agent's error."""
    status: int | None = None
    refused: bool = False

    def http_status(self) -> int | None:
        match = re.search(_STATUS_IN_TEXT, self.text)
        return self.status or (int(match[1]) if match else None)


class Cause(NamedTuple):
    """One row of the table: how to recognise a cause, and its message and hint."""

    code: str
    """One of `codes`, without the agent's prefix."""
    kind: str
    """For the error's context: more specific than the code."""
    message: str
    """`{agent}` is replaced by the agent's title."""
    hint: str | None
    """None: how to authenticate this agent."""
    subtypes: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()
    statuses: frozenset[int] = frozenset()
    pattern: str | None = None
    """Case-insensitive; `^` is the start of a line."""
    opening: str | None = None
    """How the text begins, as certain as a fact: for what comes with the status of another cause."""
    refusal: bool = False

    def fits_facts(self, evidence: FailureEvidence) -> bool:
        return (
            bool(self.opening and re.match(self.opening, evidence.text, re.IGNORECASE))
            or evidence.subtype in self.subtypes
            or evidence.kind in self.kinds
            or evidence.status in self.statuses
            or (self.refusal and evidence.refused)
        )

    def fits_text(self, text: str) -> bool:
        return bool(self.pattern and re.search(self.pattern, text, re.IGNORECASE | re.MULTILINE))


def find_cause(evidence: FailureEvidence, own: Iterable[Cause] = ()) -> Cause | None:
    """Return the first row that matches the facts, else a status in the text, else the text; `own` are the agent's."""
    causes, status = (*own, *COMMON_CAUSES), evidence.http_status()
    matching = (
        *(cause for cause in causes if cause.fits_facts(evidence)),
        *(cause for cause in causes if status in cause.statuses),
    )
    return matching[0] if matching else next((cause for cause in causes if cause.fits_text(evidence.text)), None)


COMMON_CAUSES = (
    Cause(
        code=codes.GAVE_UP,
        kind="gave_up",
        subtypes=frozenset({"gave_up"}),
        message="{agent} gave up",
        hint="This is its own verdict on the task, not a fault of the run. See its last messages.",
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
        message="{agent} failed authentication: no valid API key or login",
        hint=None,
    ),
    Cause(
        code=codes.API_ERROR,
        kind=NO_CREDIT,
        kinds=frozenset({"billing_error", "insufficient_quota"}),
        pattern=r"credit balance is too low|insufficient[ _](?:quota|credit|balance)",
        # Claude Code reports these with 429, as a limit that resets. No time resets them.
        opening=r"Your org is out of usage|Your seat type doesn't include|Your usage allocation has been disabled"
        r"|Your group's usage limit is set to \$0|This service is disabled for your org"
        r"|\w+(?: [^·\n]{1,40})? requires usage credits",
        message="The account behind the key has no credit",
        hint="Add credit to the account, or use another key.",
    ),
    Cause(
        code=codes.OVERLOADED,
        kind="overloaded",
        kinds=frozenset({"overloaded", "overloaded_error"}),
        statuses=frozenset({529}),
        pattern=r"overloaded",
        # Claude Code 2.1.150 calls it a rate limit, older versions an unknown error.
        opening=r"API Error: (?:Request rejected \()?529\b",
        message="The provider is overloaded",
        hint="No limit of the account was reached: try again later.",
    ),
    Cause(
        code=codes.RATE_LIMIT,
        kind="rate_limit",
        kinds=frozenset({"rate_limit", "rate_limit_error", "quota"}),
        statuses=frozenset({429}),
        pattern=r"rate[ _-]?limit|too many requests|quota (?:exceeded|exhausted)|limit reached|spending cap reached"
        r"|(?:hit|reached) your .*(?:limit|budget)|out of (?:extra usage|usage credits)",
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
        kind=MODEL_NOT_FOUND,
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
        kinds=frozenset({"server_error"}),
        statuses=frozenset({500, 502, 503, 504}),
        pattern=r"connection (?:error|refused|reset)|unable to connect|ECONNREFUSED|ECONNRESET|ENOTFOUND|EAI_AGAIN"
        r"|fetch failed|request timed out|stream (?:disconnected|error)|malformed response",
        message="The API did not answer, or reported that it is not available",
        hint="Try again later; if it persists, check the base URL, the gateway and the network.",
    ),
    Cause(
        code=codes.EXIT_CODE,
        kind=ROOT_REFUSED,
        pattern=r"cannot be used with root/sudo privileges",
        message="{agent} does not run with all tools allowed as root",
        hint="Run as a normal user, or in a container (`sandbox: docker`); or, if this machine is disposable, set "
        "IS_SANDBOX=1 in the agent's environment.",
    ),
)

UNKNOWN_FAILURE = Cause(
    code=codes.API_ERROR,
    kind="other",
    message="A call to the model failed",
    hint="The text above is the API's own; the raw log has the whole exchange.",
)
"""For a failed call that no row matches."""

ABORTED = Cause(
    code=codes.EXECUTION_ERROR,
    kind="execution",
    message="{agent} stopped in the middle of its work",
    hint="The raw log shows the last thing it did. The usual reasons are interrupted tools and an interrupted call to "
    "the model; run it again.",
)
"""For a session whose result is a failure that is not a failed call to the model."""

AUTHENTICATION = next(cause for cause in COMMON_CAUSES if cause.code == codes.AUTH_FAILED)


class ApiBody(NamedTuple):
    """The body of an API's error, which some agents quote as their error text."""

    message: str
    status: int | None = None


def read_api_body(reported: str) -> ApiBody:
    """Return the message and status of the body; `reported` itself if it is not such a body."""
    try:
        error = as_mapping(as_mapping(orjson.loads(reported)).get("error")) if reported.lstrip().startswith("{") else {}
    except orjson.JSONDecodeError:
        error = {}
    code = as_count(error.get("code"))
    return ApiBody(as_str(error.get("message")) or reported, code if code is not None and 400 <= code <= 599 else None)


# How agents report when a usage limit ends:
#
#     Claude AI usage limit reached|1794781501                          Claude Code 1.0.x
#     Session limit reached ∙ resets 10:25pm                            1.0.128: local time
#     5-hour limit reached · resets 10:25pm (UTC)                       2.0.62
#     You've hit your weekly limit · resets Nov 18, 3:50pm (America/New_York)
#
# There is no year: it is the next such time.

_EPOCH = r"limit reached\|(\d{9,11})\b"

_CLOCK = (
    r"resets (?:(?P<month>[A-Z][a-z]{2}) (?P<day>\d{1,2}),? )?(?:at )?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?\s?(?P<half>[ap]m)(?: \((?P<zone>[^)]+)\))?"
)

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def reset_time(message: str, seen_at: datetime) -> float | None:
    """Seconds since the epoch; None if the text has no time, or one in an unknown format."""
    if epoch := re.search(_EPOCH, message):
        return float(epoch[1])
    clock = re.search(_CLOCK, message)
    return _next_time(clock, seen_at) if clock else None


def _next_time(clock: re.Match[str], seen_at: datetime) -> float | None:
    try:
        now = seen_at.astimezone(_zone(clock["zone"]))
        hour = int(clock["hour"]) % 12 + (12 if clock["half"] == "pm" else 0)
        time = now.replace(hour=hour, minute=int(clock["minute"] or 0), second=0, microsecond=0)
        if not clock["month"]:
            # Without seconds, it may be the current minute.
            return (time if time >= now - timedelta(minutes=1) else time + timedelta(days=1)).timestamp()
        time = time.replace(month=_MONTHS.index(clock["month"]) + 1, day=int(clock["day"]))
        return (time if time >= now - timedelta(days=1) else time.replace(year=now.year + 1)).timestamp()
    except (ValueError, KeyError):  # no such day, or no such zone here
        return None


def _zone(name: str | None) -> tzinfo | None:
    """Return the zone; None for the local one, which is also the CLI's."""
    return ZoneInfo(name) if name else None


def iso_time_or_none(seconds: float | None) -> str | None:
    """Format an epoch time; None if it is out of range."""
    if seconds is None or not math.isfinite(seconds):
        return None
    try:
        return iso_time(seconds)
    except (OverflowError, ValueError, OSError):
        return None
