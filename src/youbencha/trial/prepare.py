"""Open a trial: checkout, run directory, sandbox and gateway, all before its agent starts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from youbencha.adapters import BaseAdapter, base, get_adapter
from youbencha.adapters.base import PARENT_INSTRUCTIONS
from youbencha.adapters.cli_agent.environment import fresh_home_for
from youbencha.errors import YouBenchaError
from youbencha.evaluators import get_evaluator
from youbencha.evaluators.base import AgentSandbox, EvaluatorSandbox, SandboxFactory, SandboxOptions
from youbencha.events import EventSink, PhaseStarted, ProgressNote, WorkspaceReady, notes_to
from youbencha.gateway.access import GatewayAccess
from youbencha.process import Redactor
from youbencha.sandbox.base import FORWARD_PROXY_PORT, Sandbox
from youbencha.sandbox.docker.sandbox import DockerSandbox, open_docker_sandbox
from youbencha.sandbox.forward_proxy import ForwardProxy
from youbencha.sandbox.local import HOST, open_local_sandbox
from youbencha.spec.sandbox import Network, SandboxSpec
from youbencha.store.bundle import AgentRun, SandboxReport, TestCaseInfo
from youbencha.transcript.recording import TRANSCRIPT_FILE, RecordedEvents
from youbencha.trial.agent_files import commit_files
from youbencha.trial.context import Host, TrialContext
from youbencha.trial.gateway_plan import check_models
from youbencha.trial.plan import Plan
from youbencha.trial.results import TrialRecord
from youbencha.workspace import Repository, RunDirectory, public_url
from youbencha.workspace.sanitize import sanitize_tree, strip_set_uid

if TYPE_CHECKING:
    from youbencha.trial.gateway_session import TrialGateway

_PLACEHOLDER_ACCESS = GatewayAccess("http://127.0.0.1:9", "sk-yb-not-yet")
"""Used in place of the real one to check whether the agent is ready."""


@asynccontextmanager
async def open_trial(
    plan: Plan,
    host: Host,
    *,
    directory: Path | str | None = None,
    run_id: str | None = None,
    agent: str | None = None,
    on_event: EventSink,
) -> AsyncIterator[TrialContext]:
    """Prepare a trial, and stop at the exit what runs for it. If it cannot be prepared, nothing is left behind.

    `directory` is the run directory, which must not exist; by default a new one in the plan's workspace. `run_id` must
    be unique; it defaults to the directory's name. `agent` is the name of the agent whose budget pays for it, by
    default its type.
    """
    async with AsyncExitStack() as opened:
        events = RecordedEvents(on_event)
        opened.callback(events.close)
        adapter = get_adapter(plan.case.agent.type, host.env)
        ready = asyncio.create_task(_check_ready(plan, host, adapter))
        try:
            context = await _prepare(plan, host, adapter, ready, (directory, run_id), agent, events, opened)
        finally:
            ready.cancel()
            await asyncio.gather(ready, return_exceptions=True)  # an error of the preparation comes first
        with context.directory:
            yield context


async def _prepare(
    plan: Plan,
    host: Host,
    adapter: BaseAdapter,
    ready: asyncio.Task[None],
    place: tuple[Path | str | None, str | None],
    agent: str | None,
    on_event: RecordedEvents,
    opened: AsyncExitStack,
) -> TrialContext:
    started_at = time.time()
    case = plan.case
    on_event(PhaseStarted(phase="checkout", detail=public_url(case.repo)))
    repository = await host.open_plan_repository(plan, notes_to(on_event))
    expected = None
    if case.expected is not None:
        expected = await repository.resolve(case.expected, source=case.expected_source or "branch")
    files_read = await commit_files(case.agent, adapter, repository)
    directory = _make_directory(plan, host, *place)
    try:
        await host.remove_orphaned_directories(directory)
        await repository.check_out(directory.modified)
        await ready
        sandbox = await opened.enter_async_context(
            open_agent_sandbox(
                plan.sandbox,
                host,
                adapter,
                directory,
                on_event,
                env=plan.env,
                behind_gateway=plan.gateway is not None,
                keep_files=plan.sandbox.writable and _shares_state(plan),
            )
        )
        gateway = await _open_gateway(plan, host, directory, sandbox, agent, on_event, opened)
        proxy = await open_forward_proxy(plan.sandbox, sandbox, opened)
    except BaseException:
        directory.remove()
        raise
    on_event(WorkspaceReady(directory=str(directory.path), tree=str(directory.modified)))
    redactor = Redactor.for_env(host.env, plan.env, gateway.secrets if gateway else {})
    record = _new_record(plan, repository, directory, redactor, sandbox.report(), files_read, started_at)
    on_event.record(directory.artifacts / TRANSCRIPT_FILE, redactor)
    return TrialContext(
        plan=plan,
        host=host,
        adapter=adapter,
        directory=directory,
        repository=repository,
        expected_commit=expected,
        sandbox=sandbox,
        gateway=gateway,
        proxy=proxy,
        redactor=redactor,
        record=record,
        on_event=on_event,
    )


async def _open_gateway(
    plan: Plan,
    host: Host,
    directory: RunDirectory,
    sandbox: Sandbox,
    agent: str | None,
    on_event: EventSink,
    opened: AsyncExitStack,
) -> TrialGateway | None:
    if plan.gateway is None:
        return None
    from youbencha.trial.gateway_session import open_trial_gateway

    if plan.gateway.custom_addresses:
        on_event(ProgressNote(text=f"the gateway sends requests to {', '.join(plan.gateway.custom_addresses)}"))
    kind = plan.case.agent.type
    gateway = await open_trial_gateway(plan.gateway, directory, on_event, opened, host, agent or kind)
    await gateway.issue_key(kind, sandbox)
    return gateway


async def open_forward_proxy(spec: SandboxSpec, sandbox: Sandbox, opened: AsyncExitStack) -> ForwardProxy | None:
    """Open the way to the hosts of the allowlist, if the container has no network of its own."""
    if not spec.allowlist or spec.network != "gateway":
        return None
    forwarded = sandbox.forward_port(FORWARD_PROXY_PORT)
    assert forwarded is not None, "it is a container"
    return await opened.enter_async_context(ForwardProxy(spec.allowlist, forwarded))


def _make_directory(plan: Plan, host: Host, path: Path | str | None, run_id: str | None) -> RunDirectory:
    away_from = PARENT_INSTRUCTIONS if plan.sandbox.type == "local" else ()
    if path is not None:
        return RunDirectory.create_at(path, name=run_id, cache_dir=host.cache_dir, away_from=away_from)
    name = plan.case.workspace_name
    return RunDirectory.create(plan.workspace_dir, name, cache_dir=host.cache_dir, away_from=away_from)


def _new_record(
    plan: Plan,
    repository: Repository,
    directory: RunDirectory,
    redactor: Redactor,
    sandbox: SandboxReport,
    files_read: tuple[str, ...],
    started_at: float,
) -> TrialRecord:
    agent = plan.case.agent
    record = TrialRecord(
        TestCaseInfo(
            name=plan.name,
            description=plan.case.description,
            config_file=str(plan.config_file or ""),
            config_hash=plan.config_hash,
            repo=repository.public_url,
            branch=repository.branch,
            commit=repository.commit,
            expected_branch=plan.case.expected,
        ),
        directory,
        redactor,
        expected_evaluators=len(plan.evaluators),
        started_at=started_at,
        agent=AgentRun(type=agent.type, agent_name=agent.agent_name, model=plan.model, sandbox=sandbox),
        commit_files=files_read,
    )
    record.add_phase("checkout", time.time() - started_at)
    return record


async def _check_ready(plan: Plan, host: Host, adapter: BaseAdapter) -> None:
    """Raise YouBenchaError if the agent is not installed or not logged in, or its provider does not know its model.

    Runs while the repository is fetched. The models of a run of many trials are checked before it begins.
    """
    if host.gateways is None:
        await check_models(plan.configured_models(plan.case.agent.type))
    if plan.agent_is_in_image:
        return
    limit_s = min(base.READY_TIMEOUT_S, plan.timeout_s)
    try:
        async with asyncio.timeout(limit_s):
            env = dict(plan.env)
            if plan.gateway is not None and adapter.supports_gateway:
                env |= adapter.gateway_env(_PLACEHOLDER_ACCESS, plan.model, plan.env)
            await adapter.check_ready(plan.agent_config, env)
    except TimeoutError:
        message = f"{plan.case.agent.type} did not report its version and its login within {limit_s:g} s."
        raise YouBenchaError("AGENT_NOT_READY", message, hint="`yb doctor` shows which agents can run here.") from None


@asynccontextmanager
async def open_agent_sandbox(
    spec: SandboxSpec,
    host: Host,
    adapter: BaseAdapter,
    directory: RunDirectory,
    on_event: EventSink,
    *,
    env: Mapping[str, str],
    behind_gateway: bool,
    keep_files: bool = False,
) -> AsyncIterator[Sandbox]:
    """The sandbox of an agent with the variables `env`. It can be used many times, until the end of the block."""
    if spec.type == "docker":
        async with (
            host.removing_orphaned_containers(),
            open_docker_sandbox(
                spec,
                workspace=directory.modified,
                scratch=directory.new_scratch(),
                run_id=directory.name,
                on_event=on_event,
                cache=host.cache,
                starts=host.container_starts,
                keep_files=keep_files,
            ) as sandbox,
        ):
            yield sandbox
        return
    if not fresh_home_for(adapter, spec.home, harness_env=host.env, agent_env=env, behind_gateway=behind_gateway):
        yield HOST
        return
    yield open_local_sandbox(scratch=directory.new_scratch())


def _shares_state(plan: Plan) -> bool:
    """Whether an evaluator runs with the agent's state."""
    return any(get_evaluator(entry.name).uses_agent_state(entry.config) for entry in plan.evaluators)


def agent_sandbox(context: TrialContext) -> AgentSandbox:
    """Where the agent runs, for evaluators."""
    sandbox, spec = context.sandbox, context.plan.sandbox
    return AgentSandbox(
        image=spec.image,
        workspace=sandbox.inside(context.directory.modified),
        has_network=not sandbox.is_boundary or spec.network == "open" or bool(spec.allowlist),
        home=getattr(sandbox, "home", None),
    )


def sandbox_for_evaluators(context: TrialContext) -> SandboxFactory | None:
    """Sandboxes for evaluators, as isolated as the agent's was; None if they run on the host."""
    return evaluator_sandboxes(
        context.plan.sandbox, context.host, context.directory, context.on_event, context.gateway, context.sandbox
    )


def evaluator_sandboxes(
    spec: SandboxSpec,
    host: Host,
    directory: RunDirectory,
    on_event: EventSink,
    trial_gateway: TrialGateway | None = None,
    agents: Sandbox | None = None,
) -> SandboxFactory | None:
    """Sandboxes for evaluators; None if they run on the host. `spec` is that of the agent's, `agents`."""
    if spec.type == "local":
        return None
    # The user's own repository keeps its configuration.
    sanitize = sanitize_tree if directory.owns_tree else strip_set_uid
    sanitizing = asyncio.Lock()

    @asynccontextmanager
    async def opened(
        tree: Path,
        gateway: GatewayAccess | None = None,
        options: SandboxOptions = SandboxOptions(),  # noqa: B008 - immutable
    ) -> AsyncIterator[EvaluatorSandbox]:
        network: Network = options.network or ("open" if spec.network == "open" else "gateway" if gateway else "none")
        state = agents if options.agent_state and isinstance(agents, DockerSandbox) else None
        try:
            async with open_docker_sandbox(
                spec.model_copy(update={"network": network, "image": options.image or spec.image}),
                workspace=tree,
                scratch=state.scratch if state else directory.new_scratch(),
                run_id=directory.name,
                on_event=on_event,
                cache=host.cache,
                starts=host.container_starts,
                files_of=state,
            ) as sandbox:
                if tree == directory.modified and isinstance(agents, DockerSandbox):  # it may run the agent's programs
                    for path in agents.mounts.protected:
                        sandbox.protect(path)
                access = None
                if trial_gateway is not None and gateway is not None:
                    access = await trial_gateway.expose_in(sandbox, gateway)
                yield EvaluatorSandbox(sandbox, access)
        finally:
            if tree == directory.modified:
                async with sanitizing:
                    await asyncio.to_thread(sanitize, tree)

    return opened
