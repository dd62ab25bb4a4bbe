"""Run the agent of a trial, and reclaim the run directory when it has ended.

The order matters: the agent's processes are frozen, its key is ended, the run directory is reclaimed, the gateway
reports, and only then is the log normalised.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from pathlib import Path, PurePath

from youbencha.adapters import AgentExecutionContext
from youbencha.errors import YouBenchaError
from youbencha.events import Event, ProcessStarted
from youbencha.files import open_file, replace_atomically
from youbencha.log.model import YouBenchaLog
from youbencha.log.session import CallMetered
from youbencha.sandbox.base import Sandbox
from youbencha.store.bundle import GatewayReport
from youbencha.text import first_few, plural
from youbencha.trial.agent_files import give_files
from youbencha.trial.context import TrialContext
from youbencha.trial.gateway_session import reconciled, tokens_outside_gateway
from youbencha.user_dirs import Cache

_SHOWN_HOSTS = 10
_SMALL_BYTES = 1_000_000
"""Below this, caching a digest costs more than reading the file."""
_MAX_DIGEST_BYTES = 4 * 1024**3
"""An agent in the workspace can replace itself by a sparse file of terabytes."""


async def run_agent(context: TrialContext) -> YouBenchaLog:
    """Run the agent. If it cannot be started, remove the run directory and raise YouBenchaError."""
    directory = context.directory
    with context.phase("agent", context.plan.case.agent.type):
        try:
            if context.plan.case.agent.has_files or context.plan.case.agent.without:
                await give_files(context)
            execution = _execution_context(context)
            directory.hand_over()
            result = await context.adapter.execute(execution)
        except YouBenchaError:
            directory.remove()
            raise
        await end_agent(context)
        if result.status != "success" and context.record.gateway is not None:
            _check_model(context, context.record.gateway)
        log = context.adapter.normalize_log(result, execution)
        context.on_event.complete(log)
        if context.record.gateway is not None:
            log = _reconcile(context, log, context.record.gateway)
        try:
            context.record.save_log(log)
            context.record.save_metrics()
        except YouBenchaError as error:  # the agent did run, so this is a result
            context.record.failure = error.message
            context.warn(error.code, error.message)
    return log


def _check_model(context: TrialContext, report: GatewayReport) -> None:
    """Raise if no agent could use the configured model, which is an error in the configuration."""
    if report.unusable_model is not None:
        context.directory.remove()
        hint = "Correct `model`, or add it to the key's account; for a price, see gateway.prices."
        raise YouBenchaError("MODEL_UNUSABLE", report.unusable_model, hint=hint)


def _execution_context(context: TrialContext) -> AgentExecutionContext:
    plan, directory = context.plan, context.directory
    return AgentExecutionContext(
        workspace_dir=directory.modified,
        repo_dir=directory.modified,
        artifacts_dir=directory.artifacts,
        config=plan.agent_config,
        timeout=round(plan.timeout_s * 1000),
        env={**context.proxy.variables, **plan.env} if context.proxy else plan.env,
        model=plan.model,
        config_dir=plan.config_dir,
        on_event=lambda event: _on_agent_event(context, event),
        gateway=context.gateway.access if context.gateway else None,
        sandbox=context.sandbox,
        scratch_dir=directory.scratch,
        files=context.installed,
        stop=context.gateway.stop if context.gateway else None,
    )


async def end_agent(context: TrialContext) -> None:
    """Freeze the sandbox, end the agent's key, and reclaim the run directory. May be called again."""
    try:
        await context.sandbox.freeze()
    except YouBenchaError as error:  # no process is left in it, because its `run` has returned
        context.record.failure = f"The sandbox could not be closed: {error.message}"
        context.warn(error.code, context.record.failure)
    _note_denied_hosts(context)
    gateway = context.gateway
    if gateway is None or context.record.gateway is not None:
        reclaim(context)
        return
    await gateway.end_agent()
    reclaim(context)
    context.record.set_gateway(gateway.report())
    for code, message in gateway.findings():
        context.warn(code, message)


def _note_denied_hosts(context: TrialContext) -> None:
    proxy, sandbox = context.proxy, context.record.sandbox
    if proxy is None or sandbox is None or sandbox.denied is not None:
        return
    denied = proxy.denied()
    context.record.set_sandbox(sandbox.model_copy(update={"denied": denied}))
    if denied:
        hosts = first_few([f"{host.host} ({plural(host.attempts, 'attempt')})" for host in denied], _SHOWN_HOSTS)
        context.warn("NETWORK_DENIED", f"The agent tried to reach hosts outside the allowlist: {hosts}")


def reclaim(context: TrialContext) -> None:
    """Undo, once, what the agent did outside of its tree, before anything there is used."""
    if context.reclaimed:
        return
    context.reclaimed = True
    for finding in context.directory.reclaim():
        context.warn("WORKSPACE_TAMPERED", finding)


def _reconcile(context: TrialContext, log: YouBenchaLog, report: GatewayReport) -> YouBenchaLog:
    log, report = reconciled(log, report)
    context.record.set_gateway(report)
    if beyond := tokens_outside_gateway(report.difference):
        message = (
            f"The agent reports {beyond:,} more tokens than the gateway measured. "
            "It may have reached a model directly, bypassing every budget."
        )
        context.warn("USAGE_UNACCOUNTED", message)
    return log


def _on_agent_event(context: TrialContext, event: Event) -> None:
    if isinstance(event, ProcessStarted) and context.record.bundle.identity.agent_executable is None:
        context.record.set_executable(event.executable)
        if (program := _host_path(event.executable, context.sandbox)) is not None:
            context.digest = asyncio.create_task(asyncio.to_thread(cached_sha256, program, context.host.cache))
    if not (isinstance(event, CallMetered) and context.gateway):  # the gateway reports each call
        context.on_event(event)


def _host_path(program: str, sandbox: Sandbox) -> Path | None:
    """Return the host's path of a program; None if it belongs to a container's image, or is only a name on the PATH."""
    return sandbox.outside(program) if PurePath(program).is_absolute() else None


def cached_sha256(path: Path, cache: Cache) -> str | None:
    """The digest of an executable; None if it cannot be read.

    It is cached until the file changes, so that a CLI of 300 MB is read once and not in every trial. Trials that start
    at the same time wait for the first of them.
    """
    try:
        with open_file(path) as file:
            state = os.fstat(file.fileno())
            if state.st_size < _SMALL_BYTES:
                return hashlib.sha256(file.read(_SMALL_BYTES) or b"").hexdigest()
            cached = cache.directory / "digests" / hashlib.sha256(bytes(path.absolute())).hexdigest()
            version = f"{state.st_size} {state.st_mtime_ns} {state.st_ctime_ns} {state.st_ino}"
            if state.st_size > _MAX_DIGEST_BYTES:
                return None
            known = str(path.absolute()), version
            with _computing:
                if digest := _cached_digest(cached, version) or _digests.get(known):
                    return digest
                digest = _digests[known] = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
    with cache.writing():
        cached.parent.mkdir(parents=True, exist_ok=True)
        replace_atomically(cached, f"{version}\n{digest}\n".encode())
    return digest


_digests: dict[tuple[str, str], str] = {}
"""Digests computed in this process, by path and state of the file: the cache may be unwritable."""
_computing = threading.Lock()


def _cached_digest(cached: Path, version: str) -> str | None:
    try:
        cached_version, digest = cached.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return None
    return digest if cached_version == version and len(digest) == hashlib.sha256().digest_size * 2 else None
