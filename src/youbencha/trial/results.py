"""The results of a trial, which grow from its plan to its verdict, and the files that they are written to."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from youbencha import __version__
from youbencha.errors import YouBenchaError
from youbencha.events import EventSink, PhaseStarted, ProgressNote
from youbencha.files import write_atomically
from youbencha.hooks import HookContext, post_evaluation_variables, run_post_evaluation
from youbencha.log.masking import without_secrets
from youbencha.log.model import ErrorRecord, Status, Usage, YouBenchaLog, as_json
from youbencha.process import Redactor
from youbencha.report.markdown import render_markdown
from youbencha.report.run_document import run_document
from youbencha.report.sharing import make_shareable
from youbencha.spec.testcase import PostHook
from youbencha.store.bundle import (
    AgentRun,
    Environment,
    EvaluationResult,
    GatewayReport,
    HookResult,
    Identity,
    Outcome,
    ResultsBundle,
    RunExecution,
    SandboxReport,
    TestCaseInfo,
)
from youbencha.store.layout import AGENT_FILES, DIFF_FILE, LOG_FILE, REPORT_FILE, RESULTS_FILE, SIDECAR, sidecar_record
from youbencha.text import iso_time
from youbencha.trial.outcome import build_summary, determine_outcome
from youbencha.usage import SessionUsage
from youbencha.workspace import RunDirectory

LITELLM_LOG = "litellm.log"

_DENIED = "_TOOL_DENIED"
"""The end of the code of every adapter's warning about denied tools, which has their counts by name."""


class TrialResult(NamedTuple):
    """The results of a finished trial, and where its files are."""

    bundle: ResultsBundle
    directory: RunDirectory


class TrialRecord:
    """The results of one run of a test case or of `yb eval`.

    They are complete at any time, as far as anything is known, and are written after each step: atomically, and
    without secrets.
    """

    def __init__(
        self,
        test_case: TestCaseInfo,
        directory: RunDirectory,
        redactor: Redactor,
        *,
        expected_evaluators: int,
        started_at: float,
        agent: AgentRun | None = None,
        commit_files: tuple[str, ...] = (),
    ) -> None:
        """`agent` is None for `yb eval`. `commit_files` are what the agent reads of the commit on its own."""
        self.log: YouBenchaLog | None = None
        """The agent's log, without what only its text claims."""
        self.failure: str | None = None
        """Why the harness failed after the agent had ended."""
        self.has_verdict = False
        """Whether the final results were written. Hooks may still be running."""
        self._workspace = directory.path
        self._artifacts = directory.artifacts
        self._redactor = redactor
        self._started_at = started_at
        self._expected = expected_evaluators
        self._results: dict[int, EvaluationResult] = {}
        """Results by their index in the test case, because evaluators finish in any order."""
        self.bundle = ResultsBundle(
            test_case=test_case,
            execution=_start_execution(directory.path, started_at),
            agent=agent,
            evaluators=(),
            summary=build_summary((), expected=expected_evaluators, agent=None, complete=False),
            outcome=None,
            identity=Identity(
                run_id=directory.name,
                youbencha_version=__version__,
                agent_type=agent.type if agent else None,
                task_commit=test_case.commit,
                commit_files=commit_files,
                config_hash=test_case.config_hash,
            ),
        )

    # What is known so far.

    @property
    def gateway(self) -> GatewayReport | None:
        return self.bundle.agent.gateway if self.bundle.agent else None

    @property
    def sandbox(self) -> SandboxReport | None:
        return self.bundle.agent.sandbox if self.bundle.agent else None

    @property
    def warnings(self) -> tuple[ErrorRecord, ...]:
        """The adapter's warnings and those of the harness."""
        return self.bundle.agent.warnings if self.bundle.agent else ()

    @property
    def is_judged(self) -> bool:
        """Whether every evaluator has a result."""
        return len(self._results) >= self._expected

    def outcome_of_agent(self) -> Outcome | None:
        """Return the outcome as far as the agent's run determines it. If it is not valid, there is nothing to judge."""
        log = self.log
        return determine_outcome(log.execution.status, log.errors, (), gateway=self.gateway) if log else None

    # Add what happened.

    def warn(self, code: str, message: str) -> None:
        warning = ErrorRecord(message=message, timestamp=iso_time(time.time()), code=code)
        self._update("agent", warnings=(*self.warnings, warning))

    def add_phase(self, name: str, seconds: float) -> None:
        self._update("execution", phases_ms={**self.bundle.execution.phases_ms, name: round(seconds * 1000)})

    def add_result(self, index: int, result: EvaluationResult) -> None:
        self._results[index] = result

    def add_hooks(self, **results: tuple[HookResult, ...]) -> None:
        """Add the results of hooks: `pre_execution` or `post_evaluation`."""
        self._update("hooks", **results)

    def add_diff(self) -> None:
        self._update("artifacts", diff=DIFF_FILE)

    def add_agent_files(self) -> None:
        self._update("artifacts", agent_files=AGENT_FILES)

    def set_executable(self, path: str) -> None:
        self._update("identity", agent_executable=path)

    def set_digest(self, sha256: str | None) -> None:
        self._update("identity", agent_sha256=sha256)

    def set_sandbox(self, report: SandboxReport) -> None:
        self._update("agent", sandbox=report)

    def set_gateway(self, report: GatewayReport) -> None:
        exceeded = report.budget is not None and report.budget.exceeded
        self._update("agent", gateway=report, budget_exceeded=exceeded, usage=report.usage)

    def _set_log(self, log: YouBenchaLog) -> None:
        self.log = log
        calls = log.tool_calls if log.tool_calls_known else None
        self._update(
            "agent",
            version=_known(log.agent_info.version),
            adapter_version=log.agent_info.adapter_version,
            youbencha_log_path=LOG_FILE,
            status=log.execution.status,
            exit_code=log.execution.exit_code,
            duration_ms=log.execution.duration_ms,
            model=_known(log.model_info.name),
            usage=log.usage,
            turns=log.turns,
            tool_calls=None if calls is None else len(calls),
            tools_used=None if calls is None else dict(sorted(Counter(call.name for call in calls).items())),
            errors=log.errors,
            warnings=(*log.warnings, *self.warnings),
        )
        self._update("identity", agent_version=_known(log.agent_info.version), model=_known(log.model_info.name))

    def _update(self, part: str, **changes: Any) -> None:
        """Change values of a part of the results. Those of the agent do not exist in `yb eval`."""
        if (value := getattr(self.bundle, part)) is not None:
            self.bundle = self.bundle.model_copy(update={part: value.model_copy(update=changes)})

    # Write the files.

    def save_log(self, log: YouBenchaLog) -> None:
        log = without_secrets(log, self._redactor.text)
        # Only the log has what the agent's text claims; the results have the warning about it.
        self._set_log(log.without_claims().model_copy(update={"warnings": log.warnings}))
        self._save(LOG_FILE, as_json(log))
        self._update("artifacts", agent_log=LOG_FILE)

    def save_metrics(self) -> None:
        """Write the metrics file. Called after the agent has ended, however it did."""
        self._save(SIDECAR, self._redactor.text(json.dumps(self._metrics(), indent=2) + "\n"))

    def save_results(self, *, complete: bool, interrupted: bool = False) -> ResultsBundle:
        """Write `results.json`, and return what was written: without secrets, also for hooks and standard output."""
        self._judge(complete=complete, interrupted=interrupted)
        bundle = without_secrets(self.bundle, self._redactor.text)
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
        self._update("artifacts", reports=(REPORT_FILE,))
        bundle = self.save_results(complete=True)
        self.has_verdict = True
        self._save_report(bundle)  # before the hooks, which may send it
        if not hooks:
            return bundle
        context = HookContext(
            working_dir=config_dir,
            artifacts_dir=self._artifacts,
            config_dir=config_dir,
            variables=post_evaluation_variables(
                bundle,
                workspace_dir=self._workspace,
                repo_dir=judged,
                artifacts_dir=self._artifacts,
                results_path=self._artifacts / RESULTS_FILE,
            ),
            env=env,
            redactor=self._redactor,
            on_note=lambda text: on_event(ProgressNote(text=text)),
        )
        on_event(PhaseStarted(phase="post_evaluation"))
        started = time.monotonic()
        self.add_hooks(post_evaluation=await run_post_evaluation(hooks, bundle, context))
        self.add_phase("post_evaluation", time.monotonic() - started)
        bundle = self.save_results(complete=True)
        self._save_report(bundle)
        return bundle

    def _judge(self, *, complete: bool, interrupted: bool) -> None:
        """Determine what depends on everything else: the verdict, the outcome, and the list of artifacts."""
        now, log, gateway = time.time(), self.log, self.gateway
        results = tuple(self._results[index] for index in sorted(self._results))
        has_ended = log is not None or self.bundle.agent is None
        outcome = None
        if log and complete and not interrupted:
            outcome = determine_outcome(
                log.execution.status, log.errors, results, failure=self.failure, gateway=gateway
            )
        self._update(
            "execution",
            completed_at=iso_time(now),
            duration_ms=max(0, round((now - self._started_at) * 1000)),
            interrupted=interrupted,
            complete=complete,
        )
        self._update(
            "artifacts",
            evaluator_artifacts=tuple(dict.fromkeys(item.path for result in results for item in result.artifacts)),
            gateway=_gateway_files(gateway, self._artifacts) if gateway else (),
        )
        summary = build_summary(
            results,
            expected=self._expected,
            agent=_status(log, gateway),
            complete=complete and has_ended and not (interrupted or self.failure),
        )
        self.bundle = self.bundle.model_copy(update={"evaluators": results, "summary": summary, "outcome": outcome})

    def _metrics(self) -> dict[str, object]:
        """Return the content of the metrics file, with Thunderdome's keys.

        Unknown is null; `partial` is true if more may have been used than could be counted. `reported` is the agent's
        own count, if there is a gateway.
        """
        log, agent = self.log, self.bundle.agent
        assert agent is not None
        usage, status = agent.usage, log.execution.status if log else "interrupted"
        metrics = sidecar_record(
            SessionUsage(usage.tokens, usage.cost_usd, bool(usage.partial)) if usage else None,
            turns=log.turns if log else None,
            tools_used=_tools_used(log) if log else None,
            duration_ms=log.execution.duration_ms if log else None,
            session_id=log.session_id if log else None,
            model=log.model_info.name if log else agent.model,
            ended="completed" if status == "success" else status,
        )
        if agent.gateway is not None:
            reported = agent.gateway.reported
            metrics["reported"] = reported and {**_token_counts(reported), "total_cost_usd": reported.cost_usd}
        return metrics

    def _save_report(self, bundle: ResultsBundle) -> None:
        self._save(REPORT_FILE, render_markdown(run_document(make_shareable(bundle, self._artifacts))))

    def _save(self, name: str, text: str) -> None:
        write_atomically(self._artifacts / name, text.encode("utf-8", "replace"))


def _start_execution(directory: Path, started_at: float) -> RunExecution:
    if sys.platform == "win32":
        system = f"Windows {sys.getwindowsversion().build}"
    else:
        system = f"{os.uname().sysname} {os.uname().release}"
    return RunExecution(
        started_at=iso_time(started_at),
        completed_at=iso_time(started_at),
        duration_ms=0,
        youbencha_version=__version__,
        environment=Environment(os=system, python_version=sys.version.split()[0], workspace_dir=str(directory)),
        complete=False,
    )


def _status(log: YouBenchaLog | None, gateway: GatewayReport | None) -> Status | None:
    """Return the agent's status. It failed if the gateway refused it its model, whatever it reports."""
    if log is None or log.execution.status != "success" or gateway is None:
        return log.execution.status if log else None
    unmatched = gateway.cassette is not None and gateway.cassette.unmatched > 0  # a replay had no answer
    return "failed" if unmatched or gateway.refused else "success"


def _known(text: str) -> str | None:
    return None if text == "unknown" else text


def _gateway_files(gateway: GatewayReport, artifacts: Path) -> tuple[str, ...]:
    mismatches = gateway.cassette.mismatches if gateway.cassette else ()
    own_litellm = gateway.type == "litellm" and (artifacts / LITELLM_LOG).is_file()  # it may be shared, or external
    return (gateway.ledger, *mismatches, *((LITELLM_LOG,) if own_litellm else ()))


def _token_counts(usage: Usage) -> dict[str, int | None]:
    return {f"{kind}_tokens": number for kind, number in usage.tokens._asdict().items()}


def _tools_used(log: YouBenchaLog) -> list[str] | None:
    """Return the tools of which at least one call was not denied; None if unknown."""
    if not log.tool_calls_known:
        return None
    calls = Counter(call.name for call in log.tool_calls)
    for warning in log.warnings:
        denied = (warning.context or {}).get("tools")
        if (warning.code or "").endswith(_DENIED) and isinstance(denied, dict):
            calls.subtract({name: times for name, times in denied.items() if isinstance(times, int)})
    return sorted(name for name, times in calls.items() if times > 0)
