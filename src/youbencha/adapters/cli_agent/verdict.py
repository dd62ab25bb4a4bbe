"""How a run ended -> its status, and errors and warnings that say what to do. Pure.

Exit 0 alone is no success where the agent has a closing word: that must have been said, and must have been good.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from youbencha.adapters.cli_agent import codes, problems
from youbencha.adapters.cli_agent.ending import ProcessEnding
from youbencha.adapters.cli_agent.facts import SessionFacts
from youbencha.adapters.cli_agent.kind import Kind
from youbencha.adapters.cli_agent.problems import plural, problem
from youbencha.log import ErrorRecord, Status

if TYPE_CHECKING:
    from youbencha.adapters.cli_agent.causes import Cause


@dataclass(frozen=True, kw_only=True)
class Ending(ProcessEnding):
    """All that is known when the process is gone."""

    stream_expected: bool = True
    """The agent writes events, and ends them with a closing word."""
    good_exit_codes: frozenset[int] = frozenset({0})
    facts: SessionFacts = field(default_factory=SessionFacts)

    @property
    def good_exit(self) -> bool:
        return self.signal is None and self.exit_code in self.good_exit_codes


class Verdict(NamedTuple):
    status: Status
    errors: tuple[ErrorRecord, ...]
    warnings: tuple[ErrorRecord, ...]


def judge(kind: Kind, end: Ending, *, at: str, own_causes: Sequence[Cause] = ()) -> Verdict:
    """`at` is the time stamp of every record; `own_causes` are the agent's, and stand before the common ones."""
    status = _status(end)
    errors = []
    if status != "success":
        from youbencha.adapters.cli_agent.reasons import reason

        errors.append(reason(kind, end, at, own_causes))
    if end.truncated:
        errors.append(problems.truncated(kind, at))
    return Verdict(status=status, errors=tuple(errors), warnings=tuple(_warnings(kind, end.facts, at)))


def _status(end: Ending) -> Status:
    if end.timed_out:
        return "timeout"
    if not (end.answered_first if end.stopped else end.good_exit):
        return "failed"
    if end.breach:  # it was ended, with whatever code
        return "failed"
    facts = end.facts
    if not (end.stream_expected or facts.stream_seen):
        return "success"
    return "success" if facts.results and not facts.result_is_error else "failed"


def _warnings(kind: Kind, facts: SessionFacts, at: str) -> Iterator[ErrorRecord]:
    if facts.denied_tools:
        names = ", ".join(f"{name} ({times}x)" for name, times in facts.denied_tools.items())
        yield problem(
            kind.code(codes.TOOL_DENIED),
            f"{kind.title} was not allowed to use its tools: {names}. The run went on without them.",
            at,
            "Allow them; nobody is there to be asked.",
            tools=facts.denied_tools,
        )
    if facts.retries:
        times = plural(sum(facts.retries.values()), "time")
        yield problem(
            kind.code(codes.REQUESTS_RETRIED),
            f"Calls to the model failed and were repeated {times}: {', '.join(facts.retries)}. "
            "The run's duration includes the waiting.",
            at,
            "Run fewer trials at a time, or leave this run out of comparisons of speed.",
            retries=facts.retries,
        )
    if facts.unread_metrics:
        yield problem(
            kind.code(codes.METRICS_UNREADABLE),
            f"Not all that {kind.title[0].lower()}{kind.title[1:]} told of its figures could be read: "
            f"{'; '.join(facts.unread_metrics)}. What could not counts as unknown.",
            at,
            "It is to be one JSON object of less than 1 MiB, with whole numbers for tokens and turns.",
            problems=facts.unread_metrics,
        )
    if facts.stream_seen and facts.malformed_lines:
        yield problems.malformed(kind, facts.malformed_lines, facts.malformed_example, at)
