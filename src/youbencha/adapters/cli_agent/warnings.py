"""Warnings about a run, from the facts of its session and its process."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence
from pathlib import Path

from youbencha.adapters.cli_agent import codes
from youbencha.adapters.cli_agent.kind import AgentKind, error_record, malformed
from youbencha.adapters.cli_agent.transcript import describe_left_out
from youbencha.log.model import Claim, ErrorRecord, claims_message
from youbencha.log.session import LeftOut, SessionFacts
from youbencha.process import ProcessResult
from youbencha.text import first_few, plural
from youbencha.usage import base_model


def session_warnings(
    kind: AgentKind,
    facts: SessionFacts,
    at: str,
    *,
    compares_models: bool = False,
    allowed_tools: Sequence[str] = (),
) -> Iterator[ErrorRecord]:
    """Warnings about the session. `compares_models` as in `VerdictRules`; `allowed_tools`: the configured rules."""
    yield from _no_tools(kind, facts, at, allowed_tools)
    yield from _denied_tools(kind, facts, at)
    yield from _failed_mcp_servers(kind, facts, at)
    yield from _model_fallback(kind, facts, at, compares_models=compares_models)
    yield from _retries(kind, facts, at)
    yield from (error_record(kind.code(codes.NOTICE), notice, at) for notice in facts.notices)
    yield from _unread_metrics(kind, facts, at)
    # In plain text no line is an event.
    if facts.stream_seen and facts.malformed_lines:
        yield malformed(kind, facts.malformed_lines, facts.malformed_example, at)


_NOT_MEASURED = "Usually a server started in the background: what runs after the agent's end is not measured."


def process_warnings(
    kind: AgentKind, done: ProcessResult, cli: Path, at: str, *, stayed: bool, errors: tuple[ErrorRecord, ...] = ()
) -> Iterator[ErrorRecord]:
    """Warnings about the process. `stayed` is as in `RunEnding`; `errors` are reported already."""
    # Claude Code 2.0.62 starts itself again in the background to check its ripgrep, and does not wait for it.
    left = sorted(program for program in done.exit.leftovers if program != str(cli.resolve()))
    if stayed:
        message = f"{kind.title} did not end after its result, because of commands in the background, and was ended."
        yield error_record(kind.code(codes.LEFT_PROCESSES), message, at, _NOT_MEASURED)
    elif left:
        processes = "1 process running, which was" if len(left) == 1 else f"{len(left)} processes running, which were"
        yield error_record(
            kind.code(codes.LEFT_PROCESSES),
            f"{kind.title} ended but left {processes} ended too.",
            at,
            _NOT_MEASURED,
            count=len(left),
            programs=left,
        )
    if breach := done.exit.breach:
        code = kind.code(codes.of_limit(breach.kind))
        message = f"{kind.title} exceeded a limit of the sandbox: {breach}."
        hint = "This may be why something is unfinished. Raise the limit under `sandbox`, or give a smaller task."
        if not any(error.code == code for error in errors):
            yield error_record(code, message, at, hint, limit=str(breach))
    if done.exit.guard_lost:
        yield error_record(
            kind.code(codes.GUARD_LOST),
            "The process that supervises the agent was killed; the agent was ended with it.",
            at,
            "Find out what kills processes here: the agent itself, or a system that runs out of memory.",
        )
    if done.log_error:
        yield error_record(
            kind.code(codes.LOG_INCOMPLETE),
            f"The terminal log could not be written in full: {done.log_error}",
            at,
            "Free some disk space.",
        )
    if done.skipped_bytes:
        yield error_record(
            kind.code(codes.OUTPUT_SKIPPED),
            f"{done.skipped_bytes} bytes of output came faster than they could be read, and were dropped.",
            at,
            bytes=done.skipped_bytes,
        )


def transcript_shortened(kind: AgentKind, left_out: LeftOut, at: str) -> ErrorRecord:
    return error_record(
        kind.code(codes.TRANSCRIPT_SHORTENED),
        f"The conversation was too long for the log: {describe_left_out(left_out)} were left out.",
        at,
        "The log has its beginning, its end and the last answer, with a note where something is missing.",
        **left_out._asdict(),
    )


def taken_from_text(kind: AgentKind, claims: Sequence[Claim], at: str) -> ErrorRecord:
    return error_record(
        kind.code(codes.TAKEN_FROM_TEXT),
        claims_message(claims),
        at,
        "It may be wrong. Results, reports, comparisons and budgets count it as unknown.",
        claims=list(claims),
    )


def _no_tools(kind: AgentKind, facts: SessionFacts, at: str, allowed: Sequence[str]) -> Iterator[ErrorRecord]:
    """A list of tools that matches none, such as one written for another agent: the agent works without tools."""
    if facts.tools is None:
        return
    names = [rule.partition("(")[0] for rule in allowed]
    if not facts.tools:
        message = f"{kind.title} started without any tool."
        hint = "Use this agent's names in the `tools` of its custom agent, or leave the list out to give it all tools."
    # The tools of an MCP server may come later.
    elif names and not any(name.startswith("mcp__") or fnmatch.filter(facts.tools, name) for name in names):
        message = f"{kind.title} has none of the allowed tools: {first_few(names)}."
        hint = f"It has {', '.join(facts.tools)}."
    else:
        return
    yield error_record(kind.code(codes.NO_TOOLS), message, at, hint, tools=list(facts.tools))


def _denied_tools(kind: AgentKind, facts: SessionFacts, at: str) -> Iterator[ErrorRecord]:
    if not facts.denied_tools:
        return
    counted = ", ".join(f"{name} ({times}x)" for name, times in facts.denied_tools.items())
    yield error_record(
        kind.code(codes.TOOL_DENIED),
        f"{kind.title} was not allowed to use its tools: {counted}. The run continued without them.",
        at,
        kind.hint(codes.TOOL_DENIED, "Allow them; there is no user to ask."),
        tools=dict(facts.denied_tools),
    )


def _failed_mcp_servers(kind: AgentKind, facts: SessionFacts, at: str) -> Iterator[ErrorRecord]:
    if not facts.failed_mcp_servers:
        return
    count = plural(len(facts.failed_mcp_servers), "MCP server")
    yield error_record(
        kind.code(codes.MCP_FAILED),
        f"{count} did not start: {', '.join(facts.failed_mcp_servers)}. The agent worked without their tools.",
        at,
        "Start the server's command by hand to see its error, and check that it exists where the agent runs.",
        servers=list(facts.failed_mcp_servers),
    )


def _model_fallback(kind: AgentKind, facts: SessionFacts, at: str, *, compares_models: bool) -> Iterator[ErrorRecord]:
    for switch in facts.switches:
        yield error_record(
            kind.code(codes.MODEL_FALLBACK),
            f"{kind.title} switched from {switch.original or 'its model'} to {switch.fallback or 'another'} "
            f"({switch.trigger or 'no reason given'}).",
            at,
            "The run does not measure the configured model. Leave out `fallback_model`, or run it again.",
            original=switch.original,
            fallback=switch.fallback,
            trigger=switch.trigger,
        )
    asked, used = facts.init_model, facts.model
    if compares_models and not facts.switches and asked and used and base_model(asked) != base_model(used):
        yield error_record(
            kind.code(codes.MODEL_FALLBACK),
            f"{kind.title} started with {asked}, but {used} answered.",
            at,
            "Possible reasons: a gateway that renames models, or an old CLI that falls back silently.",
            original=asked,
            fallback=used,
            trigger=None,
        )


def _retries(kind: AgentKind, facts: SessionFacts, at: str) -> Iterator[ErrorRecord]:
    if not facts.retries:
        return
    times = plural(sum(retry.times for retry in facts.retries), "time")
    kinds = ", ".join(f"{retry.reason or 'unknown'} ({retry.status or 'no answer'})" for retry in facts.retries)
    yield error_record(
        kind.code(codes.REQUESTS_RETRIED),
        f"Calls to the model failed and were retried {times}: {kinds}. The run's duration includes the waiting.",
        at,
        "Run fewer trials at a time, or exclude this run from comparisons of speed.",
        retries=[retry._asdict() for retry in facts.retries],
    )


def _unread_metrics(kind: AgentKind, facts: SessionFacts, at: str) -> Iterator[ErrorRecord]:
    if not facts.unread_metrics:
        return
    yield error_record(
        kind.code(codes.METRICS_UNREADABLE),
        f"Some metrics reported by {kind.title[0].lower()}{kind.title[1:]} could not be read: "
        f"{'; '.join(facts.unread_metrics)}. They count as unknown.",
        at,
        "The metrics must be one JSON object of less than 1 MiB, with whole numbers for tokens and turns.",
        problems=facts.unread_metrics,
    )
