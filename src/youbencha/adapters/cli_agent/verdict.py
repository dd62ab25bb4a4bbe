"""Decide how a run ended: its status, and an error with the reason and a hint.

Exit code 0 is not success: CLIs also exit with 0 after an error, after SIGINT and without any result. So if there is a
stream of events, its last result decides together with the exit code; for plain text, the exit code decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Literal, NamedTuple

from youbencha.adapters.cli_agent import codes
from youbencha.adapters.cli_agent.causes import (
    ABORTED,
    AUTHENTICATION,
    UNKNOWN_FAILURE,
    Cause,
    FailureEvidence,
    find_cause,
    iso_time_or_none,
    reset_time,
)
from youbencha.adapters.cli_agent.kind import AgentKind, error_record, truncated
from youbencha.log.model import ErrorRecord, Status
from youbencha.log.session import SessionFacts, SessionRecord
from youbencha.process import LimitHit, ProcessResult
from youbencha.text import clean_text, shorten

_UNAUTHORIZED = 401
_TAIL_CHARACTERS = 8_000
_TAIL_LINES = 5
_LINE_CHARACTERS = 300

_SIGNAL_OF_EXIT = {129: "SIGHUP", 130: "SIGINT", 134: "SIGABRT", 137: "SIGKILL", 139: "SIGSEGV", 143: "SIGTERM"}
"""Shells, containers and some CLIs (SIGTERM: 143) report a signal by these exit codes."""

_FAILED_CALL = frozenset({codes.AUTH_FAILED, codes.RATE_LIMIT, codes.OVERLOADED, codes.REFUSED, codes.API_ERROR})

_OPTION_OF_LIMIT = {"disk": "sandbox.disk", "memory": "sandbox.memory", "processes": "sandbox.pids"}


class VerdictRules(NamedTuple):
    """How to interpret the end of an agent's run, as far as agents differ."""

    causes: tuple[Cause, ...] = ()
    """The agent's own causes of failure. They come before the common ones."""
    success_subtypes: frozenset[str] | None = None
    """The subtypes of a result that is a success, besides none at all; None: any that is not an error."""
    plain_errors: Literal["without_events", "after_failed_exit"] = "without_events"
    """When plain text is searched for a cause: if events were expected and there are none, whatever the exit code, or
    if the exit code is a failure, even if plain text is its answer."""
    compares_models: bool = False
    """It names its model at the start: if answers name another one, that is a fallback."""


class RunEnding(NamedTuple):
    """How a run ended: its process, its session, and the reason."""

    process: ProcessResult
    session: SessionRecord
    timeout_ms: int | None = None
    stream_expected: bool = True
    """The agent prints events, the last of which is a result."""
    success_exit_codes: frozenset[int] = frozenset({0})
    finished_before_stop: bool = False
    """It had a result before the harness ended it."""
    stayed: bool = False
    """It did not end after its result, because of commands in the background."""
    interrupted: bool = False
    """The harness interrupted it; a result after that is the answer to the interrupt."""
    key_rejected: bool = False
    """The harness ended it because the API rejected the key."""
    unresponsive: str | None = None
    """Why the harness ended it as unresponsive."""
    mask: Callable[[str], str] = str
    """Masks secrets in what is quoted, before it is cut."""

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

    @property
    def has_result(self) -> bool:
        return self.facts.results > 0 and not self.interrupted

    def settled(self) -> RunEnding:
        """Mark the usage as partial if the run was stopped early: an unfinished call is not in the sum."""
        usage = self.facts.usage
        stopped_early = (self.process.stopped or self.interrupted) and not self.finished_before_stop
        if not stopped_early or usage is None:
            return self
        return self._replace(session=self.session.with_facts(usage=usage._replace(partial=True)))


class Verdict(NamedTuple):
    status: Status
    errors: tuple[ErrorRecord, ...]


def judge(kind: AgentKind, ending: RunEnding, rules: VerdictRules, *, at: str) -> Verdict:
    """Return the status and the errors, with `at` as their timestamp."""
    status = _status(ending, rules)
    errors = []
    if status != "success":
        explanation = _Explanation(kind, ending, rules, at)
        errors += [explanation.reason(), *(explanation.unanswered() if status == "timeout" else ())]
    if ending.process.truncated:
        errors.append(truncated(kind, at))
    return Verdict(status, tuple(errors))


def _status(ending: RunEnding, rules: VerdictRules) -> Status:
    if ending.process.exit.host_failure:
        return "failed"
    if ending.process.timed_out:
        return "timeout"
    if ending.key_rejected or not (ending.finished_before_stop if ending.process.stopped else ending.good_exit):
        return "failed"
    if ending.breach:  # whatever the exit code
        return "failed"
    if not (ending.stream_expected or ending.facts.stream_seen):
        return "success"
    result = ending.facts.result
    return "success" if result and not result.is_error and _is_success(result.subtype, rules) else "failed"


def _is_success(subtype: str | None, rules: VerdictRules) -> bool:
    return subtype is None or rules.success_subtypes is None or subtype in rules.success_subtypes


class _Explanation:
    """Why a run did not succeed."""

    def __init__(self, kind: AgentKind, ending: RunEnding, rules: VerdictRules, at: str) -> None:
        self._kind = kind
        self._ending = ending
        self._rules = rules
        self._at = at

    def reason(self) -> ErrorRecord:
        """Return the first explanation that applies."""
        return (
            self._host_failed()
            or self._timeout()
            or self._rejected_key()
            or self._unresponsive()
            or self._stopped()
            or self._sandbox_limit()
            or self._reported()
            or self._crashed()
            or self._plain_error()
            or self._output_lost()
            or self._no_result()
            or self._exit_code()
        )

    def unanswered(self) -> tuple[ErrorRecord, ...]:
        """Explain a timeout while calls to the model kept failing: it measures the provider, not the agent."""
        last = self._ending.facts.unanswered
        if last is None:
            return ()
        evidence = FailureEvidence(text="", kind=last.reason, status=last.status)
        record = self._by_cause(find_cause(evidence, self._rules.causes) or UNKNOWN_FAILURE, evidence)
        message = f"Calls to the model failed until the time was up. {record.message}"
        context = {**(record.context or {}), "unanswered": True}
        return (record.model_copy(update={"message": message, "context": context}),)

    def _host_failed(self) -> ErrorRecord | None:
        if (reason := self._ending.process.exit.host_failure) is None:
            return None
        message = f"Something around the agent failed while it ran: {reason}."
        return self._record(codes.HOST_FAILED, message, "Neither the agent nor its limits did this: run it again.")

    def _timeout(self) -> ErrorRecord | None:
        ending = self._ending
        if not ending.process.timed_out:
            return None
        limit = f" of {ending.timeout_ms / 1000:g} s ({ending.timeout_ms} ms)" if ending.timeout_ms else ""
        return self._record(
            codes.TIMEOUT,
            f"{self._kind.title} exceeded its timeout{limit} and was stopped after {ending.duration_ms / 1000:.1f} s. "
            "Output up to then was kept.",
            "The agent had reported its result, but something that it started kept it alive: look for background "
            "commands, or raise `timeout`."
            if ending.has_result
            else "Raise `timeout`, or give the agent a smaller task.",
            timeout_ms=ending.timeout_ms,
            duration_ms=ending.duration_ms,
            result_seen=ending.has_result,
        )

    def _rejected_key(self) -> ErrorRecord | None:
        if not self._ending.key_rejected:
            return None
        found = self._evidence()
        return self._by_cause(AUTHENTICATION, FailureEvidence(text=found.text if found else "", status=_UNAUTHORIZED))

    def _unresponsive(self) -> ErrorRecord | None:
        if self._ending.unresponsive is None:
            return None
        message = f"{self._kind.title} was ended because it did not respond: {self._ending.unresponsive}."
        hint = "Usually a call to the model never ended. Raise `silence_timeout_s` if the agent was at work."
        return self._record(codes.UNRESPONSIVE, message, hint)

    def _stopped(self) -> ErrorRecord | None:
        if not self._ending.process.stopped:
            return None
        return self._record(
            codes.STOPPED,
            f"{self._kind.title} was ended early by youBencha. "
            f"It had run for {self._ending.duration_ms / 1000:.1f} s. Output up to then was kept.",
            "Neither the agent nor its timeout caused this; see the other errors and warnings of the run.",
            kind="stopped",
            duration_ms=self._ending.duration_ms,
        )

    def _sandbox_limit(self) -> ErrorRecord | None:
        """Not the reason if the agent itself ended because of a failed call: then only a tool exceeded the limit."""
        ending = self._ending
        if ending.breach is None or (ending.facts.failure is not None and ending.ended_by is None):
            return None
        how = "was ended because it" if ending.ended_by else "failed because something that it ran"
        kind, limit = ending.breach
        what = (
            f"ran out of memory ({limit})" if kind == "memory" else f"exceeded a limit of the sandbox: {ending.breach}"
        )
        return self._record(
            codes.of_limit(kind),
            f"{self._kind.title} {how} {what}.{self._tail()}",
            f"Raise `{_OPTION_OF_LIMIT[kind]}`, or give the agent a smaller task.",
            limit=str(ending.breach),
            signal=ending.ended_by,
            exit_code=ending.exit_code,
        )

    def _reported(self) -> ErrorRecord | None:
        """What the agent itself reported about its failure."""
        evidence = self._evidence()
        if evidence is None:
            return None
        cause = find_cause(evidence, self._rules.causes)
        return self._by_cause(cause or (UNKNOWN_FAILURE if self._failed_call() else ABORTED), evidence)

    def _crashed(self) -> ErrorRecord | None:
        signal = self._ending.ended_by
        if signal is None:
            return None
        memory = " SIGKILL often means that the system ran out of memory." if signal == "SIGKILL" else ""
        return self._record(
            codes.CRASHED,
            f"{self._kind.title} was ended by {signal} in the middle of its work.{self._tail()}",
            f"Neither the agent nor its timeout did this.{memory} See the end of the raw log, and run it again.",
            signal=signal,
            exit_code=self._ending.exit_code,
        )

    def _plain_error(self) -> ErrorRecord | None:
        """An error on stderr of a CLI that printed no event, such as a missing login or an unknown model."""
        ending = self._ending
        is_error = not ending.good_exit if self._rules.plain_errors == "after_failed_exit" else ending.stream_expected
        if ending.facts.stream_seen or not is_error:
            return None
        process = ending.process
        printed = process.end.text if process.end else process.printed
        cause = find_cause(FailureEvidence(text="\n".join(_last_lines(printed))), self._rules.causes)
        if cause is None or (cause.code in _FAILED_CALL and ending.facts.turns):
            return None  # unknown, or the words of a model: its records have its calls, and none failed
        return self._by_cause(cause, FailureEvidence(text="\n".join(_last_lines(process.last_output))))

    def _output_lost(self) -> ErrorRecord | None:
        """Recognise output that was cut in the middle of an event.

        If its disk is full, Claude Code exits with 0 all the same (6 of 8 runs); if only for a moment, this is all that
        shows it.
        """
        ending = self._ending
        if not (ending.good_exit and ending.facts.stream_seen and ending.process.unfinished_line):
            return None
        return self._record(
            codes.OUTPUT_LOST,
            f"{self._kind.title} exited with code {ending.exit_code} in the middle of a line of its output.",
            "It ended before its last output was written, with its result: run it again.",
            exit_code=ending.exit_code,
            bytes=ending.process.total_bytes,
        )

    def _no_result(self) -> ErrorRecord | None:
        if not self._ending.good_exit:
            return None
        return self._record(
            codes.NO_RESULT,
            f"{self._kind.title} exited with code {self._ending.exit_code} but never reported a result.{self._tail()}",
            self._kind.hint(codes.NO_RESULT, "Possible reasons: an interrupt, or truncated output; see the raw log."),
            exit_code=self._ending.exit_code,
        )

    def _exit_code(self) -> ErrorRecord:
        code = self._ending.exit_code
        silent = "" if self._ending.process.total_bytes else " It printed nothing."
        return self._record(
            codes.EXIT_CODE,
            f"{self._kind.title} exited with code {code}.{self._tail() or silent}",
            self._kind.hint(codes.EXIT_CODE, "The quoted lines are its last output; the raw log has all of it."),
            exit_code=code,
        )

    def _evidence(self) -> FailureEvidence | None:
        facts, result, failure = self._ending.facts, self._ending.facts.result, self._ending.facts.failure
        failed = result is not None and not _is_success(result.subtype, self._rules)
        if failure is None and not failed and not (result and result.is_error):
            return None
        told = [failure.text if failure else ""]
        if result and (failed or result.is_error):
            told += result.errors or [result.text or ""]
        return FailureEvidence(
            text=_joined(told),
            subtype=result.subtype if result else None,
            kind=failure.kind if failure else None,
            status=(result.status if result else None) or (failure.status if failure else None),
            refused=facts.refused,
        )

    def _failed_call(self) -> bool:
        """Whether a call to the model failed: Claude Code reports this as a "success" with an error."""
        result = self._ending.facts.result
        return self._ending.facts.failure is not None or (result is not None and result.subtype == "success")

    def _by_cause(self, cause: Cause, evidence: FailureEvidence) -> ErrorRecord:
        quote, message = _quote(self._ending.mask(evidence.text)), cause.message.format(agent=self._kind.title)
        context: dict[str, Any] = {
            "kind": cause.kind,
            "status": evidence.http_status(),
            "exit_code": self._ending.exit_code,
        }
        if cause.code == codes.RATE_LIMIT:
            limit = self._ending.facts.rate_limit
            # The event has the exact time; the text only hours and minutes.
            known = limit.resets_at if limit and limit.resets_at else None
            resets_at = known or reset_time(evidence.text, datetime.fromisoformat(self._at))
            context["resets_at"] = iso_time_or_none(resets_at)
        hint = self._kind.hint(cause.code, cause.hint or self._kind.how_to_authenticate)
        return self._record(cause.code, f"{message}: {quote}" if quote else f"{message}.", hint, **context)

    def _record(self, code: str, message: str, hint: str, **context: Any) -> ErrorRecord:
        return error_record(self._kind.code(code), message, self._at, hint, **context)

    def _tail(self) -> str:
        lines = [_quote(line) for line in _last_lines(self._ending.process.last_output)]
        which = "line" if len(lines) == 1 else f"{len(lines)} lines"
        return f" Its last {which}:\n" + "\n".join(lines) if lines else ""


def _last_lines(output: str) -> list[str]:
    lines = (line.strip() for line in clean_text(output[-_TAIL_CHARACTERS:]).split("\n"))
    # Events are not readable; what is between them is stderr.
    return [line for line in lines if line and not line.startswith('{"')][-_TAIL_LINES:]


def _joined(texts: Iterable[str]) -> str:
    """Join texts, without those that others contain: an error is often reported twice."""
    joined: list[str] = []
    for text in texts:
        if text and not any(text in each for each in joined):
            joined.append(text)
    return "; ".join(joined)


def _quote(text: str) -> str:
    return shorten(clean_text(text).strip(), _LINE_CHARACTERS)
