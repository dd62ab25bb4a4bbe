"""How a process ended, and the explanations that are the same for every agent."""

from __future__ import annotations

from dataclasses import dataclass

from youbencha.adapters.cli_agent import codes
from youbencha.adapters.cli_agent.kind import Kind
from youbencha.adapters.cli_agent.problems import plural, problem
from youbencha.adapters.cli_agent.terminal_text import clean_text
from youbencha.log import ErrorRecord

TAIL_LINES = 5
LINE_CHARS = 300
_SIGNAL_OF_EXIT = {
    129: "SIGHUP",
    130: "SIGINT",
    134: "SIGABRT",
    137: "SIGKILL",
    139: "SIGSEGV",
    143: "SIGTERM",
}
"""A shell, a container and some CLIs themselves (SIGTERM: 143) report a signal in this way."""
_RAISED_BY = {"disk": "sandbox.disk", "memory": "sandbox.memory", "processes": "sandbox.pids"}
"""By the first word of a breach."""


@dataclass(frozen=True, kw_only=True)
class ProcessEnding:
    """What is known of the process itself when it is gone."""

    exit_code: int | None
    signal: str | None = None
    timed_out: bool = False
    stopped: bool = False
    """We were asked to end it before its time."""
    answered_first: bool = False
    """Its closing word had come before we ended it."""
    timeout_ms: int | None = None
    duration_ms: int | None = None
    truncated: bool = False
    breach: str | None = None
    """Which limit of its sandbox it ran into, in words."""
    output_tail: str = ""
    """The last few kilobytes, for quoting."""

    @property
    def ended_by(self) -> str | None:
        return self.signal or _SIGNAL_OF_EXIT.get(self.exit_code or 0)

    @property
    def clean_exit(self) -> bool:
        return self.exit_code == 0 and self.signal is None


def timeout(kind: Kind, ending: ProcessEnding, at: str, *, finished: bool) -> ErrorRecord | None:
    """`finished`: the agent had said its closing word."""
    if not ending.timed_out:
        return None
    limit = f" of {ending.timeout_ms / 1000:g} s ({ending.timeout_ms} ms)" if ending.timeout_ms else ""
    ran = f" after {ending.duration_ms / 1000:.1f} s" if ending.duration_ms is not None else ""
    return problem(
        kind.code(codes.TIMEOUT),
        f"{kind.title} exceeded its timeout{limit} and was stopped{ran}. Output up to that moment was kept.",
        at,
        "The agent had reported its result, but something it left running kept it alive: look for background "
        "commands, or raise `timeout`."
        if finished
        else "Raise `timeout`, or give the agent a smaller task.",
        timeout_ms=ending.timeout_ms,
        duration_ms=ending.duration_ms,
        result_seen=finished,
    )


def stopped(kind: Kind, ending: ProcessEnding, at: str) -> ErrorRecord | None:
    if not ending.stopped:
        return None
    ran = f" It had run for {ending.duration_ms / 1000:.1f} s." if ending.duration_ms is not None else ""
    return problem(
        kind.code(codes.STOPPED),
        f"{kind.title} was ended by youBencha before its time.{ran} Output up to that moment was kept.",
        at,
        "Neither the agent nor its timeout did this: the outcome of the run tells why.",
        kind="stopped",
        duration_ms=ending.duration_ms,
    )


def sandbox_limit(kind: Kind, ending: ProcessEnding, at: str, *, blames_model: bool = False) -> ErrorRecord | None:
    """`blames_model`: it ended by itself, and said that a call to the model had failed. A tool that ran into a limit
    before that did not end it."""
    if ending.breach is None or (blames_model and ending.ended_by is None):
        return None
    how = "was ended because it" if ending.ended_by else "failed because something that it ran"
    option = _RAISED_BY.get(ending.breach.partition(" ")[0], "sandbox")
    return problem(
        kind.code(codes.SANDBOX_LIMIT),
        f"{kind.title} {how} went beyond its sandbox's limit: {ending.breach}.{tail(ending)}",
        at,
        f"Raise `{option}`, or give the agent a smaller task.",
        limit=ending.breach,
        signal=ending.ended_by,
        exit_code=ending.exit_code,
    )


def crashed(kind: Kind, ending: ProcessEnding, at: str) -> ErrorRecord | None:
    signal = ending.ended_by
    if signal is None:
        return None
    memory = " SIGKILL from outside is often the system running out of memory." if signal == "SIGKILL" else ""
    return problem(
        kind.code(codes.CRASHED),
        f"{kind.title} was ended by {signal} in the middle of its work.{tail(ending)}",
        at,
        f"Neither the agent nor its timeout did this.{memory} See the end of the raw log, and run it again.",
        signal=signal,
        exit_code=ending.exit_code,
    )


def no_result(kind: Kind, ending: ProcessEnding, at: str, hint: str) -> ErrorRecord | None:
    if not ending.clean_exit:
        return None
    return problem(
        kind.code(codes.NO_RESULT),
        f"{kind.title} exited with code 0 but never reported a result.{tail(ending)}",
        at,
        hint,
        exit_code=ending.exit_code,
    )


def exit_code(kind: Kind, ending: ProcessEnding, at: str, hint: str) -> ErrorRecord:
    return problem(
        kind.code(codes.EXIT_CODE),
        f"{kind.title} exited with code {ending.exit_code}.{tail(ending) or ' It printed nothing.'}",
        at,
        hint,
        exit_code=ending.exit_code,
    )


def last_lines(ending: ProcessEnding) -> list[str]:
    lines = (line.strip() for line in clean_text(ending.output_tail).split("\n"))
    # Events say nothing to a person; what stands between them is stderr.
    return [line for line in lines if line and not line.startswith('{"')][-TAIL_LINES:]


def tail(ending: ProcessEnding) -> str:
    lines = [quote(line) for line in last_lines(ending)]
    return f" Its last {plural(len(lines), 'line')}:\n" + "\n".join(lines) if lines else ""


def quote(text: str) -> str:
    text = clean_text(text).strip()
    return text if len(text) <= LINE_CHARS else text[:LINE_CHARS] + "…"
