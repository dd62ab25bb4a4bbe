"""`Host`, which the trials of a process share, and `TrialContext`, the state of one trial."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from youbencha.adapters import BaseAdapter
from youbencha.adapters.base import InstalledFiles
from youbencha.evaluators.base import SharedResults
from youbencha.events import PhaseStarted, ProgressNote, StepProgress, WarningRaised
from youbencha.process import Redactor
from youbencha.sandbox.base import Sandbox
from youbencha.sandbox.docker.ownership import reap_containers
from youbencha.sandbox.forward_proxy import ForwardProxy
from youbencha.spec.settings import LoadedSettings
from youbencha.store.prune import remove_all_orphaned
from youbencha.transcript.recording import RecordedEvents
from youbencha.trial.gateways import LOOPBACK, Budgets, SharedGateways
from youbencha.trial.results import TrialRecord
from youbencha.user_dirs import Cache, default_cache_dir
from youbencha.workspace import Repository, RunDirectory, Snapshot, open_repository
from youbencha.workspace.overlay import Overlay
from youbencha.workspace.source import Refs, RemoteUrl, read_source

if TYPE_CHECKING:
    from youbencha.trial.gateway_session import RemoteGateways, TrialGateway
    from youbencha.trial.plan import Plan  # a cycle


class Host:
    """The process that trials run in. Make one for an event loop, and give it to each trial.

    Branches and tags of a repository are read once, so that all trials of a host start from the same commit.
    """

    def __init__(self, env: Mapping[str, str], settings: LoadedSettings, *, cleanup: bool = True) -> None:
        self.env = env
        """Agents, evaluators and hooks take their variables from it, and secrets in it are masked.

        This process's own environment is used only for git, the container engine, proxies, certificates, and the home
        directory that holds the toolbox.
        """
        self.settings = settings
        self.gateways: SharedGateways | RemoteGateways | None = None
        """Shared by the trials of a run, see `sharing`; on a node, the driver's. None: each trial has its own."""
        self.container_starts: asyncio.Semaphore | None = None
        """Limits how many containers start at the same time."""
        self.shared = SharedResults()
        """Results that the evaluators of all trials share."""
        self._cleanup = cleanup
        self._cleaned: set[tuple[Path, Path]] = set()
        self._containers_removed = False
        self._refs: dict[Path | RemoteUrl, Refs] = {}
        self._opening: dict[Path | RemoteUrl, asyncio.Lock] = {}

    @contextlib.asynccontextmanager
    async def sharing(
        self,
        plans: Iterable[tuple[str, Plan]],
        *,
        log_dir: Path,
        container_starts: int | None = None,
        listen: str = LOOPBACK,
    ) -> AsyncIterator[Budgets]:
        """Let trials share gateways and budgets during the block: those of all plans, each with its agent's name.

        Each trial has its own keys and ledger. One with a cassette also has its own gateway. LiteLLM's logs are written
        to `log_dir`. At most `container_starts` containers start at the same time; None: any number. `listen` is the
        gateways' address; `remote_gateways.lend` needs one that nodes reach.
        """
        budgets = Budgets((agent, plan.gateway) for agent, plan in plans if plan.gateway is not None)
        self.container_starts = asyncio.Semaphore(container_starts) if container_starts else None
        try:
            async with self.sharing_budgets(budgets, log_dir=log_dir, listen=listen):
                yield budgets
        finally:
            self.container_starts = None

    @contextlib.asynccontextmanager
    async def sharing_budgets(self, budgets: Budgets, *, log_dir: Path, listen: str = LOOPBACK) -> AsyncIterator[None]:
        """Let everything that runs during the block share gateways and these budgets; otherwise as `sharing`."""
        self.gateways = shared = SharedGateways(budgets, log_dir, listen)
        try:
            yield
        finally:
            self.gateways = None
            await shared.aclose()

    @property
    def cache_dir(self) -> Path:
        return self.settings.cache_dir or default_cache_dir()

    @cached_property
    def cache(self) -> Cache:
        """What all trials of this host can do without."""
        return Cache(self.cache_dir)

    async def open_repository(
        self, source: str, *, base: Path, branch: str | None, commit: str | None, progress: StepProgress
    ) -> Repository:
        """Open a repository as `workspace.open_repository` does, without fetching known references again."""
        origin = read_source(source, base)
        async with self._opening.setdefault(origin, asyncio.Lock()):
            repository = await open_repository(
                source,
                base=base,
                cache_dir=self.cache_dir,
                branch=branch,
                commit=commit,
                refs=self._refs.get(origin),
                progress=progress,
            )
            if repository.refs is not None:
                self._refs[origin] = repository.refs
        return repository

    async def open_plan_repository(self, plan: Plan, progress: StepProgress) -> Repository:
        """Open the repository that a plan's trials start from."""
        case = plan.case
        return await self.open_repository(
            case.repo, base=plan.config_dir, branch=case.branch, commit=case.commit, progress=progress
        )

    async def remove_orphaned_directories(self, directory: RunDirectory) -> None:
        """Remove what dead runs left next to this run's directories, once for each parent directory."""
        parents = (directory.path.parent, directory.private.parent)
        if self._cleanup and parents not in self._cleaned:
            self._cleaned.add(parents)
            await asyncio.to_thread(remove_all_orphaned, *parents)

    @contextlib.asynccontextmanager
    async def removing_orphaned_containers(self) -> AsyncIterator[None]:
        """Remove containers of dead runs in the background, once; again only if the block ended before."""
        if not self._cleanup or self._containers_removed:
            yield
            return
        self._containers_removed = True
        removing = asyncio.create_task(reap_containers())
        try:
            yield
        finally:
            self._containers_removed = removing.done()
            removing.cancel()
            await asyncio.gather(removing, return_exceptions=True)  # its failure is not the trial's


@dataclass(kw_only=True)
class TrialContext:
    """One trial from its checkout to its results. Made by `open_trial`."""

    plan: Plan
    host: Host
    adapter: BaseAdapter
    directory: RunDirectory
    repository: Repository
    expected_commit: str | None
    """The commit with the expected result."""
    sandbox: Sandbox
    gateway: TrialGateway | None
    """None: the agent reaches its model directly."""
    proxy: ForwardProxy | None
    """To the hosts of the sandbox's allowlist, if there is one."""
    redactor: Redactor
    """Knows every secret of the trial."""
    record: TrialRecord
    on_event: RecordedEvents
    start: Snapshot | None = None
    """The tree when the agent begins. None before that, and after the comparison."""
    installed: InstalledFiles | None = None
    """The agent's files in its home. None if it has none."""
    overlay: Overlay | None = None
    """The agent's files over the checkout, while they are there or may be."""
    reclaimed: bool = False
    """Whether the agent has ended and the run directory was restored."""
    digest: asyncio.Task[str | None] | None = field(default=None, repr=False)
    """The SHA-256 of the agent's executable."""

    def warn(self, code: str, message: str) -> None:
        self.record.warn(code, message)
        self.on_event(WarningRaised(code=code, message=message))

    def note(self, text: str) -> None:
        self.on_event(ProgressNote(text=text))

    @contextlib.contextmanager
    def phase(self, name: str, detail: str = "") -> Iterator[None]:
        """Announce a phase, and record how long it takes."""
        self.on_event(PhaseStarted(phase=name, detail=detail))
        started = time.monotonic()
        try:
            yield
        finally:
            self.record.add_phase(name, time.monotonic() - started)
