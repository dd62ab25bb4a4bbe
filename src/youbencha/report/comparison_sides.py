"""The two sides of a comparison: the trials of each, and their figures by task."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.report.arena_selection import Exclusion, exclude, newest_only
from youbencha.report.contestants import Contestant, Pair
from youbencha.report.leaderboard import SOLVED, Row, TrialCoverage, capped_score, count_trials, listed, make_row
from youbencha.stats.comparison import AgentTrials, TaskTrials
from youbencha.store.arena import TrialMeta
from youbencha.store.read import ArenaResults, ArenaTrial
from youbencha.text import one_line, plural

Figure = Callable[[TrialMeta], float | None]
"""Returns a figure of a trial; None if it is not known."""


class SelectedResults(NamedTuple):
    """The trials of one source that count."""

    results: ArenaResults
    exclusions: tuple[Exclusion, ...]
    superseded: int


def select_results(results: ArenaResults, rules: Sequence[str]) -> SelectedResults:
    """Choose as for a leaderboard: of several runs, only the newest of the same trial."""
    results, exclusions = exclude(results, rules)
    results, superseded = newest_only(results) if len(results.runs) > 1 else (results, 0)
    return SelectedResults(results, exclusions, superseded)


class Side:
    """The trials of one contestant."""

    def __init__(self, contestant: Contestant, name: str, results: ArenaResults) -> None:
        self.contestant = contestant
        self.name = name
        self._results = results
        self.trials = sorted(
            (trial for trial in results.trials if trial.meta.orchestrator == contestant.orchestrator),
            key=lambda trial: (trial.meta.task, trial.meta.trial, trial.run),
        )

    @cached_property
    def by_task(self) -> dict[str, list[ArenaTrial]]:
        by_task: dict[str, list[ArenaTrial]] = defaultdict(list)
        for trial in self.trials:
            by_task[trial.meta.task].append(trial)
        return by_task

    @cached_property
    def scored(self) -> frozenset[str]:
        """The tasks with a valid score."""
        return frozenset(task for task, trials in self.by_task.items() if known_figures(trials, capped_score))

    @cached_property
    def missing(self) -> Counter[str]:
        """How many planned trials of each task have no valid result."""
        invalid = Counter(trial.meta.task for trial in self.trials if trial.meta.valid is False)
        return invalid + Counter(
            trial.key.task
            for trial in self._results.unfinished
            if trial.key.orchestrator == self.contestant.orchestrator
        )

    @property
    def tasks(self) -> frozenset[str]:
        """The tasks for which it has a result, or should have one."""
        return frozenset(self.missing) | {task for task, trials in self.by_task.items() if trials}

    @property
    def runs(self) -> frozenset[str]:
        """The runs that its trials come from, including those they were reused from."""
        return frozenset(run for trial in self.trials for run in (trial.run, trial.meta.reused_from) if run)

    def coverage(self) -> TrialCoverage:
        unfinished = sum(trial.key.orchestrator == self.contestant.orchestrator for trial in self._results.unfinished)
        return count_trials([trial.meta for trial in self.trials], unfinished if self._results.planned_known else None)

    def figures(self, tasks: Iterable[str]) -> Row:
        metas = [trial.meta for task in tasks for trial in self.by_task[task]]
        return make_row((self.contestant.orchestrator, None, None), metas, None, None)

    def agent_trials(self, task: str, figure: Figure) -> AgentTrials:
        trials = self.by_task.get(task, ())
        return AgentTrials(
            scores=known_figures((trial for trial in trials if not trial.meta.retried), figure),
            retried=known_figures((trial for trial in trials if trial.meta.retried), figure),
            missing=self.missing[task],
        )

    def notes(self) -> Iterable[str]:
        if unknown := sum(trial.meta.valid is None for trial in self.trials):
            yield (
                f"{one_line(self.name, 100)}: {plural(unknown, 'trial')} with unknown validity (results of the original"
                " Thunderdome), counted as valid. A zero in them may mean that nothing was measured."
            )
        if unscored := sum(trial.meta.valid is not False and capped_score(trial.meta) is None for trial in self.trials):
            yield f"{one_line(self.name, 100)}: {plural(unscored, 'valid trial')} without a score, in no mean."


def make_sides(pair: Pair, selections: Sequence[SelectedResults]) -> tuple[Side, Side]:
    """Name both so that they differ: by their runs, if they are the same orchestrator."""
    same = pair.first.orchestrator == pair.second.orchestrator
    names = [_with_run(contestant) if same else contestant.orchestrator for contestant in pair]
    results = [selection.results for selection in selections]
    first, second = (Side(*side) for side in zip(pair, names, results, strict=True))
    return first, second


def _with_run(contestant: Contestant) -> str:
    return f"{contestant.source.written or contestant.source.runs[0].name}:{contestant.orchestrator}"


def check_common(first: Side, second: Side) -> None:
    for side in (first, second):
        if not side.trials:
            raise _not_comparable(
                f"{one_line(side.name)} has no finished trial.", "Finish the run with `--resume`, or exclude less."
            )
        if all(trial.meta.valid is False for trial in side.trials):
            reason = side.trials[0].meta.reason or side.trials[0].meta.outcome or "the reason is not known"
            message = f"None of the {plural(len(side.trials), 'trial')} of {one_line(side.name)} is valid."
            raise _not_comparable(message, f"The first: {one_line(reason)}")
        if not side.scored:
            raise _not_comparable(
                f"No valid trial of {one_line(side.name)} has a score.", "Score it: `thunderdome rescore`."
            )
    if not first.scored & second.scored:
        names = (f"{one_line(side.name)} has {listed(side.scored)}" for side in (first, second))
        message = "They have no task in common for which both have a valid score."
        raise _not_comparable(message, f"{'; '.join(names)}.")


def _not_comparable(message: str, hint: str) -> YouBenchaError:
    return YouBenchaError("NOT_COMPARABLE", message, hint=hint)


def trials_of_both(first: Side, second: Side, figure: Figure) -> list[TaskTrials]:
    """Return the trials of the tasks that both should have, so that those without a valid result count as missing."""
    return [
        TaskTrials(task, first.agent_trials(task, figure), second.agent_trials(task, figure))
        for task in sorted(first.tasks & second.tasks)
    ]


def known_figures(trials: Iterable[ArenaTrial], figure: Figure) -> tuple[float, ...]:
    """Return the known figures of the valid trials. Sorted, so that sums do not depend on the order of the trials."""
    figures = (figure(trial.meta) for trial in trials if trial.meta.valid is not False)
    return tuple(sorted(number for number in figures if number is not None))


def is_solved(meta: TrialMeta) -> float | None:
    """Return 1 for a solved trial and 0 for another; None if it is not known."""
    return None if meta.outcome is None else float(meta.outcome == SOLVED)
