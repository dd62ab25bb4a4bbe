"""Compare two agents by their trials: whether one is better, by how much, and what that rests on."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import fmean
from typing import NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.report.arena_loading import ArenaResults, ArenaTrial
from youbencha.report.arena_selection import Exclusion
from youbencha.report.comparability import comparability_warnings, unchanged_requests
from youbencha.report.comparison_loading import Pairs, baseline_pairs
from youbencha.report.comparison_model import (
    ComparedAgent,
    ComparedTrial,
    ComparisonReport,
    PairComparison,
    TaskComparison,
    TaskResult,
)
from youbencha.report.comparison_sides import (
    Figure,
    Side,
    check_common,
    is_solved,
    known_figures,
    make_sides,
    select_results,
    trials_of_both,
)
from youbencha.report.leaderboard import Leaderboard, score_of
from youbencha.report.more_trials import more_trials_command
from youbencha.report.until_decided import SequenceJudge, find_recorded_run, is_recorded, single_look_warnings
from youbencha.stats.comparison import MARGIN, Difference, TaskScores, ValueDifference, compare_values
from youbencha.stats.missing import compare_with_missing
from youbencha.stats.passing import is_flaky, passes_of_k
from youbencha.stats.rounds import confidence_of_each
from youbencha.stats.significance import holm
from youbencha.store.layout import ATTEMPTS_DIR, LOG_FILE, PATCH_FILE
from youbencha.workspace.run_dir import ARTIFACTS

_MOST_K = 10


def make_comparison(pairs: Pairs, rules: Sequence[str] = (), *, margin: float | None = None) -> ComparisonReport:
    """Compare each pair, without the trials that a rule excludes. The margin is by default the run's, or 0.05."""
    margin = _margin(pairs) if margin is None else margin
    if not 0 < margin < 1:
        raise YouBenchaError("MARGIN_INVALID", f"--margin {margin:g}: not between 0 and 1.", hint="Such as 0.05.")
    selections = {side.source.runs: select_results(side.source.results, rules) for pair in pairs.pairs for side in pair}
    confidence = confidence_of_each(pairs.pairs)
    sides = [make_sides(pair, [selections[side.source.runs] for side in pair]) for pair in pairs.pairs]
    if pairs.one_pair:
        check_common(*sides[0])
    judging = _Judging(margin, confidence)
    compared = [judging.compare(first, second) for first, second in sides]
    adjusted = holm([pair.difference.p_value for pair in compared])
    chosen = list(selections.values())
    return ComparisonReport(
        comparisons=tuple(replace(pair, p_adjusted=p) for pair, p in zip(compared, adjusted, strict=True)),
        one_pair=pairs.one_pair,
        margin=margin,
        confidence=confidence,
        runs=tuple(dict.fromkeys(run.name for selection in chosen for run in selection.results.runs)),
        exclusions=tuple(_added_up(exclusion for selection in chosen for exclusion in selection.exclusions)),
        superseded=sum(selection.superseded for selection in chosen),
        unreadable=tuple(file for selection in chosen for file in selection.results.unreadable),
        notes=tuple(dict.fromkeys([*pairs.notes, *(note for both in sides for side in both for note in side.notes())])),
        more_trials_command=more_trials_command(pairs.pairs, compared),
    )


def _margin(pairs: Pairs) -> float:
    """Return the margin of the run that recorded the first pair as a comparison, if there is one."""
    first, second = pairs.pairs[0]
    margins = (
        info.until_decided.margin
        for info in first.source.infos.values()
        if info.until_decided and is_recorded(first.orchestrator, second.orchestrator, info)
    )
    return next(margins, MARGIN)


def with_baselines(board: Leaderboard, results: ArenaResults, rules: Sequence[str] = ()) -> Leaderboard:
    """Add how the orchestrators of a run compare with their baselines, if it has any."""
    pairs = baseline_pairs(results)
    return replace(board, compared=make_comparison(pairs, rules)) if pairs.pairs else board


def _added_up(exclusions: Iterable[Exclusion]) -> Iterable[Exclusion]:
    """Add up by rule, over both sides."""
    by_rule: dict[str, Exclusion] = {}
    for exclusion in exclusions:
        before = by_rule.get(exclusion.rule, Exclusion(exclusion.rule, 0, 0, {}))
        lost = Counter(before.dropped_by_agent) + Counter(exclusion.dropped_by_agent)
        matched = before.matched + exclusion.matched
        by_rule[exclusion.rule] = Exclusion(exclusion.rule, matched, lost.total(), dict(sorted(lost.items())))
    return by_rule.values()


class _Judging(NamedTuple):
    margin: float
    confidence: float

    def compare(self, first: Side, second: Side) -> PairComparison:
        common = sorted(first.scored & second.scored)
        difference, early = self._scores(first, second), None
        pass_rate = self._scores(first, second, is_solved)
        if (run := find_recorded_run(first, second)) is not None:
            judge = SequenceJudge(first, second, run, self.margin, self.confidence)
            difference, early = judge.judge_scores(difference)
            pass_rate = judge.judge_solved(pass_rate)
        one, two = (_compared(side, common, _most_k(first, second, common)) for side in (first, second))
        tasks = (_task(task, first.by_task[task], second.by_task[task]) for task in common)
        return PairComparison(
            first=one,
            second=two,
            verdict=difference.verdict,
            difference=difference,
            p_adjusted=difference.p_value,
            decided_early=early,
            more_trials_cost_usd=_cost_of(difference.more_trials, one, two),
            pass_rate=pass_rate,
            cost_usd=self._values(first, second, common, lambda meta: meta.total_cost_usd),
            duration_s=self._values(first, second, common, lambda meta: meta.duration_s),
            tokens=self._values(first, second, common, lambda meta: meta.total_tokens),
            tasks=tuple(sorted(tasks, key=lambda task: (-abs(task.difference), task.task))),
            only_first=tuple(sorted(first.scored - second.scored)),
            only_second=tuple(sorted(second.scored - first.scored)),
            unchanged=(unchanged := unchanged_requests(first.by_task, second.by_task, common)),
            warnings=(
                *comparability_warnings(first.by_task, second.by_task, common),
                *([unchanged] if unchanged else []),
                *(single_look_warnings(first, second) if early is None else ()),
            ),
        )

    def _scores(self, first: Side, second: Side, figure: Figure = score_of) -> Difference:
        trials = trials_of_both(first, second, figure)
        return compare_with_missing(trials, margin=self.margin, confidence=self.confidence)

    def _values(self, first: Side, second: Side, tasks: Iterable[str], figure: Figure) -> ValueDifference:
        sides = first.by_task, second.by_task
        figures = [TaskScores(task, *(known_figures(side[task], figure) for side in sides)) for task in tasks]
        return compare_values(figures, confidence=self.confidence)


def _compared(side: Side, tasks: Sequence[str], most_k: int) -> ComparedAgent:
    solved = [known_figures(side.by_task[task], is_solved) for task in tasks]
    identities = [trial.meta.identity for trial in side.trials if trial.meta.identity]
    return ComparedAgent(
        name=side.name,
        orchestrator=side.contestant.orchestrator,
        runs=tuple(sorted({trial.run for trial in side.trials})),
        coverage=side.coverage(),
        figures=side.figures(tasks),
        passes=passes_of_k([(len(results), round(sum(results))) for results in solved], most_k),
        versions=tuple(sorted({identity.agent_version for identity in identities if identity.agent_version})),
        models=tuple(sorted({identity.model for identity in identities if identity.model})),
    )


def _most_k(first: Side, second: Side, tasks: Iterable[str]) -> int:
    """Return how many trials each has of each task, of which it is known whether they were solved."""
    sizes = [len(known_figures(side.by_task[task], is_solved)) for side in (first, second) for task in tasks]
    return min([*sizes, _MOST_K]) if sizes else 0


def _task(task: str, first: Sequence[ArenaTrial], second: Sequence[ArenaTrial]) -> TaskComparison:
    one, two = _task_result(first), _task_result(second)
    return TaskComparison(task=task, first=one, second=two, difference=one.score - two.score)


def _task_result(trials: Sequence[ArenaTrial]) -> TaskResult:
    scores, solved = known_figures(trials, score_of), known_figures(trials, is_solved)
    return TaskResult(
        trials=tuple(map(_trial, trials)),
        scored=len(scores),
        judged=len(solved),
        solved=round(sum(solved)),
        score=fmean(scores),
        flaky=is_flaky(len(solved), round(sum(solved))),
    )


def _trial(trial: ArenaTrial) -> ComparedTrial:
    meta = trial.meta
    attempt = meta.attempts[-1].number if meta.attempts else 1
    return ComparedTrial(
        run=trial.run,
        trial=meta.trial,
        directory=trial.directory,
        outcome=meta.outcome,
        valid=meta.valid,
        score=score_of(meta),
        started_at=meta.started_at,
        diff=_existing(f"{trial.directory}/{PATCH_FILE}"),
        transcript=_existing(f"{trial.directory}/{ATTEMPTS_DIR}/{attempt}/{ARTIFACTS}/{LOG_FILE}"),
    )


def _existing(path: str) -> str | None:
    return path if os.path.lexists(path) else None


def _cost_of(trials: int | None, first: ComparedAgent, second: ComparedAgent) -> float | None:
    """Return what more trials would cost, half of them of each."""
    costs = first.figures.cost_per_trial_usd, second.figures.cost_per_trial_usd
    if trials is None or costs[0] is None or costs[1] is None:
        return None
    return trials * (costs[0] + costs[1]) / 2
