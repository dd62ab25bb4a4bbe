"""The runs below some paths: list them, open one, and look again at those that are still running."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import get_args

from youbencha.errors import YouBenchaError
from youbencha.locks import is_locked
from youbencha.log.model import YouBenchaLog
from youbencha.store.arena import TrialKey
from youbencha.store.arena_run import ArenaRun
from youbencha.store.bundle import OutcomeName, ResultsBundle
from youbencha.store.layout import LATEST, LOG_FILE, META_FILE, RECORDING_FILE, STATE_FILE, TRIALS_DIR
from youbencha.store.locate import RunKind, StoredRun, find_run, list_runs
from youbencha.store.loop_lock import running_loop
from youbencha.store.loops import LoopHistory, read_loop, read_state
from youbencha.store.read import ArenaResults, FileCache, load_log, load_results, load_runs
from youbencha.transcript.recording import TRANSCRIPT_FILE
from youbencha.workspace.run_dir import ARTIFACTS, LOCK

KINDS: tuple[RunKind, ...] = get_args(RunKind)


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """One line about a run. Unknown is None."""

    run: StoredRun
    began: datetime
    state: str
    """`running`, `interrupted`, `died` or `unreadable`; else the verdict of a single run, the outcome of a loop, and
    `finished` or `unfinished` for a run of many trials."""
    title: str | None = None
    """The name of the test case, the arena's file, the objective of the loop."""
    agent: str | None = None
    agent_version: str | None = None
    model: str | None = None
    outcome: OutcomeName | None = None
    valid: bool | None = None
    total_tokens: int | None = None
    cost_usd: float | None = None
    partial: bool | None = None
    """Tokens and cost are lower bounds."""
    duration_ms: int | None = None
    finished: int | None = None
    """Trials, or iterations of a loop."""
    planned: int | None = None


class Store:
    """The runs below some paths, of all kinds. A file that has not changed is read once."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self._roots = tuple(roots)
        self._cache = FileCache()

    def runs(self, kinds: Sequence[RunKind] = KINDS) -> list[StoredRun]:
        """Return the runs, the newest first. Their results are not read."""
        return list_runs(self._roots, kinds)

    def find(self, which: str = LATEST, kinds: Sequence[RunKind] = KINDS) -> StoredRun:
        """Find a run by its path, its name, the start of its name, or as the `latest`. Raises `RUN_NOT_FOUND`."""
        return find_run(which, self._roots, kinds)

    def summaries(self, newest: int | None = None, kinds: Sequence[RunKind] = KINDS) -> list[RunSummary]:
        """Summarize the newest runs, including those that died or cannot be read."""
        return [self.summary(run) for run in self.runs(kinds)[:newest]]

    def summary(self, run: StoredRun) -> RunSummary:
        match run.kind:
            case "run":
                return self._summarize_single(run)
            case "arena":
                return self._summarize_arena(run)
            case "loop":
                return self._summarize_loop(run)

    def results(self, run: StoredRun) -> ResultsBundle:
        """Load the results of a single run. Raises `RESULTS_NOT_FOUND` or `RESULTS_INVALID`."""
        bundle = self._cache.load(run.results, lambda: load_results(run.results))
        # Until it is complete, its usage comes from the ledger, which grows.
        return bundle if bundle.execution.complete else load_results(run.results)

    def log(self, run: StoredRun) -> YouBenchaLog:
        """Load the log of a single run. Raises `LOG_NOT_FOUND` or `LOG_INVALID`."""
        artifacts = run.path / ARTIFACTS
        return self._cache.load(artifacts / LOG_FILE, lambda: load_log(artifacts))

    def arena(self, run: StoredRun) -> ArenaResults:
        """Load a run of many trials. Called again, it only reads trials that are new or have changed."""
        return load_runs([run.path], self._cache)

    def attempts(self, run: StoredRun, key: TrialKey) -> list[StoredRun]:
        """Return the attempts of a trial, of which the first counts, as single runs."""
        trial = ArenaRun(run.path).trial(key)
        return [StoredRun(run.began, 0, trial.attempt(number)) for number in reversed(trial.attempts())]

    def transcript_file(self, run: StoredRun) -> Path:
        """Return the recorded events of a single run or a loop, for a `TranscriptReader`. It may not exist yet."""
        return run.path / RECORDING_FILE if run.kind == "loop" else run.path / ARTIFACTS / TRANSCRIPT_FILE

    def loop(self, run: StoredRun) -> LoopHistory:
        """Load the state and the iterations of a loop. Raises `LOOP_STATE_UNUSABLE`."""
        return read_loop(run.tree, run.name)

    def _summarize_single(self, run: StoredRun) -> RunSummary:
        began = datetime.fromtimestamp(run.began).astimezone()
        try:
            bundle = self.results(run) if run.has_results() else None
        except YouBenchaError:
            return RunSummary(run=run, began=began, state="unreadable")
        state = _single_run_state(run.path, bundle)
        if bundle is None:
            return RunSummary(run=run, began=began, state=state)
        agent, outcome = bundle.agent, bundle.outcome
        usage = agent.usage if agent else None
        return RunSummary(
            run=run,
            began=began,
            state=state,
            title=bundle.test_case.name,
            agent=agent.type if agent else None,
            agent_version=agent.version if agent else None,
            model=agent.model if agent else None,
            outcome=outcome.name if outcome else None,
            valid=outcome.valid if outcome else None,
            total_tokens=usage.total_tokens if usage else None,
            cost_usd=usage.cost_usd if usage else None,
            partial=usage.partial if usage else None,
            duration_ms=bundle.execution.duration_ms if bundle.execution.complete else None,
        )

    def _summarize_arena(self, run: StoredRun) -> RunSummary:
        finished = sum(1 for _ in run.path.glob(f"{TRIALS_DIR}/*/*/trial-*/{META_FILE}"))
        try:
            info = ArenaRun(run.path).info()
        except YouBenchaError:
            info = None
        is_finished = info is None or finished >= info.total
        state = "running" if is_locked(run.path / LOCK) else "finished" if is_finished else "unfinished"
        return RunSummary(
            run=run,
            began=datetime.fromtimestamp(run.began).astimezone(),
            state=state,
            title=Path(info.config_file).name if info and info.config_file else None,
            finished=finished,
            planned=info.total if info else None,
        )

    def _summarize_loop(self, run: StoredRun) -> RunSummary:
        began = datetime.fromtimestamp(run.began).astimezone()
        try:
            state = self._cache.load(run.path / STATE_FILE, lambda: read_state(run.tree, run.name))
        except YouBenchaError:
            return RunSummary(run=run, began=began, state="unreadable")
        running = running_loop(run.tree)
        return RunSummary(
            run=run,
            began=began,
            state=state.outcome or ("running" if running and running.loop_id in (None, run.name) else "died"),
            title=state.objective,
            agent=state.last.backend if state.last else None,
            model=state.last.model if state.last else None,
            cost_usd=state.cost_usd,
            duration_ms=state.elapsed_ms,
            finished=state.iterations,
        )


def _single_run_state(path: Path, bundle: ResultsBundle | None) -> str:
    """Results are written from the start, so that a kill loses nothing, but have a verdict only at the end."""
    if bundle is not None and bundle.execution.interrupted:
        return "interrupted"
    if bundle is not None and bundle.execution.complete:
        return bundle.summary.overall_status
    if not os.access(path, os.R_OK | os.X_OK):
        return "unreadable"
    return "running" if is_locked(path / LOCK) else "died"
