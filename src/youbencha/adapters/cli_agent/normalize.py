"""A finished run -> YouBenchaLog. Pure, and made for outputs of up to 10 MiB.

The output decides what it is: with one event of the agent in it, it is a stream (stderr may stand between its lines);
otherwise it is plain text, and all of it is the assistant's one message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from youbencha.adapters.base import AgentExecutionContext, AgentExecutionResult
from youbencha.adapters.cli_agent import codes
from youbencha.adapters.cli_agent.kind import AgentKind, truncated
from youbencha.adapters.cli_agent.session import SessionFacts
from youbencha.events import AssistantText, AssistantTextDelta, Event
from youbencha.json_lines import clean_text, strip_ansi
from youbencha.log import AgentInfo, ErrorRecord, Message, ModelInfo, ToolCall, YouBenchaLog
from youbencha.process import TRUNCATION_MARK, Redactor

if TYPE_CHECKING:
    from youbencha.adapters.cli_agent.session import StreamReader


class _Reading(NamedTuple):
    facts: SessionFacts
    messages: list[Message]
    tool_calls: list[ToolCall]


def normalize(
    kind: AgentKind,
    result: AgentExecutionResult,
    context: AgentExecutionContext,
    *,
    reader: StreamReader | None,
    adapter_version: str,
    redactor: Redactor,
) -> YouBenchaLog:
    """The run in the form that is the same for all agents (CR-3.1 to CR-3.11)."""
    # A live run knows whether its output was cut; the agent may print such a line too.
    cut_at = truncation(result.output) if result.details.get("truncated", True) else None
    end = len(result.output) if cut_at is None else cut_at
    reading = (reader and _read_stream(kind, reader, result.output, end, redactor)) or _read_plain(result.output)
    facts = live_facts(result.details) or reading.facts
    configured = context.model or context.config.get("model")
    prompt = result.details.get("prompt") or context.config.get("prompt")
    return YouBenchaLog(
        agent_info=AgentInfo(
            name=kind.name,
            version=facts.agent_version or result.agent_version or "unknown",
            adapter_version=adapter_version,
        ),
        model_info=ModelInfo(
            name=facts.model or (configured if isinstance(configured, str) and configured else "unknown"),
            provider=str(result.details.get("provider") or kind.provider),
        ),
        execution=result.execution(),
        messages=tuple(with_prompt(reading.messages, prompt, redactor)),
        tool_calls=tuple(reading.tool_calls),
        usage=facts.usage,
        turns=facts.turns,
        session_id=facts.session_id,
        errors=_errors(kind, result, cut=cut_at is not None),
        warnings=result.warnings,
    )


def live_facts(details: Mapping[str, Any]) -> SessionFacts | None:
    """What was seen while the agent ran, and read after it; the output may have been cut before its end."""
    session = details.get("session")
    return None if session is None else SessionFacts.model_validate(session)


def _read_stream(kind: AgentKind, reader: StreamReader, output: str, end: int, redactor: Redactor) -> _Reading | None:
    """None if there is no event in it."""
    from youbencha.adapters.cli_agent.session import Session
    from youbencha.adapters.cli_agent.stream import Transcript

    session, transcript, draft = Session(kind, reader), Transcript(), _Draft(redactor)
    for start, stop in event_spans(output, end):
        for event in session.feed(output[start:stop]):
            transcript.observe(draft.passed(event))
    for event in session.finish():
        transcript.observe(draft.passed(event))
    if not session.stream_seen:
        return None
    for event in draft.unfinished():
        transcript.observe(event)
    return _Reading(session.facts(), transcript.messages, transcript.tool_calls())


class _Draft:
    """The text that was being written when the stream ended: a finished message would have repeated it.

    Each line came redacted, but only together do the pieces show a secret that lies across them.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._written: dict[str | None, list[str]] = {}

    def passed(self, event: Event) -> Event:
        if isinstance(event, AssistantTextDelta):
            self._written.setdefault(event.parent, []).append(event.text)
        elif isinstance(event, AssistantText) and self._written.pop(event.parent, []):
            # A reader may have put it together from the pieces.
            return replace(event, text=self._redactor.text(event.text))
        return event

    def unfinished(self) -> list[Event]:
        return [
            AssistantText(text=self._redactor.text("".join(parts)), parent=parent)
            for parent, parts in self._written.items()
        ]


def _read_plain(output: str) -> _Reading:
    content = clean_text(output).strip()
    messages = [Message(role="assistant", content=content)] if content else []
    return _Reading(SessionFacts(), messages, [])


def _errors(kind: AgentKind, result: AgentExecutionResult, *, cut: bool) -> tuple[ErrorRecord, ...]:
    if not cut or has_code(result.errors, kind.code(codes.OUTPUT_TRUNCATED)):
        return result.errors
    return (*result.errors, truncated(kind, result.completed_at))


# Reading a bounded output again: where it was cut, and where its events are. No copy of it is taken.

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
