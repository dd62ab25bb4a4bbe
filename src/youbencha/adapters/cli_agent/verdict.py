"""How a run ended -> its status, and errors and warnings that say what to do. Pure.

Exit 0 alone is no success where the agent has a closing word: that must have been said, and must have been good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from youbencha.adapters.cli_agent import codes, ending, problems
from youbencha.adapters.cli_agent.causes import (
    Cause,
    Evidence,
    common_causes,
    execution_cause,
    find_cause,
    other_cause,
)
from youbencha.adapters.cli_agent.ending import ProcessEnding
from youbencha.adapters.cli_agent.facts import SessionFacts
from youbencha.adapters.cli_agent.kind import Kind
from youbencha.adapters.cli_agent.problems import plural, problem
from youbencha.log import ErrorRecord, Status


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


@dataclass(frozen=True, kw_only=True)
class Verdict:
    status: Status
    errors: tuple[ErrorRecord, ...]
    warnings: tuple[ErrorRecord, ...]


def judge(kind: Kind, end: Ending, *, at: str, own_causes: Sequence[Cause] = ()) -> Verdict:
    """`at` is the time stamp of every record; `own_causes` are the agent's, and stand before the common ones."""
    case = _Case(kind, end, at, (*own_causes, *common_causes(kind)))
    status = case.status()
    errors = [] if status == "success" else [case.reason()]
    if end.truncated:
        errors.append(problems.truncated(kind, at))
    return Verdict(status=status, errors=tuple(errors), warnings=tuple(case.warnings()))


@dataclass(frozen=True)
class _Case:
    kind: Kind
    end: Ending
    at: str
    causes: tuple[Cause, ...]

    def status(self) -> Status:
        if self.end.timed_out:
            return "timeout"
        if not self.end.good_exit:
            return "failed"
        facts = self.end.facts
        if not (self.end.stream_expected or facts.stream_seen):
            return "success"
        return "success" if facts.results and not facts.result_is_error else "failed"

    def reason(self) -> ErrorRecord:
        """Why a run that did not succeed did not. The first that has something to say explains it."""
        explanations: tuple[Callable[[], ErrorRecord | None], ...] = (
            lambda: ending.timeout(self.kind, self.end, self.at, finished=self.end.facts.results > 0),
            self._said,
            lambda: ending.crashed(self.kind, self.end, self.at),
            self._said_plainly,
            self._no_result,
        )
        found = (explain() for explain in explanations)
        return next((record for record in found if record is not None), None) or self._exit_code()

    def warnings(self) -> Iterator[ErrorRecord]:
        facts = self.end.facts
        if facts.denied_tools:
            names = ", ".join(f"{name} ({times}x)" for name, times in facts.denied_tools.items())
            yield problem(
                self.kind.code(codes.TOOL_DENIED),
                f"{self.kind.title} was not allowed to use its tools: {names}. The run went on without them.",
                self.at,
                "Allow them; nobody is there to be asked.",
                tools=facts.denied_tools,
            )
        if facts.retries:
            times = plural(sum(facts.retries.values()), "time")
            yield problem(
                self.kind.code(codes.REQUESTS_RETRIED),
                f"Calls to the model failed and were repeated {times}: {', '.join(facts.retries)}. "
                "The run's duration includes the waiting.",
                self.at,
                "Run fewer trials at a time, or leave this run out of comparisons of speed.",
                retries=facts.retries,
            )
        if facts.stream_seen and facts.malformed_lines:
            yield problems.malformed(self.kind, facts.malformed_lines, facts.malformed_example, self.at)

    def _said(self) -> ErrorRecord | None:
        """What the agent said of its own failure, if anything."""
        facts = self.end.facts
        closing = facts.result_text or "" if facts.result_is_error else ""
        if not facts.failed and not facts.result_is_error:
            return None
        evidence = Evidence(
            text=facts.failure_text or closing,
            subtype=facts.result_subtype,
            kind=facts.failure_kind,
            status=facts.failure_status,
        )
        unknown = other_cause(self.kind) if facts.failed else execution_cause(self.kind)
        return self._by_cause(find_cause(evidence, self.causes) or unknown, evidence)

    def _said_plainly(self) -> ErrorRecord | None:
        """On stderr, by a CLI that never came to its first event: no login, an unknown model."""
        if self.end.facts.stream_seen or not self.end.stream_expected:
            return None
        evidence = Evidence(text="\n".join(ending.last_lines(self.end)))
        cause = find_cause(evidence, self.causes)
        return self._by_cause(cause, evidence) if cause else None

    def _by_cause(self, cause: Cause, evidence: Evidence) -> ErrorRecord:
        said = ending.quote(evidence.text)
        return problem(
            cause.code,
            f"{cause.says}: {said}" if said else f"{cause.says}.",
            self.at,
            cause.hint,
            kind=cause.kind,
            status=evidence.http_status(),
            exit_code=self.end.exit_code,
        )

    def _no_result(self) -> ErrorRecord | None:
        hint = "An interrupt, or a lost end of the output, does this; see the raw log."
        return ending.no_result(self.kind, self.end, self.at, hint) if self.end.good_exit else None

    def _exit_code(self) -> ErrorRecord:
        hint = "The lines quoted are its own last ones; the raw log has all of them."
        return ending.exit_code(self.kind, self.end, self.at, hint)
