"""Give a trial its gateway: a key for the agent, and one for each evaluator."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from youbencha.events import EventSink
from youbencha.files import write_atomically
from youbencha.gateway.access import GatewayAccess
from youbencha.gateway.cassette.matching import Places
from youbencha.gateway.keys import EndedKey, KeyWarning, TrialKeys
from youbencha.log.model import Usage
from youbencha.process import Redactor
from youbencha.sandbox.base import GATEWAY_PORT, Sandbox
from youbencha.sandbox.local import HOST
from youbencha.store.bundle import GatewayReport
from youbencha.trial.budgets import RUN_ACCOUNT
from youbencha.trial.context import Host
from youbencha.trial.gateway_keys import open_keys
from youbencha.trial.gateway_plan import GatewayPlan
from youbencha.trial.remote_gateways import RemoteGateways
from youbencha.workspace import RunDirectory

if TYPE_CHECKING:
    from youbencha.gateway.cassette.mismatch import Mismatch

_MAX_MISMATCH_FILES = 10
"""The first shows the cause; the others are usually consequences."""


async def open_trial_gateway(
    plan: GatewayPlan,
    directory: RunDirectory,
    on_event: EventSink,
    opened: AsyncExitStack,
    host: Host,
    budget: str,
) -> TrialGateway:
    """Open a trial's gateway until its `close`, or until `opened` is closed. `issue_key` then lets the agent use it.

    It is that of the driver, if this host is a node. `budget` names the agent whose budget pays for it.
    """
    secrets = plan.secrets
    keys: TrialKeys
    if isinstance(host.gateways, RemoteGateways):
        keys = await host.gateways.open_keys(opened)
        secrets = {**secrets, **host.gateways.secrets}
    else:
        keys = await open_keys(
            plan,
            host,
            agent=budget,
            run=directory.name,
            artifacts=directory.artifacts,
            on_event=on_event,
            opened=opened,
        )
    return TrialGateway(keys, secrets, directory, host.env)


def _places_in(directory: RunDirectory, sandbox: Sandbox, harness_env: Mapping[str, str]) -> Places:
    """Directories that a cassette replaces with placeholders, as the agent sees them."""
    env = sandbox.environment(harness_env)
    paths = {
        "workspace": Path(sandbox.inside(directory.modified)),
        "run": directory.path,
        "private": directory.private,
        "temp": directory.scratch,
        "home": Path(env.get("HOME") or Path.home()),
        "tmp": Path(env.get("TMPDIR") or tempfile.gettempdir()),
    }
    return Places(tuple(paths.items()))


@dataclass
class EvaluatorAccess:
    """An evaluator's key, and what it used once it is done."""

    access: GatewayAccess
    usage: Usage | None = None


class TrialGateway:
    """The gateway as a trial uses it: keys, where sandboxes reach it, and what went through it."""

    access: GatewayAccess
    """The agent's."""

    def __init__(
        self, keys: TrialKeys, secrets: Mapping[str, str], directory: RunDirectory, env: Mapping[str, str]
    ) -> None:
        self.stop = keys.stop
        """Set when the agent cannot continue: its requests are refused for good, or the gateway is gone."""
        self._keys = keys
        self._secrets = secrets
        self._directory = directory
        self._env = env
        self._redactor = Redactor.for_env(env, secrets)
        self._issued: list[GatewayAccess] = []
        self._exposed: set[Path] = set()
        self._agent: EndedKey | None = None
        self._evaluators_exceeded = False
        self._mismatches: tuple[str, ...] = ()

    async def issue_key(self, agent: str, sandbox: Sandbox) -> None:
        """Issue the agent's key, which is valid in its sandbox only. `agent` is its name in the ledger.

        After `end_agent`, another can be issued, for the agent's next session.
        """
        if self._agent is not None:
            self._issued = [each for each in self._issued if each.key != self.access.key]
            self._agent, self._mismatches = None, ()
        forwarded = sandbox.forward_port(GATEWAY_PORT)
        issued = await self._keys.issue(
            "agent",
            agent,
            places=_places_in(self._directory, sandbox, self._env),
            peers=None if forwarded is None else frozenset({str(forwarded.socket)}),
        )
        self._issued.append(issued)
        self.access = await self.expose_in(sandbox, issued)

    @property
    def secrets(self) -> Mapping[str, str]:
        """Values to redact in everything that is written."""
        keys = {f"GATEWAY_VIRTUAL_KEY_{number}": each.key for number, each in enumerate(self._issued)}
        return {**self._secrets, **keys}

    @property
    def budget_is_spent(self) -> bool:
        """Whether a budget that the agent shares with others has refused one of its requests."""
        budget = self._agent.report.budget if self._agent else None
        return budget is not None and budget.refused_by == RUN_ACCOUNT

    async def expose_in(self, sandbox: Sandbox, access: GatewayAccess) -> GatewayAccess:
        """Make the gateway reachable in a sandbox; return the key with its address there."""
        forwarded = sandbox.forward_port(GATEWAY_PORT)
        if forwarded is None:
            return access
        if forwarded.socket not in self._exposed:
            await self._keys.listen_on(forwarded.socket)
            self._exposed.add(forwarded.socket)
        return access._replace(url=f"http://{forwarded.address}")

    async def end_agent(self) -> None:
        """End the agent's key. May be called again if it was cancelled.

        Raises YouBenchaError if the gateway has failed: nothing was measured then.
        """
        if self._agent is None:
            self._agent = await self._keys.end(self.access.key)

    def report(self) -> GatewayReport:
        """Report the agent's requests, once the agent has ended and the run directory is reclaimed."""
        assert self._agent is not None
        report = self._agent.report
        self._mismatches = self._write_mismatches(self._agent.mismatches, self._directory.artifacts)
        if report.cassette is None:
            return report
        cassette = report.cassette.model_copy(update={"mismatches": self._mismatches})
        return report.model_copy(update={"cassette": cassette})

    def findings(self) -> Iterator[KeyWarning]:
        """Warnings about the agent's requests."""
        assert self._agent is not None
        if self._mismatches:
            summary = self._redactor.text(self._agent.mismatches[0].summary)
            yield KeyWarning("CASSETTE_MISMATCH", f"{summary} (full diff: artifacts/{self._mismatches[0]})")
        if why := self._agent.cassette_doubts:
            yield KeyWarning("CASSETTE_INCOMPLETE", f"a replay may fail: {why}")

    @asynccontextmanager
    async def key_for(self, name: str) -> AsyncIterator[EvaluatorAccess]:
        """Issue a key for an evaluator. Its usage is not the agent's, but counts against the total budget."""
        places = _places_in(self._directory, HOST, self._env)
        access = EvaluatorAccess(await self._keys.issue("evaluator", name, places=places))
        self._issued.append(access.access)
        try:
            yield access
        finally:
            ended = await self._keys.end(access.access.key)
            if ended.report.models:
                access.usage = ended.report.usage
            self._evaluators_exceeded |= ended.total_exceeded
            self._write_mismatches(ended.mismatches, self._directory.artifacts / "evaluators" / name)

    async def close(self) -> list[KeyWarning]:
        """Close what belongs to this trial only. Returns warnings."""
        budget = self._agent.report.budget if self._agent else None
        spent_by_agent = budget is not None and budget.exceeded
        warnings = await self._keys.close()
        if self._evaluators_exceeded and not spent_by_agent:
            return [KeyWarning("BUDGET_EXCEEDED", "the evaluators exceeded the run's total budget"), *warnings]
        return warnings

    def _write_mismatches(self, mismatches: Sequence[Mismatch], directory: Path) -> tuple[str, ...]:
        """Write how each unmatched request differs from what was recorded; return the files' names."""
        names = []
        for number, mismatch in enumerate(mismatches[:_MAX_MISMATCH_FILES], start=1):
            names.append(f"cassette-mismatch-{number}.diff")
            write_atomically(directory / names[-1], self._redactor.text(mismatch.text).encode("utf-8", "replace"))
        return tuple(names)
