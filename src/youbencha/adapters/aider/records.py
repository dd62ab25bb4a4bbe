"""Read an Aider session from files: its analytics, the calls recorded by `guard.py`, its conversation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import orjson

from youbencha.adapters.causes import read_api_body
from youbencha.adapters.cli_agent import CallFailed, SessionFacts, SessionRecord
from youbencha.adapters.cli_agent.session_files import parse_record, read_beginning, read_lines
from youbencha.adapters.cli_agent.transcript import Conversation
from youbencha.events import AssistantText, SessionResult
from youbencha.json_lines import Record, as_amount, as_count, as_mapping, as_str
from youbencha.log.model import ToolCall
from youbencha.log.session import RetriedCalls
from youbencha.process import ProcessResult
from youbencha.text import clean_text
from youbencha.usage import SessionUsage, Tokens, add_all


class Files(NamedTuple):
    """The files in the run's scratch directory."""

    scratch: Path

    @property
    def prompt(self) -> Path:
        return self.scratch / "prompt.md"

    @property
    def empty(self) -> Path:
        """Used in place of settings files."""
        return self.scratch / "empty"

    @property
    def guarded(self) -> Path:
        """Exists after `guard.py` has run."""
        return self.scratch / "guarded"

    @property
    def calls(self) -> Path:
        """Written by `guard.py`, one line for each call to a model."""
        return self.scratch / "calls.jsonl"

    @property
    def analytics(self) -> Path:
        """What Aider would send to its developers. It is only written to this file."""
        return self.scratch / "analytics.jsonl"

    @property
    def chat(self) -> Path:
        return self.scratch / "chat-history.md"

    @property
    def conversation(self) -> Path:
        """The complete conversation with the models."""
        return self.scratch / "llm-history.txt"


_DONE = "Completed --message-file"


class AnalyticsSummary(NamedTuple):
    """What Aider's analytics file says."""

    launched: bool = False
    asked: int = 0
    """How often it called the model."""
    answered: int = 0
    """How often the model answered."""
    unanswered: bool = False
    """Whether the last call had no answer."""
    exception: str | None = None
    finished: bool = False
    """It reached the end of its task, successfully or not."""
    cost_usd: float | None = None
    """The cost at LiteLLM's prices, without the cost of commit messages. None if a price is unknown."""


def read_analytics(path: Path) -> AnalyticsSummary:
    asked, costs, exception = 0, [], None
    waiting = finished = launched = False
    for record in read_json_lines(path):
        launched = True
        properties = as_mapping(record.get("properties"))
        match record.get("event"):
            case "message_send_starting":
                asked, waiting, exception = asked + 1, True, None
            case "message_send":
                waiting = False
                costs.append(as_amount(properties.get("cost")))
            case "message_send_exception":
                exception = as_str(properties.get("exception")) or ""
            case "exit":
                finished = properties.get("reason") == _DONE
    known = [cost for cost in costs if cost]
    cost = sum(known) if known and len(known) == len(costs) else None
    return AnalyticsSummary(launched, asked, len(costs), waiting, exception, finished, cost)


class Calls(NamedTuple):
    """The answered calls, as `guard.py` recorded them."""

    model: str | None
    """The first that was called: the others are for commit messages, or for editing."""
    tokens: tuple[Tokens, ...]
    all_known: bool

    def usage(self, cost_usd: float | None, *, cut_off: bool) -> SessionUsage | None:
        if not self.tokens:
            return None
        partial = cut_off or not self.all_known
        return SessionUsage(add_all(self.tokens), None if partial else cost_usd, partial)


def read_calls(path: Path) -> Calls:
    records = list(read_json_lines(path))
    usages = [as_mapping(record.get("usage")) for record in records]
    tokens = tuple(_tokens(usage) for usage in usages if usage)
    model = as_str(records[0].get("model")) if records else None
    return Calls(model, tokens, len(tokens) == len(records))


def _tokens(usage: Record) -> Tokens:
    """Read LiteLLM's usage, in which the prompt's tokens include the cached ones, for every provider."""
    prompt = as_count(usage.get("prompt_tokens"))
    details = as_mapping(usage.get("prompt_tokens_details"))
    read = _first(usage.get("cache_read_input_tokens"), details.get("cached_tokens"))
    written = as_count(usage.get("cache_creation_input_tokens"))
    new = None if prompt is None else max(0, prompt - (read or 0) - (written or 0))
    return Tokens(new, as_count(usage.get("completion_tokens")), read, written)


def _first(*values: object) -> int | None:
    return next((count for count in map(as_count, values) if count is not None), None)


def read_json_lines(path: Path) -> Iterator[Record]:
    """Yield the records in a file. Other lines are skipped: the agent may have written there too."""
    for line in read_text(path).splitlines():
        yield from parse_record(line)


def read_text(path: Path) -> str:
    return read_beginning(path.parent, path.name).decode("utf-8", "replace")


EDIT = "edit"
"""The tool name in the log for Aider's edits. It has no tools that the model could call."""


def read_session(files: Files, done: ProcessResult) -> SessionRecord:
    """Return the session with the model's messages, without those of Aider itself."""
    analytics, calls = read_analytics(files.analytics), read_calls(files.calls)
    transcript = Conversation()
    for answer in model_answers(read_lines(files.conversation.parent, files.conversation.name)):
        transcript.add(AssistantText(text=clean_text(answer)))
    messages = transcript.messages()
    answers = [message.content for message in messages if message.role == "assistant"]
    printed = done.printed + (done.end.text if done.end else "")
    own = read_messages(clean_text(printed), answers)
    if analytics.launched and not files.guarded.exists():
        own = own._replace(limit=NOT_GUARDED)
    cut_off = done.timed_out or done.stopped or not analytics.finished
    return SessionRecord(
        facts=_facts(analytics, calls, own, cut_off=cut_off),
        messages=messages,
        tool_calls=tuple(map(_edit, own.edited)),
        left_out=transcript.left_out(),
    )


def _edit(path: str) -> ToolCall:
    return ToolCall(name=EDIT, arguments=orjson.dumps({"path": path}).decode(), is_error=False)


def _facts(analytics: AnalyticsSummary, calls: Calls, own: AiderMessages, *, cut_off: bool) -> SessionFacts:
    failure = None
    if analytics.unanswered and not cut_off:
        kind, status, message = own.failure or (None, None, analytics.exception or "")
        failure = CallFailed(kind=kind, status=status, text=message)
    finished = analytics.finished and analytics.answered > 0 and failure is None
    result = SessionResult(subtype=own.limit, is_error=own.limit is not None, text=None, turns=None, duration_ms=None)
    return SessionFacts(
        stream_seen=analytics.launched,
        model=calls.model,
        usage=calls.usage(analytics.cost_usd, cut_off=cut_off),
        turns=analytics.answered or None,
        # Its exit code is always 0: the run succeeded if the model was called and answered to the end.
        results=1 if finished else 0,
        result=result if finished or own.limit else None,
        failure=failure,
        retries=own.retries,
        tools_used={EDIT: len(own.edited)} if own.edited else {},
    )


# Aider's output does not distinguish the model's text from its own: the model's answers are read from another file, and
# removed from the output.

_FAILED = re.compile(r"^litellm\.(?P<kind>\w+): (?P<message>[^\n]*)", re.MULTILINE)
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
"""Anthropic's. LiteLLM reports errors that it has no class for (402, 403) as a lost connection."""

TOKEN_LIMIT, REFLECTIONS, NOT_GUARDED = "token_limit", "reflections", "not_guarded"
"""Why a session that reached its end is not a success."""


class AiderFailure(NamedTuple):
    kind: str
    """The class name of LiteLLM's exception."""
    status: int | None
    message: str


class AiderMessages(NamedTuple):
    """What Aider itself reports in its output."""

    failure: AiderFailure | None
    """The last one."""
    retries: tuple[RetriedCalls, ...]
    edited: tuple[str, ...]
    limit: str | None
    """Why it is not a success, although it reached its end."""


def model_answers(history: Iterable[bytes]) -> Iterator[str]:
    """Read the answers in the lines of Aider's `llm-history`, where each line of an answer begins with `ASSISTANT`."""
    begun, answer = False, list[str]()
    for line in chain(history, [b""]):
        if begun and line.startswith(b"ASSISTANT"):
            said = line.decode("utf-8", "replace").rstrip("\n")
            answer.append(said.removeprefix("ASSISTANT").removeprefix(" "))
            continue
        if "".join(answer).strip():
            yield "\n".join(answer).strip("\n")
        begun, answer = line.startswith(b"LLM RESPONSE "), []


def read_messages(output: str, answers: Sequence[str]) -> AiderMessages:
    """Read Aider's own messages: the output without the model's answers."""
    own = _as_printed(output)
    for answer in answers:
        own = own.replace(_as_printed(answer), "", 1)
    failures = [_failure(match) for match in _FAILED.finditer(own)]
    retried = Counter((failure.status, failure.kind) for failure in map(_failure, _RETRIED.finditer(own)))
    limits = {TOKEN_LIMIT: _TOKEN_LIMIT, REFLECTIONS: _REFLECTIONS}
    return AiderMessages(
        failure=failures[-1] if failures else None,
        retries=tuple(RetriedCalls(status, kind, times) for (status, kind), times in retried.items()),
        edited=tuple(_EDITED.findall(own)),
        limit=next((name for name, pattern in limits.items() if pattern.search(own)), None),
    )


def _as_printed(text: str) -> str:
    """Return the text as Aider prints it: with spaces for tabs, and none at the end of a line."""
    return "\n".join(line.expandtabs().rstrip() for line in text.splitlines())


def _failure(match: re.Match[str]) -> AiderFailure:
    kind, message = match["kind"], match["message"]
    body = message[message.find("{") : message.rfind("}") + 1]
    read = read_api_body(body) if body else None
    status = (read and read.status) or _STATUS_OF_TYPE.get(_type(body)) or _STATUS_OF_CLASS.get(kind)
    return AiderFailure(kind, status, read.message if read and read.message != body else message)


def _type(body: str) -> str:
    try:
        return as_str(as_mapping(as_mapping(orjson.loads(body)).get("error")).get("type")) or ""
    except orjson.JSONDecodeError:
        return ""
