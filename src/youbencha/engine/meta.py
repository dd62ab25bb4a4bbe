"""Make the record of a trial (`meta.json`) from the results of its attempts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from youbencha import __version__
from youbencha.engine.arena import RUBRIC
from youbencha.engine.matrix import Cell
from youbencha.evaluators.base import VALIDATION
from youbencha.evaluators.validation import FinalScore, with_rubric
from youbencha.log.model import FailureCause, Usage
from youbencha.store.arena import AttemptInfo, ExitReason, IntegrityFlag, Scores, TrialIdentity, TrialKey, TrialMeta
from youbencha.store.bundle import AgentRun, EvaluationResult, OutcomeName, ResultsBundle
from youbencha.text import one_line, plural
from youbencha.usage import total_tokens

_EXIT_REASON_BY_OUTCOME: Mapping[OutcomeName, ExitReason] = {
    "solved": "completed",
    "unsolved": "completed",
    "limit": "crashed",
    "refused": "refused",
    "agent_error": "crashed",
    "provider_error": "not_measured",
    "infra_error": "not_measured",
    "verifier_error": "not_measured",
}

_EXIT_REASON_BY_CAUSE: Mapping[FailureCause, ExitReason] = {
    "MAX_BUDGET": "budget_exceeded",
    "MAX_TURNS": "gave_up",
    "STOPPED": "gave_up",
    "GAVE_UP": "gave_up",
    "OUT_OF_MEMORY": "out_of_memory",
}
"""For valid trials; they come before those of the outcome."""

Unfinished = Literal["killed", "interrupted"]
UNFINISHED_REASONS: Mapping[Unfinished, str] = {
    "killed": "youBencha was killed during the attempt.",
    "interrupted": "The run was interrupted.",
}
"""Reasons of attempts that ended without an outcome, unless an error has a better one."""

_MAX_HOSTS = 10


def make_meta(key: TrialKey, cell: Cell, bundle: ResultsBundle | None, attempts: Sequence[AttemptInfo]) -> TrialMeta:
    """Make the result of a trial. `bundle` is that of the attempt that counts, the last one; None if none started."""
    if bundle is None:
        return _make_meta_without_results(key, cell, attempts)
    assert bundle.outcome is not None
    agent, outcome = bundle.agent, bundle.outcome
    usage = agent.usage if agent and agent.usage else Usage()
    validation = _find(bundle.evaluators, VALIDATION)
    score = _score(bundle, validation, _find(bundle.evaluators, RUBRIC))
    return TrialMeta(
        orchestrator=key.orchestrator,
        task=key.task,
        trial=key.number,
        duration_s=agent.duration_ms / 1000 if agent and agent.duration_ms is not None else None,
        exit_code=agent.exit_code if agent else None,
        exit_reason=_exit_reason(bundle),
        scores=score.scores,
        composite_score=score.composite_score if outcome.valid else None,
        total_tokens=total_tokens(usage.tokens),
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_creation_tokens=usage.cache_creation_tokens,
        total_cost_usd=usage.cost_usd,
        budget_exceeded=agent.budget_exceeded if agent else None,
        usage_partial=usage.partial if agent and agent.usage else None,
        reported=agent.gateway.reported if agent and agent.gateway else None,
        outcome=outcome.name,
        valid=outcome.valid,
        reason=_reason(bundle),
        category=cell.category,
        all_attempts_cost_usd=total_cost(attempts),
        attempts=tuple(attempts),
        flags=_flags(validation, agent),
        identity=_identity(cell, bundle, agent, validation),
        rerun=key.number in cell.rerun,
        started_at=bundle.execution.started_at,
        completed_at=bundle.execution.completed_at,
    )


def _make_meta_without_results(key: TrialKey, cell: Cell, attempts: Sequence[AttemptInfo]) -> TrialMeta:
    """Make the result of a trial of which no attempt could be started."""
    last = attempts[-1]
    return TrialMeta(
        orchestrator=key.orchestrator,
        task=key.task,
        trial=key.number,
        exit_reason="not_measured",
        outcome="infra_error",
        valid=False,
        reason=last.reason,
        category=cell.category,
        all_attempts_cost_usd=total_cost(attempts),
        attempts=tuple(attempts),
        identity=TrialIdentity(
            agent_hash=cell.agent_hash,
            validation_hash=cell.validation_hash,
            youbencha_version=__version__,
            agent_type=cell.plan.case.agent.type,
        ),
        rerun=key.number in cell.rerun,
        started_at=last.started_at,
    )


def make_attempt_info(number: int, bundle: ResultsBundle) -> AttemptInfo:
    """Describe an attempt from its results, which may be partial."""
    execution, usage = bundle.execution, _budgeted_usage(bundle.agent)
    outcome = bundle.outcome
    unfinished: Unfinished = "interrupted" if execution.interrupted else "killed"
    return AttemptInfo(
        number=number,
        outcome=outcome.name if outcome else unfinished,
        reason=_reason(bundle) if outcome else UNFINISHED_REASONS[unfinished],
        started_at=execution.started_at,
        duration_s=execution.duration_ms / 1000,
        total_tokens=total_tokens(usage.tokens) if usage else None,
        cost_usd=_cost_with_evaluators(bundle),
        partial=outcome is None or bool(usage and usage.partial),
    )


def _reason(bundle: ResultsBundle) -> str:
    """Return the reason for the outcome; if an evaluator could not judge, also why not."""
    assert bundle.outcome is not None
    details = []
    if bundle.outcome.name == "verifier_error":
        details = [result.message for result in bundle.evaluators if result.status == "skipped" and not result.advisory]
    return one_line(": ".join((bundle.outcome.reason, *details[:1])))


def total_cost(attempts: Sequence[AttemptInfo]) -> float | None:
    """Return what all attempts cost. None if the cost of one is unknown."""
    return _sum([attempt.cost_usd for attempt in attempts]) if attempts else None


def _budgeted_usage(agent: AgentRun | None) -> Usage | None:
    """Return the usage that counts for budgets. It is unknown if there is a gateway, and only the agent reports it."""
    if agent is None or agent.gateway is None or agent.usage == agent.gateway.usage:
        return agent.usage if agent else None
    return None


def _cost_with_evaluators(bundle: ResultsBundle) -> float | None:
    """Return what an attempt cost, with its judges. An agent without a known cost makes it unknown."""
    usage = _budgeted_usage(bundle.agent)
    costs = [usage.cost_usd if usage else None]
    costs += [result.usage.cost_usd for result in bundle.evaluators if result.usage is not None]
    return _sum(costs)


def _sum(costs: Sequence[float | None]) -> float | None:
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None


def _find(results: Sequence[EvaluationResult], name: str) -> EvaluationResult | None:
    return next((result for result in results if result.evaluator == name), None)


def _exit_reason(bundle: ResultsBundle) -> ExitReason:
    assert bundle.outcome is not None
    agent = bundle.agent
    if bundle.outcome.valid and agent is not None:
        if agent.budget_exceeded and bundle.outcome.name == "limit":
            return "budget_exceeded"
        if agent.status == "timeout":
            return "timeout"
        for error in agent.errors:
            if error.cause is not None and error.cause in _EXIT_REASON_BY_CAUSE:
                return _EXIT_REASON_BY_CAUSE[error.cause]
    return _EXIT_REASON_BY_OUTCOME[bundle.outcome.name]


def _score(bundle: ResultsBundle, validation: EvaluationResult | None, rubric: EvaluationResult | None) -> FinalScore:
    if validation is None:  # a test case: solved or not
        assert bundle.outcome is not None
        return FinalScore(Scores(), 1.0 if bundle.outcome.name == "solved" else 0.0)
    if validation.status == "skipped":
        return FinalScore(Scores(), None)
    judged = rubric is not None and rubric.status != "skipped"
    return with_rubric(validation.metrics, rubric.metrics.get("overall_score") if rubric and judged else None)


def _flags(validation: EvaluationResult | None, agent: AgentRun | None) -> tuple[IntegrityFlag, ...]:
    """Return what the validation found, and the attempts to reach hosts that are not on the allowlist."""
    written = validation.metrics.get("flags") or () if validation else ()
    denied = agent.sandbox.denied or () if agent and agent.sandbox else ()
    return (
        *(IntegrityFlag.model_validate(flag) for flag in written),
        *(
            IntegrityFlag(
                kind="network",
                evidence=f"{host.host} was denied ({plural(host.attempts, 'attempt')})",
                severity="evidence",
            )
            for host in denied[:_MAX_HOSTS]
        ),
    )


def _identity(
    cell: Cell, bundle: ResultsBundle, agent: AgentRun | None, validation: EvaluationResult | None
) -> TrialIdentity:
    identity, sandbox, plan = bundle.identity, agent.sandbox if agent else None, cell.plan
    in_container = plan.sandbox.type == "docker"
    return TrialIdentity(
        agent_hash=cell.agent_hash,
        validation_hash=cell.validation_hash,
        youbencha_version=identity.youbencha_version,
        agent_type=identity.agent_type,
        agent_version=identity.agent_version,
        agent_sha256=identity.agent_sha256,
        model=identity.model,
        image=sandbox.image if sandbox else None,
        image_id=sandbox.image_id if sandbox else None,
        task_commit=identity.task_commit,
        commit_files=identity.commit_files,
        validation_commit=validation.metrics.get("validation_commit") if validation else None,
        cpus=plan.sandbox.cpus if in_container else None,
        memory=plan.sandbox.memory if in_container else None,
        changes=cell.changes,
        request_fingerprints=agent.gateway.request_fingerprints if agent and agent.gateway else None,
    )
