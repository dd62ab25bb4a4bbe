"""What a person should know about a run even if it succeeded: facts -> warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from youbencha.adapters.claude_code import codes
from youbencha.adapters.claude_code.errors import CLAUDE
from youbencha.adapters.claude_code.facts import SessionFacts, base_model
from youbencha.adapters.cli_agent import problems
from youbencha.adapters.cli_agent.problems import plural, problem
from youbencha.log import ErrorRecord


def notices(facts: SessionFacts, at: str) -> tuple[ErrorRecord, ...]:
    return tuple(record for notice in _NOTICES for record in notice(facts, at))


def _denied_tools(facts: SessionFacts, at: str) -> Iterator[ErrorRecord]:
    by_policy = facts.denied_by_policy
    others = {name: times - by_policy.get(name, 0) for name, times in facts.denied_tools.items()}
    others = {name: times for name, times in others.items() if times > 0}
    if by_policy:
        message = f"The tool policy denied: {_counted(by_policy)}. The run went on without them."
        hint = "See which rules apply: `tool_policy` of agent.config. A denied tool shows in what the agent can do."
        yield problem(codes.TOOL_DENIED, message, at, hint, tools=by_policy, by="tool_policy")
    if others:
        yield problem(
            codes.TOOL_DENIED,
            f"Claude Code was not allowed to use its tools: {_counted(others)}. The run went on without them.",
            at,
            "Add them to `allowed_tools`, or set `permission_mode: bypassPermissions` (in a sandbox).",
            tools=others,
        )


def _counted(tools: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({times}x)" for name, times in tools.items())


def _failed_mcp(facts: SessionFacts, at: str) -> Iterator[ErrorRecord]:
    if not facts.failed_mcp_servers:
        return
    count = plural(len(facts.failed_mcp_servers), "MCP server")
    yield problem(
        codes.MCP_FAILED,
        f"{count} did not start: {', '.join(facts.failed_mcp_servers)}. The agent worked without their tools.",
        at,
        "Start the server's command by hand to see its error, and check that it exists where the agent runs.",
        servers=list(facts.failed_mcp_servers),
    )


def _model_fallback(facts: SessionFacts, at: str) -> Iterator[ErrorRecord]:
    for switch in facts.switches:
        yield problem(
            codes.MODEL_FALLBACK,
            f"Claude Code went over from {switch.original or 'its model'} to {switch.fallback or 'another'} "
            f"({switch.trigger or 'no reason given'}).",
            at,
            "The run does not measure the model asked for. Leave out `fallback_model`, or run it again.",
            original=switch.original,
            fallback=switch.fallback,
            trigger=switch.trigger,
        )
    asked, used = facts.init_model, facts.model
    if not facts.switches and asked and used and base_model(asked) != base_model(used):
        yield problem(
            codes.MODEL_FALLBACK,
            f"Claude Code set out with {asked}, but {used} answered.",
            at,
            "A gateway that renames models does this, and so does an old CLI that falls back without a word.",
            original=asked,
            fallback=used,
            trigger=None,
        )


def _retries(facts: SessionFacts, at: str) -> Iterator[ErrorRecord]:
    if not facts.retries:
        return
    times = plural(sum(retry.times for retry in facts.retries), "time")
    kinds = ", ".join(f"{retry.reason or 'unknown'} ({retry.status or 'no answer'})" for retry in facts.retries)
    yield problem(
        codes.REQUESTS_RETRIED,
        f"Calls to the model failed and were repeated {times}: {kinds}. The run's duration includes the waiting.",
        at,
        "Run fewer trials at a time, or leave this run out of comparisons of speed.",
        retries=[retry.model_dump() for retry in facts.retries],
    )


def _malformed(facts: SessionFacts, at: str) -> Iterator[ErrorRecord]:
    # In plain text no line is an event, and that is no news.
    if facts.stream_seen and facts.malformed_lines:
        yield problems.malformed(CLAUDE, facts.malformed_lines, facts.malformed_example, at)


_NOTICES = (_denied_tools, _failed_mcp, _model_fallback, _retries, _malformed)
