"""Convert a finished run to a YouBenchaLog.

The session that was read while the agent ran is used, if there is one. Otherwise the output (of up to 10 MiB) is read:
if it has an event of the agent, as a stream (with stderr between its lines), else as plain text, which becomes one
message of the assistant.

What was measured always counts. Where nothing was (an agent without events, events without a model or tokens), the
agent's own text may say it: the log has these claims, and a warning that lists them (CR-3.3, CR-3.7, CR-3.8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from youbencha.adapters import codes
from youbencha.adapters.base import AgentDescription, AgentExecutionContext, AgentExecutionResult
from youbencha.adapters.cli_agent.stream import OutputReader
from youbencha.adapters.cli_agent.transcript import left_out_here
from youbencha.adapters.cli_agent.verdict import malformed, taken_from_text, transcript_shortened, truncated
from youbencha.json_lines import as_str
from youbencha.log.masking import without_secrets
from youbencha.log.model import AgentInfo, Claim, ErrorRecord, Message, ModelInfo, YouBenchaLog, build_usage
from youbencha.log.session import LeftOut, SessionFacts, SessionRecord, StreamReader
from youbencha.process import TRUNCATION_MARK, Redactor
from youbencha.text import clean_text, strip_ansi

_NOISE = "\x1b\r \t"


ReadClaims = Callable[[str], SessionRecord]


def normalize(
    agent: type[AgentDescription],
    result: AgentExecutionResult,
    context: AgentExecutionContext,
    *,
    reader: Callable[[], StreamReader | None],
    adapter_version: str,
    redactor: Redactor,
    read_claims: ReadClaims,
) -> YouBenchaLog:
    """Return the run's log (CR-3.1 to CR-3.11).

    `reader` makes a new reader of the agent's events; `read_claims` reads what its text says about the run.
    """
    # A live run knows whether its output was truncated; otherwise the agent may have printed the marker itself.
    cut_at = truncation(result.output) if result.details.get("truncated", True) else None
    session = result.session
    if session is None:
        end = len(result.output) if cut_at is None else cut_at
        session = _read_stream(agent, reader, result.output, end, redactor) or SessionRecord()
    if not session.facts.stream_seen and not session.messages:
        session = _with_plain_text(session, result)
    measured, session = session, _with_claims(session, read_claims, result)
    facts, usage, claims = session.facts, session.facts.usage, _claims(measured, session)
    configured = as_str(context.model or context.config.get("model")) or None
    prompt = result.details.get("prompt") or context.config.get("prompt")
    log = YouBenchaLog(
        agent_info=AgentInfo(
            name=agent.name,
            version=facts.agent_version or result.agent_version or "unknown",
            adapter_version=adapter_version,
        ),
        model_info=ModelInfo(
            name=facts.model or configured or "unknown",
            provider=str(result.details.get("provider") or facts.provider or agent.default_provider),
            configured=configured,
        ),
        execution=result.execution(),
        messages=tuple(_with_prompt(session.messages, prompt)),
        tool_calls=session.tool_calls or (),
        tool_calls_known=session.tool_calls is not None,
        claims=claims,
        usage=usage and build_usage(usage.tokens, usage.cost_usd, partial=usage.partial),
        turns=facts.turns,
        session_id=facts.session_id,
        errors=_errors(agent, result, cut=cut_at is not None),
        warnings=(
            *_warnings(agent, result, session, cut=cut_at is not None),
            *([taken_from_text(agent, claims, result.completed_at)] if claims else ()),
        ),
        environment=_environment(result, facts),
    )
    return without_secrets(log, redactor.text)


def _environment(result: AgentExecutionResult, facts: SessionFacts) -> dict[str, object]:
    """Return what is known of it; of a run that failed, also which of the user's variables the agent did not get."""
    known = {"api_key_source": facts.key_source, "withheld_variables": result.details.get("withheld_variables")}
    return {name: value for name, value in known.items() if value}


def _with_plain_text(session: SessionRecord, result: AgentExecutionResult) -> SessionRecord:
    """Make the output one message of the assistant; with its end, if it was truncated."""
    content, end = result.output, result.output_end
    left_out = LeftOut(bytes=end.left_out_bytes if end else 0)
    if end is not None:
        gap = f"{left_out_here(left_out)}\n" if left_out.bytes else ""
        content = f"{content}{gap}{end.text}"
    content = clean_text(content).strip()
    message = Message(role="assistant", content=content)
    return session._replace(messages=(message,) if content else (), left_out=left_out)


def _with_claims(session: SessionRecord, read: ReadClaims, result: AgentExecutionResult) -> SessionRecord:
    """Add what only the agent's text says, where nothing was measured.

    Events that give the model or the tokens give the tool calls, too: then a run without any called none.
    """
    facts = session.facts
    knows_tools = bool(session.tool_calls or facts.model or facts.usage)
    if facts.model and facts.usage and knows_tools:
        return session
    answers = (message for message in session.messages if message.role == "assistant" and not message.parent)
    claimed = read("\n".join(answer.content for answer in answers))
    version = None if result.agent_version else claimed.facts.agent_version
    return session._replace(
        facts=facts._replace(
            agent_version=facts.agent_version or version,
            model=facts.model or claimed.facts.model,
            usage=facts.usage or claimed.facts.usage,
        ),
        tool_calls=session.tool_calls if knows_tools else claimed.tool_calls or session.tool_calls,
    )


def _claims(measured: SessionRecord, session: SessionRecord) -> tuple[Claim, ...]:
    """Return what `_with_claims` added."""
    known, facts = measured.facts, session.facts
    claimed: dict[Claim, bool] = {
        "version": known.agent_version != facts.agent_version,
        "model": known.model != facts.model,
        "usage": known.usage != facts.usage,
        "tool_calls": measured.tool_calls != session.tool_calls,
    }
    return tuple(name for name, is_claim in claimed.items() if is_claim)


def _read_stream(
    agent: type[AgentDescription],
    new_reader: Callable[[], StreamReader | None],
    output: str,
    end: int,
    redactor: Redactor,
) -> SessionRecord | None:
    """Read the output as a stream; None if it has no event."""
    reader = new_reader()
    if reader is None:
        return None
    skipped = reader.partial_prefix
    session = _read_lines(agent, reader, output, end, redactor, skip=skipped)
    if skipped is not None and session.facts.result is None and skipped in output:
        # Without a result, only the partial messages have the session's tokens and its unfinished text.
        del session
        session = _read_lines(agent, new_reader(), output, end, redactor)
    return session if session.facts.stream_seen else None


def _read_lines(
    agent: type[AgentDescription],
    reader: StreamReader | None,
    output: str,
    end: int,
    redactor: Redactor,
    *,
    skip: str | None = None,
) -> SessionRecord:
    read = OutputReader(agent, reader, redactor=redactor)
    for start, stop in _event_spans(output, end):
        if skip is None or not output.startswith(skip, start):
            read.line(output[start:stop])
    read.finish()
    return read.session()


def _event_spans(output: str, end: int) -> Iterator[tuple[int, int]]:
    """Yield the spans of lines that may be events. Split only at "\\n": splitlines() also splits at U+2028."""
    start, find = 0, output.find
    while start < end:
        stop = find("\n", start, end)
        if stop < 0:
            stop = end
        first = output[start]
        if first == "{" or (first in _NOISE and strip_ansi(output[start:stop]).lstrip().startswith("{")):
            yield start, stop
        start = stop + 1


def truncation(output: str) -> int | None:
    """Return the position of the truncation marker. Inside an event, there is no raw line end before it."""
    if output.startswith(TRUNCATION_MARK):
        return 0
    start = output.find("\n" + TRUNCATION_MARK)
    if start >= 0:
        return start + 1
    last = output.rfind("\n", 0, len(output) - 1) + 1
    start = output.find(TRUNCATION_MARK, last)
    # A complete event in the last line only quotes it.
    return start if start >= 0 and not output.rstrip().endswith("}") else None


def _with_prompt(messages: tuple[Message, ...], prompt: object) -> tuple[Message, ...]:
    """Put the prompt before the conversation."""
    if not isinstance(prompt, str) or not prompt:
        return messages
    prompt = clean_text(prompt)
    # Some CLIs repeat it in their output.
    repeated = messages and messages[0].role == "user" and messages[0].content == prompt
    return messages if repeated else (Message(role="user", content=prompt), *messages)


def _errors(agent: type[AgentDescription], result: AgentExecutionResult, *, cut: bool) -> tuple[ErrorRecord, ...]:
    if not cut or has_code(result.errors, agent.code(codes.OUTPUT_TRUNCATED)):
        return result.errors
    return (*result.errors, truncated(agent, result.completed_at))


def _warnings(
    agent: type[AgentDescription], result: AgentExecutionResult, session: SessionRecord, *, cut: bool
) -> tuple[ErrorRecord, ...]:
    facts, at, warnings = session.facts, result.completed_at, list(result.warnings)
    lines = facts.malformed_lines - (1 if cut else 0)  # without the event that was truncated
    if facts.stream_seen and lines > 0 and not has_code(result.warnings, agent.code(codes.MALFORMED_LINE)):
        warnings.append(malformed(agent, lines, facts.malformed_example, at))
    if session.left_out != LeftOut():
        warnings.append(transcript_shortened(agent, session.left_out, at))
    return tuple(warnings)


def has_code(records: tuple[ErrorRecord, ...], code: str) -> bool:
    return any(record.code == code for record in records)
