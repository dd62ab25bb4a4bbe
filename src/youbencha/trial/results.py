"""The results of a trial: what is recorded while it runs (`RunRecord`), and the files (`ResultFiles`)."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from youbencha import __version__
from youbencha.errors import YouBenchaError
from youbencha.events import EventSink, PhaseStarted, ProgressNote
from youbencha.files import write_atomically
from youbencha.log.masking import without_secrets
from youbencha.log.model import ErrorRecord, Usage, YouBenchaLog, as_json
from youbencha.process import Redactor
from youbencha.spec.testcase import PostHook
from youbencha.store.bundle import (
    AgentRun,
    ArtifactManifest,
    Environment,
    EvaluationResult,
    GatewayReport,
    HookResult,
    Hooks,
    Identity,
    Outcome,
    ResultsBundle,
    RunExecution,
    SandboxReport,
    TestCaseInfo,
)
from youbencha.store.layout import AGENT_FILES, DIFF_FILE, LOG_FILE, REPORT_FILE, RESULTS_FILE
from youbencha.text import iso_time
from youbencha.trial.outcome import outcome_of, summary_of
from youbencha.usage import SIDECAR, SessionUsage, sidecar_record
from youbencha.workspace import RunDirectory

LITELLM_LOG = "litellm.log"

_DENIED = "_TOOL_DENIED"
"""The end of the code of every adapter's warning about denied tools, which has their counts by name."""


@dataclass(kw_only=True)
class RunRecord:
    """What is known about a run so far."""

    run_id: str
    workspace_dir: Path
    test_case: TestCaseInfo
    expected_evaluators: int
    started_at: float
    agent_type: str | None = None
    """None for `yb eval`."""
    agent_name: str | None = None
    agent_model: str | None = None
    """As configured, until the agent reports it."""
    executable: str | None = None
    executable_sha256: str | None = None
    log: YouBenchaLog | None = None
    evaluators: dict[int, EvaluationResult] = field(default_factory=dict)
    """By their index in the test case: they finish in any order."""
    pre_execution: tuple[HookResult, ...] = ()
    post_evaluation: tuple[HookResult, ...] = ()
    warnings: list[tuple[str, str]] = field(default_factory=list)
    """Codes and messages of what the harness noticed, besides the adapter's own warnings."""
    failure: str | None = None
    """Why the harness failed after the agent had ended."""
    commit_files: tuple[str, ...] = ()
    """What the agent reads of the commit on its own."""
    gateway: GatewayReport | None = None
    sandbox: SandboxReport | None = None
    phases_ms: dict[str, int] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)
    """Names of the artifacts written so far."""


class TrialResult(NamedTuple):
    """The results of a finished trial, and where its files are."""

    bundle: ResultsBundle
    directory: RunDirectory


class ResultFiles:
    """Writes `results.json` and the files next to it, atomically and without secrets."""

    def __init__(self, artifacts: Path, record: RunRecord, redactor: Redactor) -> None:
        self._artifacts = artifacts
        self._record = record
        self._redactor = redactor
        self.has_verdict = False
        """Whether the final results were written. Hooks may still be running."""

    def save_log(self, log: YouBenchaLog) -> None:
        log = without_secrets(log, self._redactor.text)
        # Only the log has what the agent's text claims; the results have the warning about it.
        self._record.log = log.without_claims().model_copy(update={"warnings": log.warnings})
        self._save(LOG_FILE, as_json(log))

    def save_metrics(self) -> None:
        """Write the metrics file. Called after the agent has ended, however it did."""
        self._save(SIDECAR, self._redactor.text(sidecar_of(self._record)))

    def save_results(self, *, complete: bool, interrupted: bool = False) -> ResultsBundle:
        bundle = bundle_of(self._record, now=time.time(), complete=complete, interrupted=interrupted)
        bundle = without_secrets(bundle, self._redactor.text)  # also for hooks and standard output
        self._save(RESULTS_FILE, as_json(bundle))
        return bundle

    def save_progress(self) -> None:
        """Save what is finished, unless the disk is full: there is room set aside for the final results only."""
        with suppress(YouBenchaError):
            self.save_results(complete=False)

    async def finish(
        self, hooks: Sequence[PostHook], *, judged: Path, config_dir: Path, env: Mapping[str, str], on_event: EventSink
    ) -> ResultsBundle:
        """Save the final results and the report, and run the post-evaluation hooks in the environment `env`."""
        self._record.files.add(REPORT_FILE)
        bundle = self.save_results(complete=True)
        self.has_verdict = True
        self._save_report(bundle)  # before the hooks, which may send it
        if not hooks:
            return bundle
        from youbencha.hooks import HookContext, post_evaluation_variables, run_post_evaluation

        variables = post_evaluation_variables(
            bundle,
            workspace_dir=self._record.workspace_dir,
            repo_dir=judged,
            artifacts_dir=self._artifacts,
            results_path=self._artifacts / RESULTS_FILE,
        )
        context = HookContext(
            working_dir=config_dir,
            artifacts_dir=self._artifacts,
            config_dir=config_dir,
            variables=variables,
            env=env,
            redactor=self._redactor,
            on_note=lambda text: on_event(ProgressNote(text=text)),
        )
        on_event(PhaseStarted(phase="post_evaluation"))
        started = time.monotonic()
        self._record.post_evaluation = await run_post_evaluation(hooks, bundle, context)
        self._record.phases_ms["post_evaluation"] = round((time.monotonic() - started) * 1000)
        bundle = self.save_results(complete=True)
        self._save_report(bundle)
        return bundle

    def _save_report(self, bundle: ResultsBundle) -> None:
        from youbencha.report.markdown import render_markdown
        from youbencha.report.run_document import run_document
        from youbencha.report.sharing import make_shareable

        self._save(REPORT_FILE, render_markdown(run_document(make_shareable(bundle, self._artifacts))))

    def _save(self, name: str, text: str) -> None:
        write_atomically(self._artifacts / name, text.encode("utf-8", "replace"))
        self._record.files.add(name)


def bundle_of(record: RunRecord, *, now: float, complete: bool, interrupted: bool = False) -> ResultsBundle:
    """The results so far."""
    log = record.log
    results = tuple(record.evaluators[index] for index in sorted(record.evaluators))
    status = log.execution.status if log else None
    if status == "success" and _was_denied(record):
        status = "failed"  # the gateway refused it its model, whatever the agent reports
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
            complete=complete
            and not (interrupted or record.failure)
            and (log is not None or record.agent_type is None),
        ),
        outcome=outcome,
        identity=_identity(record),
        hooks=Hooks(pre_execution=record.pre_execution, post_evaluation=record.post_evaluation),
        artifacts=_manifest(record, results),
    )


def outcome_of_agent(record: RunRecord) -> Outcome | None:
    """Return the outcome as far as the agent's run determines it. If that is not valid, there is nothing to judge."""
    log = record.log
    return outcome_of(log.execution.status, log.errors, (), gateway=record.gateway) if log else None


def _budget_exceeded(record: RunRecord) -> bool | None:
    if record.gateway is None:
        return None
    return record.gateway.budget is not None and record.gateway.budget.exceeded


def _was_denied(record: RunRecord) -> bool:
    """Whether the gateway refused the agent its model: by a budget, or because a replay had no answer."""
    gateway = record.gateway
    if gateway is None:
        return False
    unmatched = gateway.cassette is not None and gateway.cassette.unmatched > 0
    return unmatched or gateway.refused > 0


def _execution(record: RunRecord, now: float, *, complete: bool, interrupted: bool) -> RunExecution:
    return RunExecution(
        started_at=iso_time(record.started_at),
        completed_at=iso_time(now),
        duration_ms=max(0, round((now - record.started_at) * 1000)),
        youbencha_version=__version__,
        environment=Environment(
            os=_system(), python_version=sys.version.split()[0], workspace_dir=str(record.workspace_dir)
        ),
        interrupted=interrupted,
        complete=complete,
        phases_ms=dict(record.phases_ms),
    )


def _system() -> str:
    if sys.platform == "win32":
        return f"Windows {sys.getwindowsversion().build}"
    system = os.uname()
    return f"{system.sysname} {system.release}"


def _agent(record: RunRecord, kind: str) -> AgentRun:
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
    execution, calls = log.execution, log.tool_calls if log.tool_calls_known else None
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
        tool_calls=None if calls is None else len(calls),
        tools_used=None if calls is None else dict(sorted(Counter(call.name for call in calls).items())),
        errors=log.errors,
        warnings=(*log.warnings, *_warnings(record)),
    )


def _warnings(record: RunRecord) -> list[ErrorRecord]:
    at = record.log.execution.completed_at if record.log else iso_time(record.started_at)
    return [ErrorRecord(message=message, timestamp=at, code=code) for code, message in record.warnings]


def _identity(record: RunRecord) -> Identity:
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
        commit_files=record.commit_files,
        config_hash=record.test_case.config_hash,
    )


def _known(text: str) -> str | None:
    return None if text == "unknown" else text


def _manifest(record: RunRecord, results: Sequence[EvaluationResult]) -> ArtifactManifest:
    files = record.files
    produced: Mapping[str, None] = dict.fromkeys(item.path for result in results for item in result.artifacts)
    return ArtifactManifest(
        agent_log=LOG_FILE if LOG_FILE in files else None,
        diff=DIFF_FILE if DIFF_FILE in files else None,
        agent_files=AGENT_FILES if AGENT_FILES in files else None,
        reports=(REPORT_FILE,) if REPORT_FILE in files else (),
        evaluator_artifacts=tuple(produced),
        gateway=_gateway_files(record.gateway, record.workspace_dir / "artifacts") if record.gateway else (),
    )


def _gateway_files(gateway: GatewayReport, artifacts: Path) -> tuple[str, ...]:
    mismatches = gateway.cassette.mismatches if gateway.cassette else ()
    own_litellm = gateway.type == "litellm" and (artifacts / LITELLM_LOG).is_file()  # it may be shared, or external
    return (gateway.ledger, *mismatches, *((LITELLM_LOG,) if own_litellm else ()))


def sidecar_of(record: RunRecord) -> str:
    """The text of the metrics file, with Thunderdome's keys.

    Unknown is null; `partial` is true if more may have been used than could be counted. `reported` is the agent's own
    count, if there is a gateway.
    """
    log = record.log
    usage = log.usage if log else record.gateway.usage if record.gateway else None
    status = log.execution.status if log else "interrupted"
    metrics = sidecar_record(
        SessionUsage(usage.tokens, usage.cost_usd, bool(usage.partial)) if usage else None,
        turns=log.turns if log else None,
        tools_used=_tools_used(log) if log else None,
        duration_ms=log.execution.duration_ms if log else None,
        session_id=log.session_id if log else None,
        model=log.model_info.name if log else record.agent_model,
        ended="completed" if status == "success" else status,
    )
    if record.gateway is not None:
        reported = record.gateway.reported
        metrics["reported"] = reported and {**_token_counts(reported), "total_cost_usd": reported.cost_usd}
    return json.dumps(metrics, indent=2) + "\n"


def _token_counts(usage: Usage) -> dict[str, int | None]:
    return {f"{kind}_tokens": number for kind, number in usage.tokens._asdict().items()}


def _tools_used(log: YouBenchaLog) -> list[str] | None:
    """The tools of which at least one call was not denied; None if unknown."""
    if not log.tool_calls_known:
        return None
    calls = Counter(call.name for call in log.tool_calls)
    for warning in log.warnings:
        denied = (warning.context or {}).get("tools")
        if (warning.code or "").endswith(_DENIED) and isinstance(denied, dict):
            calls.subtract({name: times for name, times in denied.items() if isinstance(times, int)})
    return sorted(name for name, times in calls.items() if times > 0)
