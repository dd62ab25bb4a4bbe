"""How a run ended -> its status, and errors and warnings that say what to do. One pure function.

Exit 0 is not success: it comes with `is_error`, with `error_max_turns` (2.1.30, 1.0.128), after SIGINT, and without any
`result`. So where a stream began, its last result decides together with the exit code; in plain text, the exit code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from youbencha.adapters.claude_code import codes
from youbencha.adapters.claude_code.config import CLAUDE
from youbencha.adapters.claude_code.texts import CAUSES, Evidence, cause_of, find_cause, moment_of
from youbencha.adapters.cli_agent import verdict
from youbencha.adapters.cli_agent.causes import Cause
from youbencha.adapters.cli_agent.kind import error_record, malformed, plural, truncated
from youbencha.adapters.cli_agent.verdict import RunEnding
from youbencha.log import ErrorRecord, Status
from youbencha.log.session import SessionFacts

_UNAUTHORIZED = 401


def judge(end: RunEnding, *, at: str) -> verdict.Verdict:
    """`at` is the time stamp of every record."""
    status = _status(end)
    errors = [] if status == "success" else [_reason(end, at)]
    if status == "timeout" and (unanswered := _unanswered(end, at)):
        errors.append(unanswered)
    if end.process.truncated:
        errors.append(truncated(CLAUDE, at))
    return verdict.Verdict(status=status, errors=tuple(errors), warnings=notices(end.facts, at))


def _status(end: RunEnding) -> Status:
    if end.process.timed_out:
        return "timeout"
    if end.key_rejected or not (end.finished_before_stop if end.process.stopped else end.good_exit):
        return "failed"
    if end.breach:  # it was ended, with whatever code
        return "failed"
    result = end.facts.result
    if not (end.stream_expected or end.facts.stream_seen):
        return "success"
    return "success" if result and result.subtype == "success" and not result.is_error else "failed"


def _reason(end: RunEnding, at: str) -> ErrorRecord:
    found = (explain(end, at) for explain in _EXPLANATIONS)
    return next(record for record in found if record is not None)


def _evidence(end: RunEnding) -> Evidence | None:
    """What the agent said of its own failure, if anything."""
    facts, result, failure = end.facts, end.facts.result, end.facts.failure
    if result and result.subtype != "success":
        return Evidence(text="; ".join(result.errors), subtype=result.subtype or "missing")
    if result and result.is_error:
        said = failure.text if failure else ""
        return Evidence(
            text=result.text or "; ".join(result.errors) or said,
            kind=failure.kind if failure else None,
            status=result.status or (failure.status if failure else None),
            refused=facts.refused,
        )
    if result is None and failure:
        return Evidence(text=failure.text, kind=failure.kind, status=failure.status, refused=facts.refused)
    return None


def _plain_evidence(end: RunEnding) -> Evidence:
    return Evidence(text="\n".join(verdict.last_lines(end)))


def _timeout(end: RunEnding, at: str) -> ErrorRecord | None:
    return verdict.timeout(CLAUDE, end, at, finished=end.facts.result is not None and not end.interrupted)


def _unanswered(end: RunEnding, at: str) -> ErrorRecord | None:
    """Its time went by while every call to the model failed: that measures the provider, and not the agent."""
    facts = end.facts
    if not facts.retries or (facts.usage is not None and facts.usage.tokens.input is not None):
        return None
    last = facts.retries[-1]
    evidence = Evidence(text="", kind=last.reason, status=last.status)
    record = _by_cause(cause_of(evidence), end, evidence, at)
    calls = plural(sum(retry.times for retry in facts.retries), "call")
    message = f"Until its time was up, no call to the model was answered ({calls} failed). {record.message}"
    return record.model_copy(update={"message": message, "context": {**(record.context or {}), "unanswered": True}})


def _by_cause(cause: Cause, end: RunEnding, evidence: Evidence, at: str) -> ErrorRecord:
    said = verdict.quote(evidence.text)
    context: dict[str, object] = {"kind": cause.kind, "status": evidence.http_status(), "exit_code": end.exit_code}
    if cause.code == codes.RATE_LIMIT:
        limit = end.facts.rate_limit
        # The event has the moment itself; the text only a clock's face.
        told = limit.resets_at if limit and limit.resets_at else evidence.resets_at(datetime.fromisoformat(at))
        context["resets_at"] = moment_of(told)
    message = f"{cause.says}: {said}" if said else f"{cause.says}."
    return error_record(cause.code, message, at, cause.hint, **context)


def _rejected_key(end: RunEnding, at: str) -> ErrorRecord | None:
    if not end.key_rejected:
        return None
    cause = next(cause for cause in CAUSES if cause.code == codes.AUTH_FAILED)
    said = _evidence(end)
    return _by_cause(cause, end, Evidence(text=said.text if said else "", status=_UNAUTHORIZED), at)


def _unresponsive(end: RunEnding, at: str) -> ErrorRecord | None:
    if end.unresponsive is None:
        return None
    hint = "A call to the model that never ends does this. Raise `silence_timeout_s` if it was at work."
    return error_record(codes.UNRESPONSIVE, f"Claude Code was given up: {end.unresponsive}.", at, hint)


def _stopped(end: RunEnding, at: str) -> ErrorRecord | None:
    return verdict.stopped(CLAUDE, end, at)


def _sandbox_limit(end: RunEnding, at: str) -> ErrorRecord | None:
    return verdict.sandbox_limit(CLAUDE, end, at, blames_model=end.facts.failure is not None)


def _said(end: RunEnding, at: str) -> ErrorRecord | None:
    evidence = _evidence(end)
    return _by_cause(cause_of(evidence), end, evidence, at) if evidence else None


def _said_plainly(end: RunEnding, at: str) -> ErrorRecord | None:
    evidence = _plain_evidence(end)
    cause = None if end.facts.stream_seen else find_cause(evidence)
    return _by_cause(cause, end, evidence, at) if cause else None


def _crashed(end: RunEnding, at: str) -> ErrorRecord | None:
    return verdict.crashed(CLAUDE, end, at)


def _no_result(end: RunEnding, at: str) -> ErrorRecord | None:
    hint = (
        "An interrupt (Ctrl-C), a lost end of the output or a configuration it could not read (MCP file) do this; "
        "see the raw log."
    )
    return verdict.no_result(CLAUDE, end, at, hint)


def _exit_code(end: RunEnding, at: str) -> ErrorRecord:
    hint = "The lines quoted are its own last ones; an unknown option means that this version of the CLI is too old."
    return verdict.exit_code(CLAUDE, end, at, hint)


_EXPLANATIONS: tuple[Callable[[RunEnding, str], ErrorRecord | None], ...] = (
    _timeout,
    _rejected_key,
    _unresponsive,
    _stopped,
    _sandbox_limit,
    _said,
    _crashed,
    _no_result,
    _said_plainly,
    _exit_code,
)
"""Why a run that did not succeed did not. The first that has something to say explains it."""


# What a person should know about a run even if it succeeded: facts -> warnings.


def notices(facts: SessionFacts, at: str) -> tuple[ErrorRecord, ...]:
    return tuple(record for notice in _NOTICES for record in notice(facts, at))


def _denied_tools(facts: SessionFacts, at: str) -> Iterator[ErrorRecord]:
    by_policy = facts.denied_by_policy
    others = {name: times - by_policy.get(name, 0) for name, times in facts.denied_tools.items()}
    others = {name: times for name, times in others.items() if times > 0}
    if by_policy:
        message = f"The tool policy denied: {_counted(by_policy)}. The run went on without them."
        hint = "See which rules apply: `tool_policy` of agent.config. A denied tool shows in what the agent can do."
        yield error_record(codes.TOOL_DENIED, message, at, hint, tools=by_policy, by="tool_policy")
    if others:
        yield error_record(
            codes.TOOL_DENIED,
            f"Claude Code was not allowed to use its tools: {_counted(others)}. The run went on without them.",
            at,
            "Add them to `allowed_tools`, or set `permission_mode: bypassPermissions` (in a sandbox).",
            tools=others,
        )


def _counted(tools: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({times}x)" for name, times in tools.items())


def _failed_mcp(facts: SessionFacts, at: str) -> Iterator[ErrorRecord]:
    if not facts.failed_mcp_servers:
        return
    count = plural(len(facts.failed_mcp_servers), "MCP server")
    yield error_record(
        codes.MCP_FAILED,
        f"{count} did not start: {', '.join(facts.failed_mcp_servers)}. The agent worked without their tools.",
        at,
        "Start the server's command by hand to see its error, and check that it exists where the agent runs.",
        servers=list(facts.failed_mcp_servers),
    )


def base_model(name: str) -> str:
    """For comparing only: `init` says "claude-opus-4-8[1m]" where the messages say "claude-opus-4-8"."""
    return name.split("[", 1)[0]


def _model_fallback(facts: SessionFacts, at: str) -> Iterator[ErrorRecord]:
    for switch in facts.switches:
        yield error_record(
            codes.MODEL_FALLBACK,
            f"Claude Code went over from {switch.original or 'its model'} to {switch.fallback or 'another'} "
            f"({switch.trigger or 'no reason given'}).",
            at,
            "The run does not measure the model asked for. Leave out `fallback_model`, or run it again.",
            original=switch.original,
            fallback=switch.fallback,
            trigger=switch.trigger,
        )
    asked, used = facts.init_model, facts.model
    if not facts.switches and asked and used and base_model(asked) != base_model(used):
        yield error_record(
            codes.MODEL_FALLBACK,
            f"Claude Code set out with {asked}, but {used} answered.",
            at,
            "A gateway that renames models does this, and so does an old CLI that falls back without a word.",
            original=asked,
            fallback=used,
            trigger=None,
        )


def _retries(facts: SessionFacts, at: str) -> Iterator[ErrorRecord]:
    if not facts.retries:
        return
    times = plural(sum(retry.times for retry in facts.retries), "time")
    kinds = ", ".join(f"{retry.reason or 'unknown'} ({retry.status or 'no answer'})" for retry in facts.retries)
    yield error_record(
        codes.REQUESTS_RETRIED,
        f"Calls to the model failed and were repeated {times}: {kinds}. The run's duration includes the waiting.",
        at,
        "Run fewer trials at a time, or leave this run out of comparisons of speed.",
        retries=[retry._asdict() for retry in facts.retries],
    )


def _malformed(facts: SessionFacts, at: str) -> Iterator[ErrorRecord]:
    # In plain text no line is an event, and that is no news.
    if facts.stream_seen and facts.malformed_lines:
        yield malformed(CLAUDE, facts.malformed_lines, facts.malformed_example, at)


_NOTICES = (_denied_tools, _failed_mcp, _model_fallback, _retries, _malformed)
