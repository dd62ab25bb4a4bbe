"""How a run ended -> its status, and errors and warnings that say what to do. One pure function.

Exit 0 is not success: it comes with `is_error`, with `error_max_turns` (2.1.30, 1.0.128), after SIGINT, and without any
`result`. So where a stream began, its last result decides together with the exit code; in plain text, the exit code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from youbencha.adapters.claude_code import codes, problems
from youbencha.adapters.claude_code.causes import CAUSES, Cause, Evidence, cause_of, find_cause
from youbencha.adapters.claude_code.facts import SessionFacts
from youbencha.adapters.claude_code.notices import notices
from youbencha.adapters.claude_code.problems import plural, problem
from youbencha.adapters.claude_code.text import clean_text
from youbencha.log import ErrorRecord, Status

TAIL_LINES = 5
_UNAUTHORIZED = 401
LINE_CHARS = 300
_SIGNAL_OF_EXIT = {
    129: "SIGHUP",
    130: "SIGINT",
    134: "SIGABRT",
    137: "SIGKILL",
    139: "SIGSEGV",
    143: "SIGTERM",
}
"""A shell, a container and the CLI itself (SIGTERM: 143) report a signal in this way."""


@dataclass(frozen=True, kw_only=True)
class Ending:
    """All that is known when the process is gone."""

    exit_code: int | None
    signal: str | None = None
    timed_out: bool = False
    timeout_ms: int | None = None
    duration_ms: int | None = None
    key_rejected: bool = False
    """The API rejected the key, so that we ended the process."""
    truncated: bool = False
    stream_expected: bool = False
    """We asked for stream-json; an empty output is then no success (2.1.30: exit 0 on a bad MCP file)."""
    output_tail: str = ""
    """The last few kilobytes, for quoting."""
    facts: SessionFacts = field(default_factory=SessionFacts)

    @property
    def ended_by(self) -> str | None:
        return self.signal or _SIGNAL_OF_EXIT.get(self.exit_code or 0)

    @property
    def clean_exit(self) -> bool:
        return self.exit_code == 0 and self.signal is None

    @property
    def is_stream(self) -> bool:
        return self.facts.stream_seen or self.stream_expected


@dataclass(frozen=True, kw_only=True)
class Verdict:
    status: Status
    errors: tuple[ErrorRecord, ...]
    warnings: tuple[ErrorRecord, ...]


def judge(ending: Ending, *, at: str) -> Verdict:
    """`at` is the time stamp of every record."""
    status = _status(ending)
    errors = [] if status == "success" else [_reason(ending, at)]
    if ending.truncated:
        errors.append(problems.truncated(at))
    return Verdict(status=status, errors=tuple(errors), warnings=notices(ending.facts, at))


def _status(ending: Ending) -> Status:
    if ending.timed_out:
        return "timeout"
    if ending.key_rejected or not ending.clean_exit:
        return "failed"
    result = ending.facts.result
    if not ending.is_stream:
        return "success"
    return "success" if result and result.subtype == "success" and not result.is_error else "failed"


def _reason(ending: Ending, at: str) -> ErrorRecord:
    found = (explain(ending, at) for explain in _EXPLANATIONS)
    return next(record for record in found if record is not None)


def _evidence(ending: Ending) -> Evidence | None:
    """What the agent said of its own failure, if anything."""
    facts, result, failure = ending.facts, ending.facts.result, ending.facts.failure
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


def _plain_evidence(ending: Ending) -> Evidence:
    return Evidence(text="\n".join(_last_lines(ending)))


def _timeout(ending: Ending, at: str) -> ErrorRecord | None:
    if not ending.timed_out:
        return None
    limit = f" of {ending.timeout_ms / 1000:g} s ({ending.timeout_ms} ms)" if ending.timeout_ms else ""
    ran = f" after {ending.duration_ms / 1000:.1f} s" if ending.duration_ms is not None else ""
    finished = ending.facts.result is not None
    return problem(
        codes.TIMEOUT,
        f"Claude Code exceeded its timeout{limit} and was stopped{ran}. Output up to that moment was kept.",
        at,
        "The agent had reported its result, but something it left running kept it alive: look for background "
        "commands, or raise `timeout`."
        if finished
        else "Raise `timeout`, or give the agent a smaller task.",
        timeout_ms=ending.timeout_ms,
        duration_ms=ending.duration_ms,
        result_seen=finished,
    )


def _by_cause(cause: Cause, ending: Ending, evidence: Evidence, at: str) -> ErrorRecord:
    said = _quote(evidence.text)
    context: dict[str, object] = {"kind": cause.kind, "status": evidence.http_status(), "exit_code": ending.exit_code}
    if cause.code == codes.RATE_LIMIT:
        limit = ending.facts.rate_limit
        # The event has the moment itself; the text only a clock's face.
        told = limit.resets_at if limit and limit.resets_at else evidence.resets_at(datetime.fromisoformat(at))
        context["resets_at"] = problems.moment_of(told)
    message = f"{cause.says}: {said}" if said else f"{cause.says}."
    return problem(cause.code, message, at, cause.hint, **context)


def _rejected_key(ending: Ending, at: str) -> ErrorRecord | None:
    if not ending.key_rejected:
        return None
    cause = next(cause for cause in CAUSES if cause.code == codes.AUTH_FAILED)
    said = _evidence(ending)
    return _by_cause(cause, ending, Evidence(text=said.text if said else "", status=_UNAUTHORIZED), at)


def _said(ending: Ending, at: str) -> ErrorRecord | None:
    evidence = _evidence(ending)
    return _by_cause(cause_of(evidence), ending, evidence, at) if evidence else None


def _said_plainly(ending: Ending, at: str) -> ErrorRecord | None:
    evidence = _plain_evidence(ending)
    cause = None if ending.facts.stream_seen else find_cause(evidence)
    return _by_cause(cause, ending, evidence, at) if cause else None


def _crashed(ending: Ending, at: str) -> ErrorRecord | None:
    signal = ending.ended_by
    if signal is None:
        return None
    memory = " SIGKILL from outside is often the system running out of memory." if signal == "SIGKILL" else ""
    return problem(
        codes.CRASHED,
        f"Claude Code was ended by {signal} in the middle of its work.{_tail(ending)}",
        at,
        f"Neither the agent nor its timeout did this.{memory} See the end of the raw log, and run it again.",
        signal=signal,
        exit_code=ending.exit_code,
    )


def _no_result(ending: Ending, at: str) -> ErrorRecord | None:
    if not ending.clean_exit:
        return None
    return problem(
        codes.NO_RESULT,
        f"Claude Code exited with code 0 but never reported a result.{_tail(ending)}",
        at,
        "An interrupt (Ctrl-C), a lost end of the output or a configuration it could not read (MCP file) do this; "
        "see the raw log.",
        exit_code=ending.exit_code,
    )


def _exit_code(ending: Ending, at: str) -> ErrorRecord:
    return problem(
        codes.EXIT_CODE,
        f"Claude Code exited with code {ending.exit_code}.{_tail(ending) or ' It printed nothing.'}",
        at,
        "The lines quoted are its own last ones; an unknown option means that this version of the CLI is too old.",
        exit_code=ending.exit_code,
    )


_EXPLANATIONS: tuple[Callable[[Ending, str], ErrorRecord | None], ...] = (
    _timeout,
    _rejected_key,
    _said,
    _crashed,
    _no_result,
    _said_plainly,
    _exit_code,
)
"""Why a run that did not succeed did not. The first that has something to say explains it."""


def _last_lines(ending: Ending) -> list[str]:
    lines = (line.strip() for line in clean_text(ending.output_tail).split("\n"))
    # Events say nothing to a person; what stands between them is stderr.
    return [line for line in lines if line and not line.startswith('{"')][-TAIL_LINES:]


def _tail(ending: Ending) -> str:
    lines = [_quote(line) for line in _last_lines(ending)]
    return f" Its last {plural(len(lines), 'line')}:\n" + "\n".join(lines) if lines else ""


def _quote(text: str) -> str:
    text = clean_text(text).strip()
    return text if len(text) <= LINE_CHARS else text[:LINE_CHARS] + "…"
