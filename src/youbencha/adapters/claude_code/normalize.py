"""A finished run -> YouBenchaLog. Pure, and made for outputs of up to 10 MiB: no copy of the output is taken.

The output decides what it is: with one stream-json event in it, it is a stream (stderr may stand between its lines);
otherwise it is plain text, and all of it is the assistant's one message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from youbencha.adapters.base import AgentExecutionContext, AgentExecutionResult
from youbencha.adapters.claude_code.codes import MALFORMED_LINE, OUTPUT_TRUNCATED
from youbencha.adapters.claude_code.config import CLAUDE
from youbencha.adapters.claude_code.session import Session, SessionFacts
from youbencha.adapters.claude_code.stream import plain_usage
from youbencha.adapters.claude_code.texts import read_text
from youbencha.adapters.cli_agent.kind import malformed, truncated
from youbencha.adapters.cli_agent.normalize import event_spans, has_code, truncation, with_prompt
from youbencha.adapters.cli_agent.stream import Transcript
from youbencha.events import AssistantText, AssistantTextDelta
from youbencha.log import AgentInfo, ErrorRecord, Message, ModelInfo, ToolCall, YouBenchaLog
from youbencha.process import Redactor

_PARTIAL = '{"type":"stream_event"'
"""How every version begins a partial message; by far the most lines, and the finished messages repeat them."""
_TEXT_DELTA = '"type":"text_delta"'
_CALL_NEWS = '"type":"message_'


@dataclass(frozen=True, slots=True)
class _Reading:
    """What was found in an output, whichever kind it is."""

    facts: SessionFacts
    messages: list[Message]
    tool_calls: list[ToolCall]


def normalize(
    result: AgentExecutionResult,
    context: AgentExecutionContext,
    *,
    adapter_name: str,
    adapter_version: str,
    redactor: Redactor | None = None,
) -> YouBenchaLog:
    """The run in the form that is the same for all agents (CR-3.1 to CR-3.11)."""
    redactor = redactor or Redactor.for_env(context.env)
    live = live_facts(result.details)
    # A live run knows whether its output was cut; the agent may print such a line too.
    cut_at = truncation(result.output) if result.details.get("truncated", True) else None
    end = len(result.output) if cut_at is None else cut_at
    reading = _read_stream(result.output, end, redactor) or _read_plain(result.output)
    facts = _merged(live, reading.facts)
    configured = context.model or context.config.get("model")
    prompt = result.details.get("prompt") or context.config.get("prompt")
    return YouBenchaLog(
        agent_info=AgentInfo(
            name=adapter_name,
            version=facts.cli_version or result.agent_version or "unknown",
            adapter_version=adapter_version,
        ),
        model_info=ModelInfo(
            name=facts.model or (configured if isinstance(configured, str) and configured else "unknown"),
            provider=CLAUDE.provider,
        ),
        execution=result.execution(),
        messages=tuple(with_prompt(reading.messages, prompt, redactor)),
        tool_calls=tuple(reading.tool_calls),
        usage=facts.usage,
        turns=facts.turns,
        session_id=facts.session_id,
        errors=_errors(result, cut=cut_at is not None),
        warnings=_warnings(result, reading.facts, cut=cut_at is not None),
        environment={"api_key_source": facts.key_source} if facts.key_source else {},
    )


def live_facts(details: Mapping[str, Any]) -> SessionFacts | None:
    """What the session saw while the agent ran; the output may have been cut before its end."""
    session = details.get("session")
    return None if session is None else SessionFacts.model_validate(session)


def _read_stream(output: str, end: int, redactor: Redactor) -> _Reading | None:
    """None if there is no event in it."""
    session, transcript = Session(), Transcript()
    for start, stop in event_spans(output, end):
        if not output.startswith(_PARTIAL, start):
            for event in session.feed(output[start:stop]):
                transcript.observe(event)
    if not session.stream_seen:
        return None
    if not session.has_result:
        _read_unfinished(output, end, session, transcript, redactor)
    return _Reading(session.facts(), transcript.messages, transcript.tool_calls())


def _read_unfinished(output: str, end: int, session: Session, transcript: Transcript, redactor: Redactor) -> None:
    """A session without a result: its partial messages hold the tokens, and the text it was just writing."""
    draft: list[tuple[int, int]] = []
    for start, stop in event_spans(output, end):
        if not output.startswith(_PARTIAL, start):
            draft.clear()
        elif output.find(_TEXT_DELTA, start, stop) >= 0:
            draft.append((start, stop))
        elif output.find(_CALL_NEWS, start, stop) >= 0:
            session.feed(output[start:stop])
    written: dict[str | None, list[str]] = {}
    for start, stop in draft:
        for event in session.feed(output[start:stop]):
            if isinstance(event, AssistantTextDelta):
                written.setdefault(event.parent, []).append(event.text)
    for parent, parts in written.items():
        # Each line came redacted, but only together do the pieces show a secret that lies across them.
        transcript.observe(AssistantText(text=redactor.text("".join(parts)), parent=parent))


def _read_plain(output: str) -> _Reading:
    found = read_text(output)
    facts = SessionFacts(
        model=found.model,
        cli_version=found.version,
        usage=plain_usage(found.input_tokens, found.output_tokens),
    )
    messages = [Message(role="assistant", content=found.content)] if found.content else []
    calls = [ToolCall(name=call.name, arguments=call.arguments) for call in found.tool_calls]
    return _Reading(facts, messages, calls)


def _merged(live: SessionFacts | None, read: SessionFacts) -> SessionFacts:
    """The live session saw all of the stream; where it knows nothing (plain text), the output's word stands."""
    if live is None:
        return read
    known = {name: value for name in SessionFacts.model_fields if (value := getattr(live, name)) is not None}
    return read.model_copy(update=known)


def _errors(result: AgentExecutionResult, *, cut: bool) -> tuple[ErrorRecord, ...]:
    if not cut or has_code(result.errors, OUTPUT_TRUNCATED):
        return result.errors
    return (*result.errors, truncated(CLAUDE, result.completed_at))


def _warnings(result: AgentExecutionResult, read: SessionFacts, *, cut: bool) -> tuple[ErrorRecord, ...]:
    lines = read.malformed_lines - (1 if cut else 0)  # the event that the cut went through is no news
    if not read.stream_seen or lines <= 0 or has_code(result.warnings, MALFORMED_LINE):
        return result.warnings
    return (*result.warnings, malformed(CLAUDE, lines, read.malformed_example, result.completed_at))
