"""What the model said, and what Aider itself said between: its output does not tell one from the other."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import orjson

from youbencha.adapters.cli_agent.api_body import read_api_body
from youbencha.adapters.cli_agent.fields import mapping, text

_ANSWER = re.compile(r"^LLM RESPONSE [^\n]*\n((?:ASSISTANT[^\n]*\n)*)", re.MULTILINE)
_FAILED = re.compile(r"^litellm\.(?P<kind>\w+): (?P<said>[^\n]*)", re.MULTILINE)
_RETRIED = re.compile(_FAILED.pattern + r"\n(?:[^\n]*\n){0,3}?Retrying in [\d.]+ seconds\.\.\.$", re.MULTILINE)
_EDITED = re.compile(r"^Applied edit to ([^\n]+)$", re.MULTILINE)
_TOKEN_LIMIT = re.compile(r"^Model [^\n]+ has hit a token limit!$", re.MULTILINE)
_REFLECTIONS = re.compile(r"^Only \d+ reflections allowed, stopping\.$", re.MULTILINE)
_STATUS_OF_CLASS = {
    "AuthenticationError": 401,
    "BudgetExceededError": 402,
    "NotFoundError": 404,
    "RateLimitError": 429,
    "BadRequestError": 400,
    "InternalServerError": 500,
    "BadGatewayError": 502,
    "ServiceUnavailableError": 503,
    "Timeout": 504,
}
_STATUS_OF_TYPE = {
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "overloaded_error": 529,
}
"""Anthropic's. LiteLLM takes what it has no class for (402, 403) for a lost connection."""

TOKEN_LIMIT, REFLECTIONS, NOT_GUARDED = "token_limit", "reflections", "not_guarded"
"""What makes a session that came to its end no success."""


class Failure(NamedTuple):
    kind: str
    """LiteLLM's name for it."""
    status: int | None
    said: str


class OwnWords(NamedTuple):
    """Aider's."""

    failure: Failure | None
    """The last one that it told of."""
    retries: dict[str, int]
    edited: tuple[str, ...]
    limit: str | None
    """What makes it no success, though it came to its end."""


def answers_in(history: str) -> list[str]:
    """Of Aider's `llm-history`, where each line of an answer begins with a word that says so."""
    blocks = (match[1] for match in _ANSWER.finditer(history + "\n"))
    texts = ("\n".join(map(_said, block.split("\n"))).strip("\n") for block in blocks)
    return [each for each in texts if each.strip()]


def _said(line: str) -> str:
    return line.removeprefix("ASSISTANT").removeprefix(" ")


def read_own_words(output: str, answers: Sequence[str]) -> OwnWords:
    own = _even(output)
    for answer in answers:
        own = own.replace(_even(answer), "", 1)
    failures = [_failure(match) for match in _FAILED.finditer(own)]
    retries = Counter(str(_failure(match).status or "no answer") for match in _RETRIED.finditer(own))
    limits = {TOKEN_LIMIT: _TOKEN_LIMIT, REFLECTIONS: _REFLECTIONS}
    return OwnWords(
        failure=failures[-1] if failures else None,
        retries=dict(retries),
        edited=tuple(_EDITED.findall(own)),
        limit=next((name for name, words in limits.items() if words.search(own)), None),
    )


def _even(written: str) -> str:
    """As a terminal without colours shows it: tabs are blanks, and nothing stands at the end of a line."""
    return "\n".join(line.expandtabs().rstrip() for line in written.splitlines())


def _failure(match: re.Match[str]) -> Failure:
    kind, said = match["kind"], match["said"]
    body = said[said.find("{") : said.rfind("}") + 1]
    read = read_api_body(body) if body else None
    status = (read and read.status) or _STATUS_OF_TYPE.get(_type(body)) or _STATUS_OF_CLASS.get(kind)
    return Failure(kind, status, read.message if read and read.message != body else said)


def _type(body: str) -> str:
    try:
        return text(mapping(mapping(orjson.loads(body)).get("error")).get("type")) or ""
    except orjson.JSONDecodeError:
        return ""
