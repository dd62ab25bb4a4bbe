"""What is handed back when the process is gone."""

from __future__ import annotations

from pathlib import Path

from youbencha.adapters.base import AgentExecutionContext, AgentExecutionResult
from youbencha.adapters.claude_code.command import Invocation
from youbencha.adapters.claude_code.errors import CLAUDE
from youbencha.adapters.claude_code.facts import SessionFacts
from youbencha.adapters.claude_code.verdict import Ending, judge
from youbencha.adapters.cli_agent.process_notices import process_warnings
from youbencha.adapters.cli_agent.result import TAIL_CHARACTERS, TIMEOUT_EXIT_CODE, process_details, so_far
from youbencha.log import iso_time
from youbencha.process import ProcessResult, Redactor


def build_result(
    done: ProcessResult,
    facts: SessionFacts,
    invocation: Invocation,
    context: AgentExecutionContext,
    *,
    log_file: Path,
    redactor: Redactor,
    key_rejected: bool = False,
    answered_first: bool = False,
    interrupted: bool = False,
    unresponsive: str | None = None,
) -> AgentExecutionResult:
    cli = invocation.cli
    if (done.stopped or interrupted) and not answered_first:
        facts = facts.model_copy(update={"usage": so_far(facts.usage)})
    duration_ms = round(done.duration_s * 1000)
    at = iso_time(done.ended_at)
    ending = Ending(
        exit_code=done.exit.code,
        signal=done.exit.signal,
        timed_out=done.timed_out,
        timeout_ms=context.timeout,
        duration_ms=duration_ms,
        key_rejected=done.stopped and key_rejected,
        stopped=done.stopped,
        answered_first=answered_first,
        interrupted=interrupted and not answered_first,
        unresponsive=unresponsive,
        truncated=done.truncated,
        breach=done.exit.breach,
        stream_expected=invocation.config.output_format == "stream-json",
        output_tail=done.output[-TAIL_CHARACTERS:],
        facts=facts,
    )
    verdict = judge(ending, at=at)
    return AgentExecutionResult(
        exit_code=TIMEOUT_EXIT_CODE if done.timed_out else done.exit.shell_code,
        status=verdict.status,
        output=done.output,
        started_at=iso_time(done.started_at),
        completed_at=at,
        duration_ms=duration_ms,
        errors=verdict.errors,
        warnings=(*verdict.warnings, *process_warnings(CLAUDE, done, cli.path, at, errors=verdict.errors)),
        agent_version=str(cli.version),
        log_file=log_file,
        details={
            "session": facts.model_dump(mode="json"),
            "prompt": redactor.text(invocation.prompt.text),
            "transport": invocation.transport,
            **process_details(done, cli.path, cli.sha256),
        },
    )
