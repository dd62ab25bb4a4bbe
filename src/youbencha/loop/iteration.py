"""Run iterations with one backend: its sandbox and its gateway are opened once, and stay open.

An iteration is one session of the agent, run by its adapter as in a trial, but in the user's directory.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sysconfig
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import datetime
from importlib.metadata import PackageNotFoundError, distribution
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from youbencha.adapters import AgentExecutionContext, AgentExecutionResult, BaseAdapter, get_adapter
from youbencha.adapters.causes import (
    INVALID_OPTION,
    MODEL_NOT_FOUND,
    NO_CREDIT,
    ROOT_REFUSED,
    FailureEvidence,
    find_cause,
    reset_time,
)
from youbencha.adapters.cli_agent import codes
from youbencha.errors import ConfigError, YouBenchaError
from youbencha.events import AssistantText, ContextUsed, Event, EventSink
from youbencha.gateway.prices import Prices
from youbencha.log.model import CostSource, ErrorRecord, Usage, build_usage
from youbencha.log.session import CallMetered
from youbencha.loop.agent_commands import Place
from youbencha.loop.backends import Backend, shell_environment
from youbencha.loop.container_tools import ContainerTools
from youbencha.loop.decisions import IterationResult, key_name
from youbencha.loop.directory import LoopDirectory
from youbencha.loop.gates import GateReport, run_gates
from youbencha.loop.plan import LoopPlan
from youbencha.loop.topics import EVENTS_VARIABLE, LOOP_VARIABLE, ROOT_VARIABLE, TopicLog
from youbencha.loop.watch import EndKind, IterationLimits, IterationWatch, SessionCost
from youbencha.sandbox.base import Sandbox
from youbencha.store.loops import IterationOutcome, LoopOutcome
from youbencha.text import clean_text, iso_time, one_line
from youbencha.trial.context import Host
from youbencha.trial.gateway_session import outside_gateway
from youbencha.trial.prepare import open_agent_sandbox, open_forward_proxy
from youbencha.workspace import RunDirectory

if TYPE_CHECKING:
    from youbencha.trial.gateway_session import TrialGateway  # loads aiohttp

ITERATION_VARIABLE = "RALPH_ITERATION"
_MAX_TEXT = 200_000
_LAST_LINES = 3
"""The last lines of a failed program, in which it may say that a usage limit was reached."""


_BY_WATCH: dict[EndKind, tuple[IterationOutcome, LoopOutcome | None]] = {
    "idle": ("failed", None),
    "tool_timeout": ("failed", None),
    "time": ("failed", None),
    "cost": ("limit", "max_cost"),
    "quota": ("usage_limit", "usage_limit"),
    "usage_limit": ("usage_limit", None),
}
"""What an iteration is that the watch has ended."""


class IterationRunner:
    """An open backend."""

    def __init__(
        self,
        plan: LoopPlan,
        backend: Backend,
        adapter: BaseAdapter,
        run_directory: RunDirectory,
        sandbox: Sandbox,
        gateway: TrialGateway | None,
        env: Mapping[str, str],
        on_event: EventSink,
        host: Host,
    ) -> None:
        self.backend = backend
        self._plan = plan
        self._adapter = adapter
        self._run_directory = run_directory
        self._sandbox = sandbox
        self._gateway = gateway
        self._env = env
        self._on_event = on_event
        self._host = host
        self._watch: IterationWatch | None = None
        self._prices: Prices | None = None

    @property
    def secrets(self) -> Mapping[str, str]:
        """Values to redact in everything that is written."""
        return {**self.backend.env, **(self._gateway.secrets if self._gateway else {})}

    async def run(
        self,
        number: int,
        prompt: str,
        *,
        directory: LoopDirectory,
        stop: asyncio.Event,
        seconds_left: float,
        usd_left: float | None,
        hat: str | None = None,
    ) -> IterationResult:
        """Run one iteration, until the agent ends, a limit is reached or `stop` is set. Never raises for an agent."""
        started, began = time.time(), time.monotonic()
        ending = asyncio.Event()
        try:
            if self._gateway is not None:
                await self._gateway.issue_key(key_name(number), self._sandbox)
            self._watch = watch = IterationWatch(self._limits(usd_left, hat), ending, cost=await self._cost())
            context = self._context(number, prompt, directory, ending, watch, seconds_left)
            with watch.running(), _passing_on(ending, stop, self._gateway.stop if self._gateway else None):
                result = await self._adapter.execute(context)
            usage, source = await self._usage(result, watch.cost)
        except YouBenchaError as error:
            report = _not_started(error, started)
        else:
            report = replace(self._report(result, watch, stopped=stop.is_set()), usage=usage, usage_source=source)
            if not _streamed(result) and report.text:
                self._on_event(AssistantText(text=report.text))
        return replace(report, started_at=started, duration_ms=round((time.monotonic() - began) * 1000))

    async def run_gates(self, artifacts_dir: Path, since: str | None) -> GateReport:
        """Run the gates on the tree, with the access to the model and the kind of sandbox that the agent has.

        `since` is the commit of the tree before the loop, if there is one.
        """
        return await run_gates(
            self._plan,
            self._host,
            self._run_directory,
            artifacts_dir=artifacts_dir,
            on_event=self._on_event,
            since=since,
            gateway=self._gateway,
            sandbox=self._sandbox,
        )

    def take(self, event: Event) -> None:
        """Pass an event of the agent or of the gateway on, and let the watch see it first."""
        if self._watch is not None:
            self._watch.take(event)
        if isinstance(event, ContextUsed):
            own = self._plan.spec.event_loop.context_window_tokens
            known = self._watch.cost.context_window if self._watch else None
            event = replace(event, window=own or event.window or known)
        if not (isinstance(event, CallMetered) and self._gateway):  # the gateway reports each call
            self._on_event(event)

    def _context(
        self,
        number: int,
        prompt: str,
        directory: LoopDirectory,
        ending: asyncio.Event,
        watch: IterationWatch,
        seconds_left: float,
    ) -> AgentExecutionContext:
        backend, tree = self.backend, self._plan.directory
        return AgentExecutionContext(
            workspace_dir=tree,
            repo_dir=tree,
            artifacts_dir=directory.iteration_dir(number),
            config={**backend.config, "prompt": prompt},
            timeout=max(1, round(seconds_left * 1000)),
            env={**self._env, ITERATION_VARIABLE: str(number)},
            model=backend.model,
            config_dir=self._plan.config_dir,
            on_event=self.take,
            on_output=watch.heard,
            gateway=self._gateway.access if self._gateway else None,
            other_credentials=True,
            sandbox=self._sandbox,
            scratch_dir=self._run_directory.scratch,
            stop=ending,
        )

    def _limits(self, usd_left: float | None, hat: str | None) -> IterationLimits:
        spec = self._plan.spec.event_loop
        return IterationLimits(
            idle_s=spec.idle_timeout_secs or None,
            tool_s=spec.tool_timeout_secs or None,
            time_s=(self._plan.spec.hats[hat].timeout or None) if hat is not None else None,
            cost_usd=usd_left,
            quota_percent=spec.stop_at_quota_percent,
        )

    async def _cost(self) -> SessionCost:
        """Count what an iteration costs; without a gateway, it is estimated."""
        if not self._adapter.supports_gateway:
            return SessionCost()
        if self._prices is None:
            spec = self._plan.spec.gateway
            self._prices = Prices(spec.prices if spec else {})
            await self._prices.load()
        model = self.backend.model
        return SessionCost(self._prices, self._adapter.gateway_provider(model, self._env), model)

    async def _usage(self, result: AgentExecutionResult, cost: SessionCost) -> tuple[Usage | None, CostSource | None]:
        """What went through the gateway, else what the agent reports; the cost is estimated if it reports none."""
        reported = _reported(result, cost)
        if self._gateway is not None:
            await self._gateway.end_agent()
            report = self._gateway.report()
            if (report.requests or report.refused) and not outside_gateway(report.usage, reported):
                return report.usage, "gateway"
        return reported, (reported.cost_source or "agent") if reported else None

    def _report(self, result: AgentExecutionResult, watch: IterationWatch, *, stopped: bool) -> IterationResult:
        error = result.errors[0] if result.errors else None
        report = IterationResult(
            outcome="completed",
            reason=error.message if error else "",
            is_permanent=error is not None and _is_permanent(error),
            text=last_text(result),
            model=(result.session.facts.model if result.session else None) or self.backend.model,
        )
        if result.status == "success":
            over = watch.quota_reached
            limit: LoopOutcome | None = "usage_limit" if over else None
            return replace(report, reason=over.message if over else "", is_permanent=False, limit=limit)
        if (ended_by := watch.reason or watch.quota_reached) is not None:
            outcome, limit = _BY_WATCH[ended_by.kind]
            return replace(report, outcome=outcome, limit=limit, reason=ended_by.message, resets_at=ended_by.resets_at)
        if stopped:
            return replace(report, outcome="stopped", reason="stopped by the user")
        if result.status == "timeout":
            return replace(report, outcome="limit", limit="max_runtime", reason="the loop's time was over")
        if self._gateway is not None and self._gateway.budget_is_spent:
            return replace(report, outcome="limit", limit="max_cost", reason="the loop's money was spent")
        if error is not None and error.cause == "RATE_LIMIT":
            return replace(report, outcome="usage_limit", resets_at=watch.resets_at or _reset_in(error))
        failed = replace(report, outcome="failed")
        return failed if _streamed(result) else _classify_by_text(failed)


@asynccontextmanager
async def open_runner(
    plan: LoopPlan, host: Host, backend: Backend, directory: LoopDirectory, on_event: EventSink
) -> AsyncIterator[IterationRunner]:
    """Open what iterations with this backend need, until the end of the block."""
    adapter = get_adapter(backend.agent_type, host.env)
    runner: IterationRunner

    def take(event: Event) -> None:
        runner.take(event)

    async with AsyncExitStack() as opened:
        run_directory = opened.enter_context(_new_run_directory(plan, host, directory))
        await host.remove_orphaned_directories(run_directory)
        behind_gateway = backend.gateway is not None
        opening = open_agent_sandbox(
            plan.sandbox, host, adapter, run_directory, on_event, env=backend.env, behind_gateway=behind_gateway
        )
        sandbox = await opened.enter_async_context(opening)
        sandbox.protect(directory.path.parent)
        if plan.config_file and (config := plan.config_file.resolve()).is_relative_to(plan.directory):
            sandbox.protect(config)  # what it names is run when the loop continues, perhaps on the host
        gateway = None
        if backend.gateway is not None:
            from youbencha.trial.gateway_session import open_trial_gateway  # loads aiohttp

            gateway = await open_trial_gateway(backend.gateway, run_directory, take, opened, host, backend.name)
        proxy = await open_forward_proxy(plan.sandbox, sandbox, opened)
        ralph = await _ralph_variables(host, sandbox, run_directory, directory, opened)
        shell = shell_environment(host.env, behind_gateway=gateway is not None)
        inherited = sandbox.environment(shell) if sandbox.kind == "local" else {}
        env = {**inherited, **(proxy.variables if proxy else {}), **ralph, **backend.env}
        runner = IterationRunner(plan, backend, adapter, run_directory, sandbox, gateway, env, on_event, host)
        yield runner


def _new_run_directory(plan: LoopPlan, host: Host, directory: LoopDirectory) -> RunDirectory:
    parent = directory.path / "backends"
    number = next(number for number in count(1) if not os.path.lexists(parent / str(number)))
    name = f"{directory.loop_id}-{number}"
    return RunDirectory.create_at(parent / str(number), name=name, cache_dir=host.cache_dir, tree=plan.directory)


async def _ralph_variables(
    host: Host, sandbox: Sandbox, run_directory: RunDirectory, directory: LoopDirectory, opened: AsyncExitStack
) -> Mapping[str, str]:
    """What `ralph emit` and the presets of the original need."""
    variables = {
        EVENTS_VARIABLE: sandbox.inside(directory.events_file),
        ROOT_VARIABLE: sandbox.inside(directory.tree),
        LOOP_VARIABLE: directory.loop_id,
    }
    if sandbox.kind != "local":
        place = Place(directory.tree, TopicLog(directory.events_file, directory.tree), directory.loop_id, confined=True)
        tools = ContainerTools(sandbox, place, run_directory.new_scratch() / "bin")
        await opened.enter_async_context(tools.answering())
        return {**variables, **tools.variables}
    program = ralph_program()
    path = os.pathsep.join(filter(None, (str(program.parent), host.env.get("PATH"))))
    return {**variables, "RALPH_BIN": str(program), "PATH": path}


def ralph_program() -> Path:
    """Return the `ralph` script of this installation, also after `pip install --user`."""
    directory, name = Path(sysconfig.get_path("scripts")), "ralph"
    with contextlib.suppress(PackageNotFoundError):
        files = distribution("youbencha").files or ()
        scripts = (Path(os.path.normpath(file.locate())) for file in files if file.name == name)
        directory = next((script.parent for script in scripts if script.is_file()), directory)
    return directory / name


@contextlib.contextmanager
def _passing_on(ending: asyncio.Event, *causes: asyncio.Event | None) -> Iterator[None]:
    """Set `ending` as soon as one of the causes is set."""

    async def wait_for(cause: asyncio.Event) -> None:
        await cause.wait()
        ending.set()

    waiting = [asyncio.create_task(wait_for(cause)) for cause in causes if cause is not None]
    try:
        yield
    finally:
        for task in waiting:
            task.cancel()


def _reported(result: AgentExecutionResult, cost: SessionCost) -> Usage | None:
    """What the agent reports; the cost is estimated if it reports none."""
    reported = result.session.facts.usage if result.session else None
    if reported is None:
        return None
    if reported.cost_usd is None and cost.usd is not None:
        return build_usage(reported.tokens, cost.usd, partial=reported.partial, cost_source="prices")
    return build_usage(reported.tokens, reported.cost_usd, partial=reported.partial)


def _streamed(result: AgentExecutionResult) -> bool:
    return result.session is not None and result.session.facts.stream_seen


def last_text(result: AgentExecutionResult) -> str:
    """The agent's final answer; all that it printed, if it prints no events."""
    if result.session is None or not result.session.facts.stream_seen:
        printed = result.output_end.text if result.output_end else result.output
        return clean_text(printed[-_MAX_TEXT:]).strip()
    final = result.session.facts.result
    if final is not None and final.text:
        return final.text
    messages = reversed(result.session.messages)
    texts = (said.content for said in messages if said.role == "assistant" and not said.parent)
    return next(texts, "")


def _not_started(error: YouBenchaError, started: float) -> IterationResult:
    """Report an agent that could not be started, or of whose session nothing is known."""
    record = ErrorRecord(message=error.message, timestamp=iso_time(started), code=error.code)
    is_permanent = isinstance(error, ConfigError) or error.code.endswith(_PERMANENT_CODES) or _is_permanent(record)
    return IterationResult(outcome="failed", reason=str(error), is_permanent=is_permanent)


_PERMANENT_CODES = ("NOT_FOUND", "NOT_INSTALLED", codes.INVALID_CONFIG, codes.NO_GATEWAY, codes.ROOT_REFUSED)
"""Suffixes of the codes of errors that occur before the start, and would occur again in the next attempt."""


def _is_permanent(error: ErrorRecord) -> bool:
    """Whether the next attempt would fail in the same way."""
    permanent = (NO_CREDIT, MODEL_NOT_FOUND, INVALID_OPTION, ROOT_REFUSED)
    causes = ("AUTH_FAILED", "CLI_NOT_FOUND", "VERSION_TOO_OLD")
    return error.cause in causes or (error.context or {}).get("kind") in permanent


def _classify_by_text(failed: IterationResult) -> IterationResult:
    """Recognise usage limits and permanent failures by the last lines that were printed, if there are no events."""
    last = "\n".join([line.strip() for line in failed.text.splitlines() if line.strip()][-_LAST_LINES:])
    cause, reason = find_cause(FailureEvidence(text=last)), one_line(last, 500)
    if cause is not None and cause.code == codes.RATE_LIMIT:
        resets_at = reset_time(last, datetime.now().astimezone())
        return replace(failed, outcome="usage_limit", reason=reason, resets_at=resets_at)
    if cause is not None and cause.kind in (NO_CREDIT, ROOT_REFUSED):
        return replace(failed, reason=reason, is_permanent=True)
    return failed


def _reset_in(error: ErrorRecord | None) -> float | None:
    resets_at = (error.context or {}).get("resets_at") if error else None
    return datetime.fromisoformat(resets_at).timestamp() if isinstance(resets_at, str) else None
