"""results.json, put together from what a run has so far. Pure."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from youbencha import __version__
from youbencha.log import (
    AgentRun,
    ArtifactManifest,
    Environment,
    ErrorRecord,
    EvaluationResult,
    GatewayReport,
    HookResult,
    Hooks,
    Identity,
    ResultsBundle,
    RunExecution,
    SandboxReport,
    TestCaseInfo,
    YouBenchaLog,
    iso_time,
)
from youbencha.trial.outcome import outcome_of, summary_of

LOG_FILE = "youbencha-log.json"
DIFF_FILE = "git-diff.patch"
RESULTS_FILE = "results.json"
REPORT_FILE = "report.md"
LITELLM_LOG = "litellm.log"


@dataclass(kw_only=True)
class Record:
    """What is known of a run. It grows as the run goes on; a bundle can be made of it at any time."""

    run_id: str
    workspace_dir: Path
    test_case: TestCaseInfo
    expected_evaluators: int
    started_at: float
    agent_type: str | None = None
    """None for `yb eval`."""
    agent_name: str | None = None
    agent_model: str | None = None
    """As configured, until the agent says which it was."""
    executable: str | None = None
    executable_sha256: str | None = None
    log: YouBenchaLog | None = None
    evaluators: dict[int, EvaluationResult] = field(default_factory=dict)
    """By their place in the test case: they finish in any order."""
    pre_execution: tuple[HookResult, ...] = ()
    post_evaluation: tuple[HookResult, ...] = ()
    warnings: list[tuple[str, str]] = field(default_factory=list)
    """Codes and messages: what the harness noticed of the agent's doings, besides what the adapter did."""
    failure: str | None = None
    """Why the harness could not do its part once the agent had done its own."""
    gateway: GatewayReport | None = None
    sandbox: SandboxReport | None = None
    phases_ms: dict[str, int] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)
    """Of ours, in the artifacts."""


def bundle_of(record: Record, *, now: float, complete: bool, interrupted: bool = False) -> ResultsBundle:
    log = record.log
    results = tuple(record.evaluators[place] for place in sorted(record.evaluators))
    status = log.execution.status if log else None
    if status == "success" and _was_denied(record):
        status = "failed"  # whatever it made of it: it was denied its model
    outcome = None
    if log and complete and not interrupted:
        outcome = outcome_of(log.execution.status, log.errors, results, failure=record.failure, gateway=record.gateway)
    return ResultsBundle(
        test_case=record.test_case,
        execution=_execution(record, now, complete=complete, interrupted=interrupted),
        agent=None if record.agent_type is None else _agent(record, record.agent_type),
        evaluators=results,
        summary=summary_of(
            results,
            expected=record.expected_evaluators,
            agent=status,
            complete=complete and not interrupted and (log is not None or record.agent_type is None),
        ),
        outcome=outcome,
        identity=_identity(record),
        hooks=Hooks(pre_execution=record.pre_execution, post_evaluation=record.post_evaluation),
        artifacts=_manifest(record, results),
    )


def _budget_exceeded(record: Record) -> bool | None:
    if record.gateway is None:
        return None
    return record.gateway.budget is not None and record.gateway.budget.exceeded


def _was_denied(record: Record) -> bool:
    """By a budget, for want of a price, or by a replay that had no answer."""
    gateway = record.gateway
    if gateway is None:
        return False
    unmatched = gateway.cassette is not None and gateway.cassette.unmatched > 0
    return unmatched or gateway.unpriced is not None or bool(_budget_exceeded(record))


def _execution(record: Record, now: float, *, complete: bool, interrupted: bool) -> RunExecution:
    return RunExecution(
        started_at=iso_time(record.started_at),
        completed_at=iso_time(now),
        duration_ms=max(0, round((now - record.started_at) * 1000)),
        youbencha_version=__version__,
        environment=Environment(
            os=_system(),
            python_version=sys.version.split()[0],
            workspace_dir=str(record.workspace_dir),
        ),
        interrupted=interrupted,
        complete=complete,
        phases_ms=dict(record.phases_ms),
    )


def _system() -> str:
    if sys.platform == "win32":
        return f"Windows {sys.getwindowsversion().build}"
    told = os.uname()
    return f"{told.sysname} {told.release}"


def _agent(record: Record, kind: str) -> AgentRun:
    log = record.log
    if log is None:
        return AgentRun(
            type=kind,
            agent_name=record.agent_name,
            model=record.agent_model,
            usage=record.gateway.usage if record.gateway else None,
            gateway=record.gateway,
            sandbox=record.sandbox,
            budget_exceeded=_budget_exceeded(record),
        )
    execution = log.execution
    return AgentRun(
        type=kind,
        agent_name=record.agent_name,
        version=_known(log.agent_info.version),
        adapter_version=log.agent_info.adapter_version,
        youbencha_log_path=LOG_FILE,
        status=execution.status,
        exit_code=execution.exit_code,
        duration_ms=execution.duration_ms,
        model=_known(log.model_info.name),
        usage=log.usage,
        gateway=record.gateway,
        sandbox=record.sandbox,
        budget_exceeded=_budget_exceeded(record),
        turns=log.turns,
        tool_calls=len(log.tool_calls) if _tells_of_tools(log) else None,
        tools_used=dict(sorted(Counter(call.name for call in log.tool_calls).items()))
        if _tells_of_tools(log)
        else None,
        errors=log.errors,
        warnings=(*log.warnings, *_warnings(record)),
    )


def _warnings(record: Record) -> list[ErrorRecord]:
    at = record.log.execution.completed_at if record.log else iso_time(record.started_at)
    return [ErrorRecord(message=message, timestamp=at, code=code) for code, message in record.warnings]


def _tells_of_tools(log: YouBenchaLog) -> bool:
    """Whoever does not even say how many turns it took may have called tools without a word."""
    return bool(log.tool_calls) or log.turns is not None


def _identity(record: Record) -> Identity:
    log = record.log
    return Identity(
        run_id=record.run_id,
        youbencha_version=__version__,
        agent_type=record.agent_type,
        agent_version=_known(log.agent_info.version) if log else None,
        agent_executable=record.executable,
        agent_sha256=record.executable_sha256,
        model=_known(log.model_info.name) if log else None,
        task_commit=record.test_case.commit,
        config_hash=record.test_case.config_hash,
    )


def _known(text: str) -> str | None:
    return None if text == "unknown" else text


def _manifest(record: Record, results: Sequence[EvaluationResult]) -> ArtifactManifest:
    files = record.files
    produced: Mapping[str, None] = dict.fromkeys(item.path for result in results for item in result.artifacts)
    return ArtifactManifest(
        agent_log=LOG_FILE if LOG_FILE in files else None,
        diff=DIFF_FILE if DIFF_FILE in files else None,
        reports=(REPORT_FILE,) if REPORT_FILE in files else (),
        evaluator_artifacts=tuple(produced),
        gateway=_of_gateway(record.gateway) if record.gateway else (),
    )


def _of_gateway(gateway: GatewayReport) -> tuple[str, ...]:
    mismatches = gateway.cassette.mismatches if gateway.cassette else ()
    return (gateway.ledger, *mismatches, *((LITELLM_LOG,) if gateway.type == "litellm" else ()))
