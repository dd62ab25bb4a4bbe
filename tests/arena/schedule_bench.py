"""Schedules without processes: matrices of any size, and trials whose results are known beforehand."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from engine_bench import EngineBench

from youbencha.engine.matrix import Cell, Matrix
from youbencha.engine.schedule import Schedule, ScheduledTrial
from youbencha.engine.updates import ComparisonState
from youbencha.store.arena import TrialKey, TrialMeta

Result = Callable[[TrialKey], float | None]
"""The score of a trial; None if it is not valid."""


def cells_of(directory: Path, agents: list[str], tasks: int, providers: Mapping[str, str] | None) -> tuple[Cell, ...]:
    bench = EngineBench(directory)
    host = bench.host({"ANTHROPIC_BASE_URL": "http://127.0.0.1:1", "ANTHROPIC_API_KEY": "sk-ant-dummy-0123456789"})
    one = bench.cell(host, "agent", "task", gateway="builtin")
    assert one.plan.gateway is not None
    plans = {
        agent: replace(one.plan, gateway=replace(one.plan.gateway, provider=(providers or {}).get(agent)))
        for agent in agents
    }
    return tuple(
        replace(one, orchestrator=agent, task=f"task-{task}", plan=plans[agent])
        for task in range(1, tasks + 1)
        for agent in agents
    )


def matrix_of(
    directory: Path,
    agents: list[str],
    tasks: int,
    *,
    trials: int = 1,
    providers: Mapping[str, str] | None = None,
    baselines: Mapping[str, str] | None = None,
) -> Matrix:
    return Matrix(cells=cells_of(directory, agents, tasks, providers), trials=trials, baselines=baselines or {})


class Simulation:
    """Runs a schedule as the engine does, several trials at a time; they end in a random order."""

    def __init__(
        self, schedule: Schedule, result: Result, *, parallel: int = 8, seed: int = 0, skipped: str | None = None
    ) -> None:
        """`skipped` is an orchestrator whose trials cannot run."""
        self.schedule = schedule
        self.finished: dict[TrialKey, TrialMeta] = {}
        self.states: list[ComparisonState] = []
        self.most_running = 0
        self._result = result
        self._parallel = parallel
        self._skipped = skipped
        self._random = random.Random(seed)

    def run(self, most: int | None = None) -> dict[tuple[str, str], ComparisonState]:
        """Run all trials, or be killed after so many."""
        self.schedule.start(self.finished)
        running: list[ScheduledTrial] = []
        while most is None or len(self.finished) < most:
            while len(running) < self._parallel and (due := self.schedule.next(lambda _: True)):
                assert due.key not in self.finished
                if due.key.orchestrator == self._skipped:
                    self.states += self.schedule.skip(due.key)
                else:
                    running.append(due)
            self.most_running = max(self.most_running, len(running))
            if not running:
                break
            key = running.pop(self._random.randrange(len(running))).key
            self.finished[key] = make_trial(key, self._result(key))
            self.states += self.schedule.finish(self.finished[key])
        return {(comparison.first, comparison.second): comparison for comparison in self.schedule.comparisons}


def make_trial(key: TrialKey, score: float | None) -> TrialMeta:
    return TrialMeta(
        orchestrator=key.orchestrator,
        task=key.task,
        trial=key.number,
        outcome="infra_error" if score is None else "solved" if score == 1 else "unsolved",
        valid=score is not None,
        composite_score=score,
    )


def chance(rates: Mapping[str, float], *, seed: int = 0) -> Result:
    """Solved with the agent's success rate; the same trial always has the same result."""
    return lambda key: float(random.Random(f"{seed}{key}").random() < rates[key.orchestrator])
