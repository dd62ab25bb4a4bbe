"""Why a session failed: from what was said about it to a code, and to what to do. The first row that fits counts.

`words` are looked for in the error's own text only: an agent that works on a login page says "not logged in" too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import orjson

from youbencha.adapters.cli_agent import codes
from youbencha.adapters.cli_agent.kind import AgentKind
from youbencha.json_lines import count, mapping, text


@dataclass(frozen=True, kw_only=True)
class FailureEvidence:
    """What was said about a failure."""

    text: str
    subtype: str | None = None
    """How the agent's closing word calls it."""
    kind: str | None = None
    """How the agent's error calls it."""
    status: int | None = None
    refused: bool = False

    def http_status(self) -> int | None:
        return self.status


@dataclass(frozen=True, kw_only=True)
class Cause:
    code: str
    kind: str
    """Goes into the error's context: finer than the code."""
    says: str
    hint: str
    subtypes: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()
    statuses: frozenset[int] = frozenset()
    words: re.Pattern[str] | None = None
    refusal: bool = False

    def fits(self, evidence: FailureEvidence) -> bool:
        return (
            evidence.subtype in self.subtypes
            or evidence.kind in self.kinds
            or evidence.http_status() in self.statuses
            or (self.refusal and evidence.refused)
            or (self.words is not None and self.words.search(evidence.text) is not None)
        )


def find_cause(evidence: FailureEvidence, table: Sequence[Cause]) -> Cause | None:
    """The row that fits, if one does."""
    return next((cause for cause in table if cause.fits(evidence)), None)


def pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.MULTILINE)


@lru_cache
def common_causes(kind: AgentKind) -> tuple[Cause, ...]:
    """What an API says in the same way to every agent. An agent's own rows stand before these."""
    return (
        Cause(
            code=kind.code(codes.GAVE_UP),
            kind="gave_up",
            subtypes=frozenset({"gave_up"}),
            says=f"{kind.title} gave up",
            hint="This is its own verdict on the task, not a fault of the run. See what it said last.",
        ),
        Cause(
            code=kind.code(codes.MAX_TURNS),
            kind="max_turns",
            words=pattern(r"max(?:imum)? (?:session )?turns|turn limit"),
            says=f"{kind.title} stopped at its limit of turns",
            hint="Raise the limit, or give the agent a smaller task.",
        ),
        Cause(
            code=kind.code(codes.MAX_BUDGET),
            kind="max_budget",
            statuses=frozenset({402}),
            words=pattern(r"youBencha: the budget is spent|budget has been exceeded|exceeded (?:usd )?budget"),
            says=f"{kind.title} stopped because the budget was spent",
            hint="Raise the budget of the run, or the gateway's cap.",
        ),
        Cause(
            code=kind.code(codes.AUTH_FAILED),
            kind="authentication",
            kinds=frozenset({"authentication", "authentication_error"}),
            statuses=frozenset({401}),
            words=pattern(
                r"not logged in|no authentication|authentication (?:failed|required|information)|unauthorized"
                r"|(?:invalid|incorrect|missing|no) (?:x-)?api[- ]key|api[- ]key (?:is )?(?:missing|not (?:found|set))"
            ),
            says=f"{kind.title} failed at authentication: no valid API key or login",
            hint=kind.how_to_authenticate,
        ),
        Cause(
            code=kind.code(codes.RATE_LIMIT),
            kind="rate_limit",
            kinds=frozenset({"rate_limit", "rate_limit_error", "quota"}),
            statuses=frozenset({429}),
            words=pattern(r"rate[ _-]?limit|too many requests|quota (?:exceeded|exhausted)|limit reached"),
            says=f"{kind.title} was stopped by a rate limit",
            hint="Wait until the limit resets, run fewer trials at a time, or use a key with a higher limit.",
        ),
        Cause(
            code=kind.code(codes.REFUSED),
            kind="refusal",
            refusal=True,
            words=pattern(r"violates? (?:our|the) usage polic|content[ _]filter"),
            says="The model declined the request",
            hint="Reword the task, or run it on another model; this is the model's answer, not a fault of the run.",
        ),
        Cause(
            code=kind.code(codes.API_ERROR),
            kind="billing",
            words=pattern(r"credit balance is too low|insufficient[ _](?:quota|credit|balance)"),
            says="The account behind the key has no credit",
            hint="Add credit to the account, or use another key.",
        ),
        Cause(
            code=kind.code(codes.API_ERROR),
            kind="model_not_found",
            statuses=frozenset({404}),
            words=pattern(r"model[^\n]{0,80} (?:not found|does not exist|is not available|not supported)"),
            says="The model is unknown to the API, or the key may not use it",
            hint="Check `model`, and that the key (or the gateway) offers it.",
        ),
        Cause(
            code=kind.code(codes.API_ERROR),
            kind="prompt_too_long",
            statuses=frozenset({413}),
            words=pattern(r"prompt is too long|context[ _]length|maximum context"),
            says="The conversation no longer fits into the model's context",
            hint="Give the agent a smaller task or a shorter prompt, or use a model with a larger context.",
        ),
        Cause(
            code=kind.code(codes.API_ERROR),
            kind="server",
            statuses=frozenset({500, 502, 503, 504, 529}),
            words=pattern(
                r"connection (?:error|refused|reset)|unable to connect|ECONNREFUSED|ECONNRESET|ENOTFOUND|EAI_AGAIN"
                r"|fetch failed|request timed out|overloaded|stream (?:disconnected|error)"
            ),
            says="The API did not answer, or answered that it cannot serve",
            hint="Try again later; if it stays so, check the base URL, the gateway and the network.",
        ),
    )


@lru_cache
def other_cause(kind: AgentKind) -> Cause:
    """Of a failure that the agent itself reported, and that no row knows."""
    return Cause(
        code=kind.code(codes.API_ERROR),
        kind="other",
        says="A call to the model failed",
        hint="The text above is the API's own; the raw log has the whole exchange.",
    )


@lru_cache
def execution_cause(kind: AgentKind) -> Cause:
    """Of a session that its own closing word calls failed, without naming a call to the model."""
    return Cause(
        code=kind.code(codes.EXECUTION_ERROR),
        kind="execution",
        says=f"{kind.title} broke off in the middle of its work",
        hint="The raw log shows the last thing it did. Run it again.",
    )


# Some agents quote an API's whole answer as their error text. Its message says all of it.


class ApiBody(NamedTuple):
    message: str
    status: int | None = None


def read_api_body(said: str) -> ApiBody:
    """`said` itself, where it is no such body."""
    try:
        error = mapping(mapping(orjson.loads(said)).get("error")) if said.lstrip().startswith("{") else {}
    except orjson.JSONDecodeError:
        error = {}
    code = count(error.get("code"))
    return ApiBody(text(error.get("message")) or said, code if code is not None and 400 <= code <= 599 else None)
