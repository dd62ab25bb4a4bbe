"""Decide how a session ended: its status and its errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from youbencha.adapters.cli_agent import codes
from youbencha.adapters.cli_agent.causes import (
    Cause,
    FailureEvidence,
    common_causes,
    execution_cause,
    find_cause,
    other_cause,
)
from youbencha.adapters.cli_agent.kind import AgentKind, error_record, malformed, plural, truncated
from youbencha.json_lines import clean_text
from youbencha.log import ErrorRecord, Status
from youbencha.log.session import SessionFacts, SessionRecord
from youbencha.process import LimitHit, ProcessResult

_TAIL_CHARACTERS = 8_000

_TAIL_LINES = 5

_LINE_CHARACTERS = 300

_SIGNAL_OF_EXIT = {
    129: "SIGHUP",
    130: "SIGINT",
    134: "SIGABRT",
    137: "SIGKILL",
    139: "SIGSEGV",
    143: "SIGTERM",
}
"""A shell, a container and some CLIs themselves (SIGTERM: 143) report a signal in this way."""

_OPTION_OF_LIMIT = {"disk": "sandbox.disk", "memory": "sandbox.memory", "processes": "sandbox.pids"}


@dataclass(frozen=True, kw_only=True)
class RunEnding:
    """How a run ended: its process, its session, and what ended it."""

    process: ProcessResult
    session: SessionRecord
    timeout_ms: int | None = None
    stream_expected: bool = True
    """The agent writes events, and ends them with a result."""
    success_exit_codes: frozenset[int] = frozenset({0})
    finished_before_stop: bool = False
    """Its result had come before we ended it."""
    interrupted: bool = False
    """We asked it to end; a result after that is its answer to us."""
    key_rejected: bool = False
    """The API rejected the key, so that we ended the process."""
    unresponsive: str | None = None
    """Why we gave it up, though it still ran."""

    @property
    def facts(self) -> SessionFacts:
        return self.session.facts

    @property
    def exit_code(self) -> int | None:
        return self.process.exit.code

    @property
    def breach(self) -> LimitHit | None:
        return self.process.exit.breach

    @property
    def duration_ms(self) -> int:
        return round(self.process.duration_s * 1000)

    @property
    def ended_by(self) -> str | None:
        """The signal that ended the process."""
        return self.process.exit.signal or _SIGNAL_OF_EXIT.get(self.exit_code or 0)

    @property
    def good_exit(self) -> bool:
        return self.process.exit.signal is None and self.exit_code in self.success_exit_codes

    def settled(self) -> RunEnding:
        """With its usage marked as partial where it was cut off: the call that it was in is not in the sum."""
        usage = self.facts.usage
        cut_off = (self.process.stopped or self.interrupted) and not self.finished_before_stop
        if not cut_off or usage is None:
            return self
        return replace(self, session=self.session.with_facts(usage=usage._replace(partial=True)))


def timeout(kind: AgentKind, ending: RunEnding, at: str, *, finished: bool) -> ErrorRecord | None:
    """`finished`: the agent had said its closing word."""
    if not ending.process.timed_out:
        return None
    limit = f" of {ending.timeout_ms / 1000:g} s ({ending.timeout_ms} ms)" if ending.timeout_ms else ""
    return error_record(
        kind.code(codes.TIMEOUT),
        f"{kind.title} exceeded its timeout{limit} and was stopped after {ending.duration_ms / 1000:.1f} s. "
        "Output up to that moment was kept.",
        at,
        "The agent had reported its result, but something it left running kept it alive: look for background "
        "commands, or raise `timeout`."
        if finished
        else "Raise `timeout`, or give the agent a smaller task.",
        timeout_ms=ending.timeout_ms,
        duration_ms=ending.duration_ms,
        result_seen=finished,
    )


def stopped(kind: AgentKind, ending: RunEnding, at: str) -> ErrorRecord | None:
    if not ending.process.stopped:
        return None
    return error_record(
        kind.code(codes.STOPPED),
        f"{kind.title} was ended by youBencha before its time. It had run for {ending.duration_ms / 1000:.1f} s. "
        "Output up to that moment was kept.",
        at,
        "Neither the agent nor its timeout did this: the outcome of the run tells why.",
        kind="stopped",
        duration_ms=ending.duration_ms,
    )


def sandbox_limit(kind: AgentKind, ending: RunEnding, at: str, *, blames_model: bool = False) -> ErrorRecord | None:
    """`blames_model`: it ended by itself, and said that a call to the model had failed. A tool that ran into a limit
    before that did not end it."""
    if ending.breach is None or (blames_model and ending.ended_by is None):
        return None
    how = "was ended because it" if ending.ended_by else "failed because something that it ran"
    return error_record(
        kind.code(codes.SANDBOX_LIMIT),
        f"{kind.title} {how} went beyond its sandbox's limit: {ending.breach}.{tail(ending)}",
        at,
        f"Raise `{_OPTION_OF_LIMIT[ending.breach.kind]}`, or give the agent a smaller task.",
        limit=str(ending.breach),
        signal=ending.ended_by,
        exit_code=ending.exit_code,
    )


def crashed(kind: AgentKind, ending: RunEnding, at: str) -> ErrorRecord | None:
    signal = ending.ended_by
    if signal is None:
        return None
    memory = " SIGKILL from outside is often the system running out of memory." if signal == "SIGKILL" else ""
    return error_record(
        kind.code(codes.CRASHED),
        f"{kind.title} was ended by {signal} in the middle of its work.{tail(ending)}",
        at,
        f"Neither the agent nor its timeout did this.{memory} See the end of the raw log, and run it again.",
        signal=signal,
        exit_code=ending.exit_code,
    )


def no_result(kind: AgentKind, ending: RunEnding, at: str, hint: str) -> ErrorRecord | None:
    if not ending.good_exit:
        return None
    return error_record(
        kind.code(codes.NO_RESULT),
        f"{kind.title} exited with code 0 but never reported a result.{tail(ending)}",
        at,
        hint,
        exit_code=ending.exit_code,
    )


def exit_code(kind: AgentKind, ending: RunEnding, at: str, hint: str) -> ErrorRecord:
    return error_record(
        kind.code(codes.EXIT_CODE),
        f"{kind.title} exited with code {ending.exit_code}.{tail(ending) or ' It printed nothing.'}",
        at,
        hint,
        exit_code=ending.exit_code,
    )


def last_lines(ending: RunEnding) -> list[str]:
    lines = (line.strip() for line in clean_text(ending.process.output[-_TAIL_CHARACTERS:]).split("\n"))
    # Events say nothing to a person; what stands between them is stderr.
    return [line for line in lines if line and not line.startswith('{"')][-_TAIL_LINES:]


def tail(ending: RunEnding) -> str:
    lines = [quote(line) for line in last_lines(ending)]
    return f" Its last {plural(len(lines), 'line')}:\n" + "\n".join(lines) if lines else ""


def quote(text: str) -> str:
    text = clean_text(text).strip()
    return text if len(text) <= _LINE_CHARACTERS else text[:_LINE_CHARACTERS] + "…"


class Verdict(NamedTuple):
    status: Status
    errors: tuple[ErrorRecord, ...]
    warnings: tuple[ErrorRecord, ...]


def judge(kind: AgentKind, end: RunEnding, *, at: str, own_causes: Sequence[Cause] = ()) -> Verdict:
    """`at` is the time stamp of every record; `own_causes` are the agent's, and stand before the common ones."""
    status = _status(end)
    errors = []
    if status != "success":
        errors.append(reason(kind, end, at, own_causes))
    if end.process.truncated:
        errors.append(truncated(kind, at))
    return Verdict(status=status, errors=tuple(errors), warnings=tuple(_warnings(kind, end.facts, at)))


def _status(end: RunEnding) -> Status:
    if end.process.timed_out:
        return "timeout"
    if not (end.finished_before_stop if end.process.stopped else end.good_exit):
        return "failed"
    if end.breach:  # it was ended, with whatever code
        return "failed"
    facts = end.facts
    if not (end.stream_expected or facts.stream_seen):
        return "success"
    return "success" if facts.results and facts.result and not facts.result.is_error else "failed"


def _warnings(kind: AgentKind, facts: SessionFacts, at: str) -> Iterator[ErrorRecord]:
    if facts.denied_tools:
        names = ", ".join(f"{name} ({times}x)" for name, times in facts.denied_tools.items())
        yield error_record(
            kind.code(codes.TOOL_DENIED),
            f"{kind.title} was not allowed to use its tools: {names}. The run went on without them.",
            at,
            "Allow them; nobody is there to be asked.",
            tools=facts.denied_tools,
        )
    if facts.retries:
        times = plural(sum(retry.times for retry in facts.retries), "time")
        kinds = ", ".join(f"{retry.reason or 'unknown'} ({retry.status or 'no answer'})" for retry in facts.retries)
        yield error_record(
            kind.code(codes.REQUESTS_RETRIED),
            f"Calls to the model failed and were repeated {times}: {kinds}. The run's duration includes the waiting.",
            at,
            "Run fewer trials at a time, or leave this run out of comparisons of speed.",
            retries=[retry._asdict() for retry in facts.retries],
        )
    if facts.unread_metrics:
        yield error_record(
            kind.code(codes.METRICS_UNREADABLE),
            f"Not all that {kind.title[0].lower()}{kind.title[1:]} told of its figures could be read: "
            f"{'; '.join(facts.unread_metrics)}. What could not counts as unknown.",
            at,
            "It is to be one JSON object of less than 1 MiB, with whole numbers for tokens and turns.",
            problems=facts.unread_metrics,
        )
    if facts.stream_seen and facts.malformed_lines:
        yield malformed(kind, facts.malformed_lines, facts.malformed_example, at)


# Why a run that did not succeed did not. The first explanation that has something to say counts.


def reason(kind: AgentKind, end: RunEnding, at: str, own_causes: Sequence[Cause]) -> ErrorRecord:
    causes = (*own_causes, *common_causes(kind))
    return (
        timeout(kind, end, at, finished=end.facts.results > 0)
        or stopped(kind, end, at)
        or sandbox_limit(kind, end, at, blames_model=end.facts.failure is not None)
        or _said(kind, end, at, causes)
        or crashed(kind, end, at)
        or _said_plainly(kind, end, at, causes)
        or _no_result(kind, end, at)
        or _exit_code(kind, end, at)
    )


def _said(kind: AgentKind, end: RunEnding, at: str, causes: Sequence[Cause]) -> ErrorRecord | None:
    """What the agent said of its own failure, if anything."""
    result, failure = end.facts.result, end.facts.failure
    is_error = result is not None and result.is_error
    if failure is None and not is_error:
        return None
    closing = (result.text or "") if result and is_error else ""
    evidence = FailureEvidence(
        text=(failure.text if failure else "") or closing,
        subtype=result.subtype if result else None,
        kind=failure.kind if failure else None,
        status=failure.status if failure else None,
    )
    unknown = other_cause(kind) if failure else execution_cause(kind)
    return _by_cause(find_cause(evidence, causes) or unknown, end, evidence, at)


def _said_plainly(kind: AgentKind, end: RunEnding, at: str, causes: Sequence[Cause]) -> ErrorRecord | None:
    """On stderr, by a CLI that never came to its first event: no login, an unknown model."""
    if end.facts.stream_seen or not end.stream_expected:
        return None
    evidence = FailureEvidence(text="\n".join(last_lines(end)))
    cause = find_cause(evidence, causes)
    return _by_cause(cause, end, evidence, at) if cause else None


def _by_cause(cause: Cause, end: RunEnding, evidence: FailureEvidence, at: str) -> ErrorRecord:
    said = quote(evidence.text)
    return error_record(
        cause.code,
        f"{cause.says}: {said}" if said else f"{cause.says}.",
        at,
        cause.hint,
        kind=cause.kind,
        status=evidence.http_status(),
        exit_code=end.exit_code,
    )


def _no_result(kind: AgentKind, end: RunEnding, at: str) -> ErrorRecord | None:
    hint = "An interrupt, or a lost end of the output, does this; see the raw log."
    return no_result(kind, end, at, hint)


def _exit_code(kind: AgentKind, end: RunEnding, at: str) -> ErrorRecord:
    hint = "The lines quoted are its own last ones; the raw log has all of them."
    return exit_code(kind, end, at, hint)
