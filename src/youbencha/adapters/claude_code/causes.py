"""Why a session failed: one table from what Claude Code said to our code and what to do about it.

The first row that fits counts. `kind` is the `error` of a client-made message (2.1.x), `status` the HTTP status
(2.1.197 and later say it; before, it stands in the text), `words` are looked for in the error's own text only:
an agent that works on a login page says "Not logged in" too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from youbencha.adapters.claude_code import codes
from youbencha.adapters.claude_code.errors import HOW_TO_AUTHENTICATE
from youbencha.adapters.claude_code.reset_time import reset_time
from youbencha.adapters.cli_agent import causes
from youbencha.adapters.cli_agent.causes import Cause, words

_STATUS_IN_TEXT = re.compile(r"API Error: (?:Request rejected \()?(\d{3})\b")


@dataclass(frozen=True, kw_only=True)
class Evidence(causes.Evidence):
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
        words=words(r"^Error: Reached max turns"),
        says="Claude Code stopped at its limit of turns",
        hint="Raise `max_turns`, or give the agent a smaller task.",
    ),
    Cause(
        code=codes.MAX_BUDGET,
        kind="max_budget",
        subtypes=frozenset({"error_max_budget_usd"}),
        statuses=frozenset({402}),
        words=words(
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
        words=words(r"not logged in|invalid api key|please run /login|failed to authenticate|oauth token .*expired"),
        says="Claude Code failed at authentication: no valid API key or login",
        hint=HOW_TO_AUTHENTICATE,
    ),
    Cause(
        code=codes.RATE_LIMIT,
        kind="rate_limit",
        kinds=frozenset({"rate_limit"}),
        statuses=frozenset({429}),
        words=words(r"limit reached|spending cap reached|hit your .*limit|reached your .*limit|rate_limit_error"),
        says="Claude Code was stopped by a rate limit",
        hint="Wait until the limit resets, run fewer trials at a time, or use a key with a higher limit.",
    ),
    Cause(
        code=codes.REFUSED,
        kind="refusal",
        refusal=True,
        words=words(r"violate our usage policy|safeguards flagged"),
        says="The model declined the request",
        hint="Reword the task, or run it on another model; this is the model's answer, not a fault of the run.",
    ),
    Cause(
        code=codes.API_ERROR,
        kind="billing",
        kinds=frozenset({"billing_error"}),
        words=words(r"credit balance is too low"),
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
        words=words(r"prompt is too long"),
        says="The conversation no longer fits into the model's context",
        hint="Give the agent a smaller task or a shorter prompt, or use a model with a larger context.",
    ),
    Cause(
        code=codes.API_ERROR,
        kind="max_output_tokens",
        kinds=frozenset({"max_output_tokens"}),
        words=words(r"exceeded the \d+ output token maximum"),
        says="The model's answer did not fit into its limit of output tokens",
        hint="Raise `max_tokens` (CLAUDE_CODE_MAX_OUTPUT_TOKENS).",
    ),
    Cause(
        code=codes.API_ERROR,
        kind="server",
        kinds=frozenset({"server_error", "overloaded"}),
        statuses=frozenset({500, 502, 503, 504, 529}),
        words=words(r"connection error|unable to connect|connection refused|request timed out|malformed response"),
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
