"""Format the figures of a run, for all reports."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from youbencha.report.commit_files import describe_files
from youbencha.text import UNKNOWN, format_count, format_duration, format_usd, plural

if TYPE_CHECKING:
    from youbencha.log.model import Usage
    from youbencha.store.bundle import (
        AgentRun,
        BudgetReport,
        CassetteReport,
        GatewayReport,
        ResultsBundle,
        SandboxReport,
    )


COST_SOURCES = {
    "agent": "reported by the agent",
    "gateway": "metered by the gateway",
    "prices": "computed from list prices",
}

STATUS_SIGNS = {"passed": "✅", "failed": "❌", "skipped": "⏭️", "partial": "⚠️", "success": "✅", "timeout": "⏱️"}

AS_CODE = frozenset(
    {"Configuration", "Repository", "Branch", "Commit", "Expected branch", "Directory", "Expected directory"}
    | {"Workspace", "Run", "Executable", "Executable SHA-256", "Model", "Task commit", "Configuration hash"}
)
"""Labels of figures that are shown as code, such as paths and hashes."""

_REACHED = {"gateway": "reaching only the gateway", "none": "reaching nothing", "open": "with a network"}


class Figure(NamedTuple):
    label: str
    value: str

    @property
    def is_code(self) -> bool:
        return self.label in AS_CODE and self.value != UNKNOWN


def tokens(usage: Usage | None) -> str:
    """Format the tokens; those of the cache only if they were counted: most agents have none."""
    if usage is None or (usage.input_tokens is None and usage.output_tokens is None):
        return UNKNOWN
    parts = [f"{format_count(usage.input_tokens)} in", f"{format_count(usage.output_tokens)} out"]
    if usage.cache_read_tokens is not None:
        parts.append(f"{format_count(usage.cache_read_tokens)} cache read")
    if usage.cache_creation_tokens is not None:
        parts.append(f"{format_count(usage.cache_creation_tokens)} cache write")
    return ("at least " if usage.partial else "") + " · ".join(parts)


def cost(usage: Usage | None) -> str:
    """Format the cost with its source."""
    if usage is None or usage.cost_usd is None:
        return UNKNOWN
    source = COST_SOURCES.get(usage.cost_source or "", "source unknown")
    return f"{'at least ' if usage.partial else ''}{format_usd(usage.cost_usd)} ({source})"


def judging_cost(bundle: ResultsBundle) -> str | None:
    """Format the cost of the evaluators; None if none of them called a model."""
    spent = [evaluator.usage for evaluator in bundle.evaluators if evaluator.usage is not None]
    if not spent:
        return None
    known = [usage.cost_usd for usage in spent if usage.cost_usd is not None]
    if not known:
        return UNKNOWN
    lower_bound = len(known) < len(spent) or any(usage.partial for usage in spent)
    return f"{'at least ' if lower_bound else ''}{format_usd(sum(known))}"


def agent_name(agent: AgentRun) -> str:
    name = f"{agent.type} {agent.version}" if agent.version else agent.type
    return f"{name}, as {agent.agent_name}" if agent.agent_name else name


def agent_status(agent: AgentRun) -> str:
    if agent.status is None:
        return "not completed"
    return agent.status if agent.exit_code is None else f"{agent.status} (exit code {agent.exit_code})"


def tools(agent: AgentRun) -> str:
    """`12 calls: Edit 7, Bash 5`."""
    used = most_used(agent.tools_used)
    total = sum(number for _, number in used) if agent.tool_calls is None else agent.tool_calls
    if agent.tool_calls is None and agent.tools_used is None:
        return UNKNOWN
    names = ", ".join(f"{name} {format_count(number)}" for name, number in used)
    return plural(total, "call") + (f": {names}" if names else "")


def most_used(tools_used: dict[str, int] | None) -> list[tuple[str, int]]:
    return sorted((tools_used or {}).items(), key=lambda item: (-item[1], item[0]))


def evaluator_counts(bundle: ResultsBundle) -> str:
    summary = bundle.summary
    numbers = {"passed": summary.passed, "failed": summary.failed, "skipped": summary.skipped}
    named = " · ".join(f"{number} {name}" for name, number in numbers.items() if number)
    return named or "none"


def verdict(bundle: ResultsBundle) -> str:
    """The verdict with its caveats."""
    return ", ".join([bundle.summary.overall_status, *caveats(bundle)])


def caveats(bundle: ResultsBundle) -> list[str]:
    flags = {
        "interrupted": bundle.execution.interrupted,
        "not complete": not bundle.execution.complete,
        "not valid": bundle.outcome is not None and not bundle.outcome.valid,
    }
    return [name for name, holds in flags.items() if holds]


def agent_figures(agent: AgentRun) -> list[Figure]:
    return [
        Figure("Agent", agent_name(agent)),
        Figure("Agent status", agent_status(agent)),
        Figure("Model", agent.model or UNKNOWN),
        Figure("Agent time", format_duration(agent.duration_ms)),
        Figure("Tokens", tokens(agent.usage)),
        Figure("Cost", cost(agent.usage)),
        Figure("Turns", format_count(agent.turns)),
        Figure("Tools", tools(agent)),
        *(gateway_figures(agent.gateway) if agent.gateway else ()),
        *_known(("Sandbox", _sandbox(agent.sandbox) if agent.sandbox else None)),
    ]


def _sandbox(sandbox: SandboxReport) -> str | None:
    """Describe the sandbox; a local run needs no description."""
    if sandbox.type == "local":
        return None
    reached = _REACHED.get(sandbox.network or "", "")
    return ", ".join(part for part in (f"{sandbox.type}: {sandbox.image}", reached) if part)


def gateway_figures(gateway: GatewayReport) -> list[Figure]:
    """The gateway's figures, without zeros."""
    counts = [plural(gateway.requests, "request")]
    numbers = {
        "failed": gateway.failed - gateway.refused,
        "rate-limited": gateway.rate_limited,
        "refused": gateway.refused,
    }
    counts += [f"{format_count(number)} {name}" for name, number in numbers.items() if number]
    return _known(
        ("Gateway", f"{gateway.type}: {', '.join(counts)}"),
        ("Provider wait", format_duration(gateway.provider_wait_ms) if gateway.provider_wait_ms else None),
        ("Budget", _budget(gateway.budget) if gateway.budget else None),
        ("Agent's own count", _difference(gateway)),
        ("Cassette", _cassette(gateway.cassette) if gateway.cassette else None),
        ("Paid", _paid(gateway) if gateway.cassette and gateway.cassette.replayed else None),
    )


def _paid(gateway: GatewayReport) -> str:
    return UNKNOWN if gateway.paid_usd is None else f"{format_usd(gateway.paid_usd)}: replayed answers are free"


def _budget(budget: BudgetReport) -> str:
    caps = [format_usd(budget.cap_usd)] if budget.cap_usd is not None else []
    caps += [f"{format_count(budget.cap_tokens)} tokens"] if budget.cap_tokens is not None else []
    unsure = f" (and up to {format_usd(budget.unsure_usd)} for interrupted answers)" if budget.unsure_usd else ""
    return f"{' and '.join(caps) or 'for each call'}, {_budget_state(budget)}{unsure}"


def _budget_state(budget: BudgetReport) -> str:
    if not budget.exceeded:
        return "kept"
    # A call may be sent while anything is left, so the last one can cost more than that without being refused.
    return "EXCEEDED" if budget.reason else "overrun by the last call"


def _difference(gateway: GatewayReport) -> str | None:
    """The gateway's count minus the agent's; None if the agent reported none."""
    differs = gateway.difference
    if differs is None:
        return None
    counts = {
        "input": differs.input_tokens,
        "output": differs.output_tokens,
        "cache read": differs.cache_read_tokens,
        "cache write": differs.cache_creation_tokens,
    }
    parts = [f"{number:+,} {name}" for name, number in counts.items() if number]
    parts += [f"{'-' if differs.cost_usd < 0 else '+'}{format_usd(abs(differs.cost_usd))}"] if differs.cost_usd else []
    return f"gateway's is {', '.join(parts)}" if parts else "the same"


def _cassette(cassette: CassetteReport) -> str:
    counts = {"replayed": cassette.replayed, "recorded": cassette.recorded, "WITHOUT AN ANSWER": cassette.unmatched}
    counted = ", ".join(f"{format_count(number)} {name}" for name, number in counts.items() if number)
    return f"{cassette.mode}: {counted or 'nothing'}"


def outcome_figures(bundle: ResultsBundle) -> list[Figure]:
    outcome = bundle.outcome
    if outcome is None:
        return []
    valid = "yes" if outcome.valid else "no: exclude it from scores"
    figures = [
        Figure("Outcome", outcome.name.replace("_", " ")),
        Figure("Reason", outcome.reason),
        Figure("Valid", valid),
    ]
    return [*figures, Figure("Another attempt", "may end differently")] if outcome.retry else figures


def identity_figures(bundle: ResultsBundle) -> list[Figure]:
    identity = bundle.identity
    return _known(
        ("Run", identity.run_id),
        ("youBencha", identity.youbencha_version),
        ("Agent", identity.agent_type),
        ("Agent version", identity.agent_version),
        ("Executable", identity.agent_executable),
        ("Executable SHA-256", identity.agent_sha256),
        ("Model", identity.model),
        ("Task commit", identity.task_commit),
        ("Read from the commit", describe_files(identity.commit_files) if identity.commit_files else None),
        ("Configuration hash", identity.config_hash),
    )


def case_figures(bundle: ResultsBundle) -> list[Figure]:
    case = bundle.test_case
    return _known(
        ("Name", case.name),
        ("Configuration", case.config_file),
        ("Repository", case.repo),
        ("Branch", case.branch),
        ("Commit", case.commit),
        ("Expected branch", case.expected_branch),
        ("Directory", case.directory),
        ("Expected directory", case.expected_directory),
    )


def execution_figures(bundle: ResultsBundle) -> list[Figure]:
    run = bundle.execution
    return _known(
        ("Started", run.started_at),
        ("Completed", run.completed_at),
        ("Duration", format_duration(run.duration_ms)),
        ("youBencha", run.youbencha_version),
        ("System", run.environment.os),
        ("Python", run.environment.python_version if run.environment.python_version != UNKNOWN else None),
        ("Workspace", run.environment.workspace_dir),
    )


def artifacts(bundle: ResultsBundle) -> list[Figure]:
    manifest = bundle.artifacts
    reports = (("Report", path) for path in manifest.reports)
    others = (("From an evaluator", path) for path in manifest.evaluator_artifacts)
    agent = (("Agent log", manifest.agent_log), ("Files given to the agent", manifest.agent_files))
    return _known(*agent, ("Changes", manifest.diff), *reports, *others)


def _known(*pairs: tuple[str, str | None]) -> list[Figure]:
    return [Figure(label, value) for label, value in pairs if value]


def phases(bundle: ResultsBundle) -> Iterable[tuple[str, int]]:
    return ((name.replace("_", " "), spent) for name, spent in bundle.execution.phases_ms.items())
