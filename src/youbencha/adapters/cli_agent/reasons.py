"""Why a run that did not succeed did not. The first explanation that has something to say counts."""

from __future__ import annotations

from collections.abc import Sequence

from youbencha.adapters.cli_agent import ending
from youbencha.adapters.cli_agent.causes import (
    Cause,
    Evidence,
    common_causes,
    execution_cause,
    find_cause,
    other_cause,
)
from youbencha.adapters.cli_agent.kind import Kind
from youbencha.adapters.cli_agent.problems import problem
from youbencha.adapters.cli_agent.verdict import Ending
from youbencha.log import ErrorRecord


def reason(kind: Kind, end: Ending, at: str, own_causes: Sequence[Cause]) -> ErrorRecord:
    causes = (*own_causes, *common_causes(kind))
    return (
        ending.timeout(kind, end, at, finished=end.facts.results > 0)
        or ending.stopped(kind, end, at)
        or ending.sandbox_limit(kind, end, at, blames_model=end.facts.failed)
        or _said(kind, end, at, causes)
        or ending.crashed(kind, end, at)
        or _said_plainly(kind, end, at, causes)
        or _no_result(kind, end, at)
        or _exit_code(kind, end, at)
    )


def _said(kind: Kind, end: Ending, at: str, causes: Sequence[Cause]) -> ErrorRecord | None:
    """What the agent said of its own failure, if anything."""
    facts = end.facts
    if not facts.failed and not facts.result_is_error:
        return None
    closing = (facts.result_text or "") if facts.result_is_error else ""
    evidence = Evidence(
        text=facts.failure_text or closing,
        subtype=facts.result_subtype,
        kind=facts.failure_kind,
        status=facts.failure_status,
    )
    unknown = other_cause(kind) if facts.failed else execution_cause(kind)
    return _by_cause(find_cause(evidence, causes) or unknown, end, evidence, at)


def _said_plainly(kind: Kind, end: Ending, at: str, causes: Sequence[Cause]) -> ErrorRecord | None:
    """On stderr, by a CLI that never came to its first event: no login, an unknown model."""
    if end.facts.stream_seen or not end.stream_expected:
        return None
    evidence = Evidence(text="\n".join(ending.last_lines(end)))
    cause = find_cause(evidence, causes)
    return _by_cause(cause, end, evidence, at) if cause else None


def _by_cause(cause: Cause, end: Ending, evidence: Evidence, at: str) -> ErrorRecord:
    said = ending.quote(evidence.text)
    return problem(
        cause.code,
        f"{cause.says}: {said}" if said else f"{cause.says}.",
        at,
        cause.hint,
        kind=cause.kind,
        status=evidence.http_status(),
        exit_code=end.exit_code,
    )


def _no_result(kind: Kind, end: Ending, at: str) -> ErrorRecord | None:
    hint = "An interrupt, or a lost end of the output, does this; see the raw log."
    return ending.no_result(kind, end, at, hint) if end.good_exit else None


def _exit_code(kind: Kind, end: Ending, at: str) -> ErrorRecord:
    hint = "The lines quoted are its own last ones; the raw log has all of them."
    return ending.exit_code(kind, end, at, hint)
