"""Decide how a run ended: its status, and an error with the reason and a hint.

Exit code 0 is not success: CLIs also exit with 0 after an error, after SIGINT and without any result. So if there is a
stream of events, its last result decides together with the exit code; for plain text, the exit code decides.

Then come the warnings, from the facts of its session and its process.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from youbencha.adapters import codes
from youbencha.adapters.base import AgentDescription
from youbencha.adapters.causes import (
    ABORTED,
    AUTHENTICATION,
    UNKNOWN_FAILURE,
    Cause,
    FailureEvidence,
    find_cause,
    iso_time_or_none,
    reset_time,
)
from youbencha.adapters.cli_agent.transcript import describe_left_out
from youbencha.log.model import Claim, ErrorRecord, Status, claims_message
from youbencha.log.session import LeftOut, SessionFacts, SessionRecord
from youbencha.process import OUTPUT_LIMIT_BYTES, LimitHit, ProcessResult
from youbencha.text import clean_text, first_few, plural, shorten
from youbencha.usage import base_model

_UNAUTHORIZED = 401
_TAIL_CHARACTERS = 8_000
_TAIL_LINES = 5
_LINE_CHARACTERS = 300

_SIGNAL_OF_EXIT = {129: "SIGHUP", 130: "SIGINT", 134: "SIGABRT", 137: "SIGKILL", 139: "SIGSEGV", 143: "SIGTERM"}
"""Shells, containers and some CLIs (SIGTERM: 143) report a signal by these exit codes."""

_FAILED_CALL = frozenset({codes.AUTH_FAILED, codes.RATE_LIMIT, codes.OVERLOADED, codes.REFUSED, codes.API_ERROR})

_OPTION_OF_LIMIT = {"disk": "sandbox.disk", "memory": "sandbox.memory", "processes": "sandbox.pids"}


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
    def limit_hit(self) -> LimitHit | None:
        return self.process.exit.limit_hit

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

    def with_partial_usage(self) -> RunEnding:
        """Mark the usage as partial if the run was stopped early: an unfinished call is not in the sum."""
        usage = self.facts.usage
        stopped_early = (self.process.stopped or self.interrupted) and not self.finished_before_stop
        if not stopped_early or usage is None:
            return self
        return self._replace(session=self.session.with_facts(usage=usage._replace(partial=True)))


class Verdict(NamedTuple):
    status: Status
    errors: tuple[ErrorRecord, ...]


def judge(agent: type[AgentDescription], ending: RunEnding, *, at: str) -> Verdict:
    """Return the status and the errors, with `at` as their timestamp."""
    status = _status(ending, agent)
    errors = []
    if status != "success":
        explanation = _Explanation(agent, ending, at)
        errors += [explanation.reason(), *(explanation.unanswered() if status == "timeout" else ())]
    if ending.process.truncated:
        errors.append(truncated(agent, at))
    return Verdict(status, tuple(errors))


def _status(ending: RunEnding, agent: type[AgentDescription]) -> Status:
    if ending.process.exit.host_failure:
        return "failed"
    if ending.process.timed_out:
        return "timeout"
    if ending.key_rejected or not (ending.finished_before_stop if ending.process.stopped else ending.good_exit):
        return "failed"
    if ending.limit_hit:  # whatever the exit code
        return "failed"
    if not (ending.stream_expected or ending.facts.stream_seen):
        return "success"
    result = ending.facts.result
    return "success" if result and not result.is_error and _is_success(result.subtype, agent) else "failed"


def _is_success(subtype: str | None, agent: type[AgentDescription]) -> bool:
    return subtype is None or agent.success_subtypes is None or subtype in agent.success_subtypes


class _Explanation:
    """Why a run did not succeed."""

    def __init__(self, agent: type[AgentDescription], ending: RunEnding, at: str) -> None:
        self._agent = agent
        self._ending = ending
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
        record = self._by_cause(find_cause(evidence, self._agent.causes) or UNKNOWN_FAILURE, evidence)
        message = f"Calls to the model failed until the time was up. {record.message}"
        context = {**(record.context or {}), "unanswered": True}
        return (record.model_copy(update={"message": message, "context": context}),)

    def _host_failed(self) -> ErrorRecord | None:
        if (reason := self._ending.process.exit.host_failure) is None:
            return None
        message = f"The host or the sandbox failed while the agent ran: {reason}."
        return self._record(codes.HOST_FAILED, message, "Neither the agent nor its limits caused this: run it again.")

    def _timeout(self) -> ErrorRecord | None:
        ending = self._ending
        if not ending.process.timed_out:
            return None
        limit = f" of {ending.timeout_ms / 1000:g} s ({ending.timeout_ms} ms)" if ending.timeout_ms else ""
        return self._record(
            codes.TIMEOUT,
            f"{self._agent.title} exceeded its timeout{limit} and was stopped after {ending.duration_ms / 1000:.1f} s. "
            "Output up to then was kept.",
            "The agent had reported its result, but a process that it started kept it alive: look for background "
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
        evidence = self._evidence()
        return self._by_cause(
            AUTHENTICATION, FailureEvidence(text=evidence.text if evidence else "", status=_UNAUTHORIZED)
        )

    def _unresponsive(self) -> ErrorRecord | None:
        if self._ending.unresponsive is None:
            return None
        message = f"{self._agent.title} was stopped because it did not respond: {self._ending.unresponsive}."
        hint = "Usually a call to the model never returned. Raise `silence_timeout_s` if the agent was working."
        return self._record(codes.UNRESPONSIVE, message, hint)

    def _stopped(self) -> ErrorRecord | None:
        if not self._ending.process.stopped:
            return None
        return self._record(
            codes.STOPPED,
            f"{self._agent.title} was stopped early by youBencha. "
            f"It had run for {self._ending.duration_ms / 1000:.1f} s. Output up to then was kept.",
            "Neither the agent nor its timeout caused this; see the other errors and warnings of the run.",
            kind="stopped",
            duration_ms=self._ending.duration_ms,
        )

    def _sandbox_limit(self) -> ErrorRecord | None:
        """Not the reason if the agent itself ended because of a failed call: then only a tool exceeded the limit."""
        ending = self._ending
        if ending.limit_hit is None or (ending.facts.failure is not None and ending.ended_by is None):
            return None
        how = "was ended because it" if ending.ended_by else "failed because something that it ran"
        kind, limit = ending.limit_hit
        what = (
            f"ran out of memory ({limit})"
            if kind == "memory"
            else f"exceeded a limit of the sandbox: {ending.limit_hit}"
        )
        return self._record(
            codes.limit_code(kind),
            f"{self._agent.title} {how} {what}.{self._tail()}",
            f"Raise `{_OPTION_OF_LIMIT[kind]}`, or give the agent a smaller task.",
            limit=str(ending.limit_hit),
            signal=ending.ended_by,
            exit_code=ending.exit_code,
        )

    def _reported(self) -> ErrorRecord | None:
        """Return what the agent itself reported about its failure."""
        evidence = self._evidence()
        if evidence is None:
            return None
        cause = find_cause(evidence, self._agent.causes)
        return self._by_cause(cause or (UNKNOWN_FAILURE if self._failed_call() else ABORTED), evidence)

    def _crashed(self) -> ErrorRecord | None:
        signal = self._ending.ended_by
        if signal is None:
            return None
        memory = " SIGKILL often means that the system ran out of memory." if signal == "SIGKILL" else ""
        return self._record(
            codes.CRASHED,
            f"{self._agent.title} was killed by {signal} in the middle of its work.{self._tail()}",
            f"Neither the agent nor its timeout caused this.{memory} See the end of the raw log, and run it again.",
            signal=signal,
            exit_code=self._ending.exit_code,
        )

    def _plain_error(self) -> ErrorRecord | None:
        """Return an error on stderr of a CLI that printed no event, such as a missing login or an unknown model."""
        ending = self._ending
        is_error = not ending.good_exit if self._agent.plain_errors == "after_failed_exit" else ending.stream_expected
        if ending.facts.stream_seen or not is_error:
            return None
        process = ending.process
        printed = process.end.text if process.end else process.printed
        cause = find_cause(FailureEvidence(text="\n".join(_last_lines(printed))), self._agent.causes)
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
            f"{self._agent.title} exited with code {ending.exit_code} in the middle of a line of its output.",
            "It exited before it had written its result: run it again.",
            exit_code=ending.exit_code,
            bytes=ending.process.total_bytes,
        )

    def _no_result(self) -> ErrorRecord | None:
        if not self._ending.good_exit:
            return None
        return self._record(
            codes.NO_RESULT,
            f"{self._agent.title} exited with code {self._ending.exit_code} but never reported a result.{self._tail()}",
            self._agent.hint(codes.NO_RESULT, "Possible reasons: an interrupt, or truncated output; see the raw log."),
            exit_code=self._ending.exit_code,
        )

    def _exit_code(self) -> ErrorRecord:
        code = self._ending.exit_code
        silent = "" if self._ending.process.total_bytes else " It printed nothing."
        return self._record(
            codes.EXIT_CODE,
            f"{self._agent.title} exited with code {code}.{self._tail() or silent}",
            self._agent.hint(codes.EXIT_CODE, "The quoted lines are its last output; the raw log has all of it."),
            exit_code=code,
        )

    def _evidence(self) -> FailureEvidence | None:
        facts, result, failure = self._ending.facts, self._ending.facts.result, self._ending.facts.failure
        failed = result is not None and not _is_success(result.subtype, self._agent)
        if failure is None and not failed and not (result and result.is_error):
            return None
        told = [failure.text if failure else ""]
        if result and (failed or result.is_error):
            told += result.errors or [result.text or ""]
        return FailureEvidence(
            text=_join(told),
            subtype=result.subtype if result else None,
            kind=failure.kind if failure else None,
            status=(result.status if result else None) or (failure.status if failure else None),
            refused=facts.refused,
        )

    def _failed_call(self) -> bool:
        """Return whether a call to the model failed: Claude Code reports this as a "success" with an error."""
        result = self._ending.facts.result
        return self._ending.facts.failure is not None or (result is not None and result.subtype == "success")

    def _by_cause(self, cause: Cause, evidence: FailureEvidence) -> ErrorRecord:
        quote, message = _quote(self._ending.mask(evidence.text)), cause.message.format(agent=self._agent.title)
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
        hint = self._agent.hint(cause.code, cause.hint or self._agent.how_to_authenticate)
        return self._record(cause.code, f"{message}: {quote}" if quote else f"{message}.", hint, **context)

    def _record(self, code: str, message: str, hint: str, **context: Any) -> ErrorRecord:
        return error_record(self._agent.code(code), message, self._at, hint, **context)

    def _tail(self) -> str:
        lines = [_quote(line) for line in _last_lines(self._ending.process.last_output)]
        which = "line" if len(lines) == 1 else f"{len(lines)} lines"
        return f" Its last {which}:\n" + "\n".join(lines) if lines else ""


def _last_lines(output: str) -> list[str]:
    lines = (line.strip() for line in clean_text(output[-_TAIL_CHARACTERS:]).split("\n"))
    # Events are not readable; what is between them is stderr.
    return [line for line in lines if line and not line.startswith('{"')][-_TAIL_LINES:]


def _join(texts: Iterable[str]) -> str:
    """Join texts, without those that others contain: an error is often reported twice."""
    joined: list[str] = []
    for text in texts:
        if text and not any(text in other for other in joined):
            joined.append(text)
    return "; ".join(joined)


def _quote(text: str) -> str:
    return shorten(clean_text(text).strip(), _LINE_CHARACTERS)


def session_warnings(
    agent: type[AgentDescription],
    facts: SessionFacts,
    at: str,
    *,
    allowed_tools: Sequence[str] = (),
) -> Iterator[ErrorRecord]:
    """Yield warnings about the session. `allowed_tools` are the configured rules."""
    yield from _no_tools(agent, facts, at, allowed_tools)
    yield from _denied_tools(agent, facts, at)
    yield from _failed_mcp_servers(agent, facts, at)
    yield from _model_fallback(agent, facts, at)
    yield from _retries(agent, facts, at)
    yield from (error_record(agent.code(codes.NOTICE), notice, at) for notice in facts.notices)
    yield from _unread_metrics(agent, facts, at)
    # In plain text no line is an event.
    if facts.stream_seen and facts.malformed_lines:
        yield malformed(agent, facts.malformed_lines, facts.malformed_example, at)


_NOT_MEASURED = "Usually a server started in the background: what runs after the agent's end is not measured."


def process_warnings(
    agent: type[AgentDescription],
    done: ProcessResult,
    cli: Path,
    at: str,
    *,
    stayed: bool,
    errors: tuple[ErrorRecord, ...] = (),
) -> Iterator[ErrorRecord]:
    """Yield warnings about the process. `stayed` is as in `RunEnding`; `errors` are reported already."""
    # Claude Code 2.0.62 starts itself again in the background to check its ripgrep, and does not wait for it.
    left = sorted(program for program in done.exit.leftovers if program != str(cli.resolve()))
    if stayed:
        message = f"{agent.title} did not exit after its result, because of background commands, and was killed."
        yield error_record(agent.code(codes.LEFT_PROCESSES), message, at, _NOT_MEASURED)
    elif left:
        processes = "1 process running, which was" if len(left) == 1 else f"{len(left)} processes running, which were"
        yield error_record(
            agent.code(codes.LEFT_PROCESSES),
            f"{agent.title} finished but left {processes} then killed.",
            at,
            _NOT_MEASURED,
            count=len(left),
            programs=left,
        )
    if breach := done.exit.limit_hit:
        code = agent.code(codes.limit_code(breach.kind))
        message = f"{agent.title} exceeded a limit of the sandbox: {breach}."
        hint = "This may be why something is unfinished. Raise the limit under `sandbox`, or give a smaller task."
        if not any(error.code == code for error in errors):
            yield error_record(code, message, at, hint, limit=str(breach))
    if done.exit.guard_lost:
        yield error_record(
            agent.code(codes.GUARD_LOST),
            "The process that supervises the agent was killed, and the agent with it.",
            at,
            "Find out what kills processes here: the agent itself, or a system that runs out of memory.",
        )
    if done.log_error:
        yield error_record(
            agent.code(codes.LOG_INCOMPLETE),
            f"The terminal log could not be written in full: {done.log_error}",
            at,
            "Free some disk space.",
        )
    if done.skipped_bytes:
        yield error_record(
            agent.code(codes.OUTPUT_SKIPPED),
            f"{done.skipped_bytes} bytes of output came faster than they could be read, and were dropped.",
            at,
            bytes=done.skipped_bytes,
        )


def transcript_shortened(agent: type[AgentDescription], left_out: LeftOut, at: str) -> ErrorRecord:
    return error_record(
        agent.code(codes.TRANSCRIPT_SHORTENED),
        f"The conversation was too long for the log: {describe_left_out(left_out)} were left out.",
        at,
        "The log has its beginning, its end and the last answer, with a note where something is missing.",
        **left_out._asdict(),
    )


def taken_from_text(agent: type[AgentDescription], claims: Sequence[Claim], at: str) -> ErrorRecord:
    return error_record(
        agent.code(codes.TAKEN_FROM_TEXT),
        claims_message(claims),
        at,
        "It may be wrong. Results, reports, comparisons and budgets count it as unknown.",
        claims=list(claims),
    )


def _no_tools(
    agent: type[AgentDescription], facts: SessionFacts, at: str, allowed: Sequence[str]
) -> Iterator[ErrorRecord]:
    """Warn of a list of tools that matches none, such as one written for another agent: the agent has no tools."""
    if facts.tools is None:
        return
    names = [rule.partition("(")[0] for rule in allowed]
    if not facts.tools:
        message = f"{agent.title} started without any tool."
        hint = "Use this agent's names in the `tools` of its custom agent, or leave the list out to give it all tools."
    # The tools of an MCP server may come later.
    elif names and not any(name.startswith("mcp__") or fnmatch.filter(facts.tools, name) for name in names):
        message = f"{agent.title} has none of the allowed tools: {first_few(names)}."
        hint = f"It has {', '.join(facts.tools)}."
    else:
        return
    yield error_record(agent.code(codes.NO_TOOLS), message, at, hint, tools=list(facts.tools))


def _denied_tools(agent: type[AgentDescription], facts: SessionFacts, at: str) -> Iterator[ErrorRecord]:
    if not facts.denied_tools:
        return
    counted = ", ".join(f"{name} ({times}x)" for name, times in facts.denied_tools.items())
    yield error_record(
        agent.code(codes.TOOL_DENIED),
        f"{agent.title} was denied tools: {counted}. The run continued without them.",
        at,
        agent.hint(codes.TOOL_DENIED, "Allow them; there is no user to ask."),
        tools=dict(facts.denied_tools),
    )


def _failed_mcp_servers(agent: type[AgentDescription], facts: SessionFacts, at: str) -> Iterator[ErrorRecord]:
    if not facts.failed_mcp_servers:
        return
    count = plural(len(facts.failed_mcp_servers), "MCP server")
    yield error_record(
        agent.code(codes.MCP_FAILED),
        f"{count} did not start: {', '.join(facts.failed_mcp_servers)}. The agent worked without their tools.",
        at,
        "Start the server's command by hand to see its error, and check that it exists where the agent runs.",
        servers=list(facts.failed_mcp_servers),
    )


def _model_fallback(agent: type[AgentDescription], facts: SessionFacts, at: str) -> Iterator[ErrorRecord]:
    for switch in facts.switches:
        yield error_record(
            agent.code(codes.MODEL_FALLBACK),
            f"{agent.title} switched from {switch.original or 'its model'} to {switch.fallback or 'another'} "
            f"({switch.trigger or 'no reason given'}).",
            at,
            "The run does not measure the configured model. Leave out `fallback_model`, or run it again.",
            original=switch.original,
            fallback=switch.fallback,
            trigger=switch.trigger,
        )
    asked, used = facts.init_model, facts.model
    if agent.compares_models and not facts.switches and asked and used and base_model(asked) != base_model(used):
        yield error_record(
            agent.code(codes.MODEL_FALLBACK),
            f"{agent.title} started with {asked}, but {used} answered.",
            at,
            "Possible reasons: a gateway that renames models, or an old CLI that falls back silently.",
            original=asked,
            fallback=used,
            trigger=None,
        )


def _retries(agent: type[AgentDescription], facts: SessionFacts, at: str) -> Iterator[ErrorRecord]:
    if not facts.retries:
        return
    times = plural(sum(retry.times for retry in facts.retries), "time")
    kinds = ", ".join(f"{retry.reason or 'unknown'} ({retry.status or 'no answer'})" for retry in facts.retries)
    yield error_record(
        agent.code(codes.REQUESTS_RETRIED),
        f"Calls to the model failed and were retried {times}: {kinds}. The run's duration includes the waiting.",
        at,
        "Run fewer trials at a time, or exclude this run from comparisons of speed.",
        retries=[retry._asdict() for retry in facts.retries],
    )


def _unread_metrics(agent: type[AgentDescription], facts: SessionFacts, at: str) -> Iterator[ErrorRecord]:
    if not facts.unread_metrics:
        return
    yield error_record(
        agent.code(codes.METRICS_UNREADABLE),
        f"Some metrics reported by {agent.title[0].lower()}{agent.title[1:]} could not be read: "
        f"{'; '.join(facts.unread_metrics)}. They count as unknown.",
        at,
        "The metrics must be one JSON object of less than 1 MiB, with whole numbers for tokens and turns.",
        problems=facts.unread_metrics,
    )


def error_record(code: str, message: str, at: str, hint: str | None = None, **context: Any) -> ErrorRecord:
    return ErrorRecord(code=code, message=message, timestamp=at, hint=hint, context=context or None)


def truncated(agent: type[AgentDescription], at: str) -> ErrorRecord:
    return error_record(
        agent.code(codes.OUTPUT_TRUNCATED),
        f"The output was truncated: only its first 10MB ({OUTPUT_LIMIT_BYTES} bytes) were kept.",
        at,
        "The run itself was not affected. Tokens, cost, result, messages and tool calls were read from the whole "
        "stream; the log holds up to 10 MiB of their text. Of plain text, it also holds the last lines.",
        limit_bytes=OUTPUT_LIMIT_BYTES,
    )


def malformed(agent: type[AgentDescription], count: int, example: str | None, at: str) -> ErrorRecord:
    lines = "1 line of the output was" if count == 1 else f"{count} lines of the output were"
    return error_record(
        agent.code(codes.MALFORMED_LINE),
        f"{lines} not a stream-json event and left out.",
        at,
        "Usually a hook, a wrapper script or a debug setting that prints to stdout; the raw log has every line.",
        lines=count,
        example=example,
    )
