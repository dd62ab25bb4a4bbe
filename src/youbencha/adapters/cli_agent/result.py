"""What is handed back when the process is gone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from youbencha.adapters.base import AgentExecutionResult
from youbencha.adapters.cli_agent import codes
from youbencha.adapters.cli_agent.facts import SessionFacts
from youbencha.adapters.cli_agent.kind import Kind
from youbencha.adapters.cli_agent.problems import problem
from youbencha.adapters.cli_agent.process_notices import process_warnings
from youbencha.adapters.cli_agent.task import Task
from youbencha.adapters.cli_agent.verdict import Ending, judge
from youbencha.log import ErrorRecord, Usage, iso_time
from youbencha.process import ProcessResult, Redactor

if TYPE_CHECKING:
    from youbencha.adapters.cli_agent.causes import Cause

TAIL_CHARACTERS = 8_000
TIMEOUT_EXIT_CODE = -1


class Finished(NamedTuple):
    """A run that is over, and what its adapter knows of it."""

    kind: Kind
    task: Task[Any]
    done: ProcessResult
    facts: SessionFacts
    timeout_ms: int
    log_file: Path
    redactor: Redactor
    answered_first: bool
    """Its closing word came before it was stopped, if it was."""
    provider: str | None
    stream_expected: bool
    good_exit_codes: frozenset[int]
    own_causes: tuple[Cause, ...]
    has_agents: bool


def build_result(run: Finished) -> AgentExecutionResult:
    done, cli, facts = run.done, run.task.cli, run.facts
    if done.stopped and not run.answered_first:
        facts = facts.model_copy(update={"usage": so_far(facts.usage)})
    at = iso_time(done.ended_at)
    duration_ms = round(done.duration_s * 1000)
    end = Ending(
        exit_code=done.exit.code,
        signal=done.exit.signal,
        timed_out=done.timed_out,
        stopped=done.stopped,
        answered_first=run.answered_first,
        timeout_ms=run.timeout_ms,
        duration_ms=duration_ms,
        truncated=done.truncated,
        breach=done.exit.breach,
        stream_expected=run.stream_expected,
        good_exit_codes=run.good_exit_codes,
        output_tail=done.output[-TAIL_CHARACTERS:],
        facts=facts,
    )
    verdict = judge(run.kind, end, at=at, own_causes=run.own_causes)
    return AgentExecutionResult(
        exit_code=TIMEOUT_EXIT_CODE if done.timed_out else done.exit.shell_code,
        status=verdict.status,
        output=done.output,
        started_at=iso_time(done.started_at),
        completed_at=at,
        duration_ms=duration_ms,
        errors=verdict.errors,
        warnings=(
            *verdict.warnings,
            *process_warnings(run.kind, done, cli.path, at, errors=verdict.errors),
            *_ignored(run, at),
        ),
        agent_version=cli.version or None,
        log_file=run.log_file,
        details={
            "session": facts.model_dump(mode="json"),
            "prompt": run.redactor.text(run.task.prompt),
            "provider": run.provider,
            **process_details(done, cli.path, cli.sha256),
        },
    )


def so_far(usage: Usage | None) -> Usage | None:
    """Of a run that was cut off: the call that it was in is not in the sum."""
    return usage and usage.model_copy(update={"partial": True})


def process_details(done: ProcessResult, executable: Path, sha256: str | None) -> dict[str, Any]:
    """What ran, and what it took."""
    return {
        "truncated": done.truncated,
        "executable": str(executable),
        "executable_sha256": sha256,
        "cpu_s": done.exit.cpu_s,
        "peak_rss_bytes": done.exit.peak_rss_bytes,
        "process_s": done.exit.lifetime_s,
    }


def _ignored(run: Finished, at: str) -> tuple[ErrorRecord, ...]:
    """A custom agent that was asked for and not used: what was measured is another."""
    name = run.task.config.agent_name
    if run.has_agents or name is None:
        return ()
    message = f"{run.kind.title} has no custom agents: agent_name {name!r} had no effect."
    return (problem(run.kind.code(codes.AGENT_IGNORED), message, at, "Put its instructions into the prompt."),)
