"""Compare two agents by their trials: whether one is better, by how much, and what that rests on."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from statistics import fmean
from typing import NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.files import LOG_FILE
from youbencha.log.arena import PATCH_FILE, RunInfo, TrialMeta
from youbencha.report.arena_loading import ArenaResults, ArenaTrial
from youbencha.report.arena_selection import Exclusion, exclude, newest_only
from youbencha.report.comparability import comparability_warnings, unchanged_requests
from youbencha.report.comparison_loading import Contestant, Pair, Pairs, baseline_pairs
from youbencha.report.comparison_model import (
    ComparedAgent,
    ComparedTrial,
    ComparisonReport,
    DecidedEarly,
    PairComparison,
    TaskComparison,
    TaskResult,
)
from youbencha.report.leaderboard import (
    SOLVED,
    Leaderboard,
    Row,
    TrialCoverage,
    coverage_of,
    listed,
    make_row,
    score_of,
)
from youbencha.stats.comparison import (
    MARGIN,
    Difference,
    DifferenceInterval,
    TaskScores,
    compare_scores,
    compare_values,
    verdict_of,
)
from youbencha.stats.passing import is_flaky, passes_of_k
from youbencha.stats.rounds import FindPair, FinishedPair, confidence_of_each, replay_rounds
from youbencha.stats.sequence import PairedSequence
from youbencha.stats.significance import holm
from youbencha.text import one_line, plural
from youbencha.workspace.run_dir import ARTIFACTS

_MOST_K = 10
Figure = Callable[[TrialMeta], float | None]
"""Of a trial. None: not known."""


def make_comparison(found: Pairs, rules: Sequence[str] = (), *, margin: float | None = None) -> ComparisonReport:
    """Compare each pair, without the trials that a rule excludes. The margin is by default the run's, or 0.05."""
    margin = _margin(found) if margin is None else margin
    if not 0 < margin < 1:
        raise YouBenchaError("MARGIN_INVALID", f"--margin {margin:g}: not between 0 and 1.", hint="Such as 0.05.")
    selections = {side.source.runs: _select(side.source.results, rules) for pair in found.pairs for side in pair}
    confidence = confidence_of_each(found.pairs)
    pairs = [_sides(pair, [selections[side.source.runs] for side in pair]) for pair in found.pairs]
    if found.one_pair:
        _check_common(*pairs[0])
    judging = _Judging(margin, confidence)
    compared = [judging.compare(first, second) for first, second in pairs]
    adjusted = holm([each.difference.p_value for each in compared])
    chosen = list(selections.values())
    return ComparisonReport(
        comparisons=tuple(replace(each, p_adjusted=p) for each, p in zip(compared, adjusted, strict=True)),
        one_pair=found.one_pair,
        margin=margin,
        confidence=confidence,
        runs=tuple(dict.fromkeys(run.name for each in chosen for run in each.results.runs)),
        exclusions=tuple(_added_up(exclusion for each in chosen for exclusion in each.exclusions)),
        superseded=sum(each.superseded for each in chosen),
        unreadable=tuple(file for each in chosen for file in each.results.unreadable),
        notes=tuple(dict.fromkeys(note for pair in pairs for side in pair for note in side.notes())),
    )


def _margin(found: Pairs) -> float:
    info = found.pairs[0].first.source.info
    return info.until_decided.margin if info and info.until_decided else MARGIN


def with_baselines(board: Leaderboard, results: ArenaResults, rules: Sequence[str] = ()) -> Leaderboard:
    """Add how the orchestrators of a run compare with their baselines, if it has any."""
    found = baseline_pairs(results)
    return replace(board, compared=make_comparison(found, rules)) if found.pairs else board


class _Selection(NamedTuple):
    """The trials of one source that count."""

    results: ArenaResults
    exclusions: tuple[Exclusion, ...]
    superseded: int


def _select(results: ArenaResults, rules: Sequence[str]) -> _Selection:
    """As in a leaderboard: of several runs, only the newest of the same trial."""
    results, exclusions = exclude(results, rules)
    results, superseded = newest_only(results) if len(results.runs) > 1 else (results, 0)
    return _Selection(results, exclusions, superseded)


def _added_up(exclusions: Iterable[Exclusion]) -> Iterable[Exclusion]:
    """By rule, over both sides."""
    by_rule: dict[str, Exclusion] = {}
    for each in exclusions:
        before = by_rule.get(each.rule, Exclusion(each.rule, 0, 0, {}))
        lost = Counter(before.dropped_by_agent) + Counter(each.dropped_by_agent)
        by_rule[each.rule] = Exclusion(
            each.rule, before.matched + each.matched, lost.total(), dict(sorted(lost.items()))
        )
    return by_rule.values()


class _Side:
    """The trials of one contestant."""

    def __init__(self, contestant: Contestant, name: str, results: ArenaResults) -> None:
        self.contestant = contestant
        self.name = name
        self._results = results
        self.trials = sorted(
            (each for each in results.trials if each.meta.orchestrator == contestant.orchestrator),
            key=lambda each: (each.meta.task, each.meta.trial, each.run),
        )

    @cached_property
    def by_task(self) -> dict[str, list[ArenaTrial]]:
        by_task: dict[str, list[ArenaTrial]] = defaultdict(list)
        for each in self.trials:
            by_task[each.meta.task].append(each)
        return by_task

    @cached_property
    def scored(self) -> frozenset[str]:
        """The tasks with a valid score."""
        return frozenset(task for task, trials in self.by_task.items() if _values(trials, score_of))

    def coverage(self) -> TrialCoverage:
        unfinished = sum(each.orchestrator == self.contestant.orchestrator for each in self._results.unfinished)
        return coverage_of([each.meta for each in self.trials], unfinished if self._results.planned_known else None)

    def figures(self, tasks: Iterable[str]) -> Row:
        metas = [each.meta for task in tasks for each in self.by_task[task]]
        return make_row((self.contestant.orchestrator, None, None), metas, None, None)

    def notes(self) -> Iterable[str]:
        if unknown := sum(each.meta.valid is None for each in self.trials):
            yield (
                f"{one_line(self.name, 100)}: {plural(unknown, 'trial')} with unknown validity (results of the original"
                " Thunderdome), counted as valid. A zero in them may mean that nothing was measured."
            )
        if unscored := sum(each.meta.valid is not False and score_of(each.meta) is None for each in self.trials):
            yield f"{one_line(self.name, 100)}: {plural(unscored, 'valid trial')} without a score, in no mean."


def _sides(pair: Pair, selections: Sequence[_Selection]) -> tuple[_Side, _Side]:
    """Name both so that they differ: by their runs, if they are the same orchestrator."""
    same = pair.first.orchestrator == pair.second.orchestrator
    names = [_with_run(each) if same else each.orchestrator for each in pair]
    first, second = (_Side(*each) for each in zip(pair, names, [each.results for each in selections], strict=True))
    return first, second


def _with_run(contestant: Contestant) -> str:
    return f"{contestant.source.written or contestant.source.runs[0].name}:{contestant.orchestrator}"


def _check_common(first: _Side, second: _Side) -> None:
    for side in (first, second):
        if not side.trials:
            raise _not_comparable(
                f"{one_line(side.name)} has no finished trial.", "Finish the run with `--resume`, or exclude less."
            )
        if all(each.meta.valid is False for each in side.trials):
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


class _Judging(NamedTuple):
    margin: float
    confidence: float

    def compare(self, first: _Side, second: _Side) -> PairComparison:
        common = sorted(first.scored & second.scored)
        difference, early = self._scores(first, second, common), None
        pass_rate = self._scores(first, second, common, _solved)
        if (run := _recorded_run(first, second)) is not None:
            difference, early = self._until_decided(difference, first, second, run)
            pass_rate = replace(pass_rate, on_these_tasks=None, on_tasks_like_these=None)  # they are for one look
        one, two = (_compared(side, common, _most_k(first, second, common)) for side in (first, second))
        return PairComparison(
            first=one,
            second=two,
            verdict=difference.verdict,
            difference=difference,
            p_adjusted=difference.p_value,
            decided_early=early,
            more_trials_cost_usd=_cost_of(difference.more_trials, one, two),
            pass_rate=pass_rate,
            cost_usd=compare_values(_pairs(first, second, common, lambda meta: meta.total_cost_usd)),
            duration_s=compare_values(_pairs(first, second, common, lambda meta: meta.duration_s)),
            tokens=compare_values(_pairs(first, second, common, lambda meta: meta.total_tokens)),
            tasks=tuple(
                sorted(
                    (_task(task, first.by_task[task], second.by_task[task]) for task in common),
                    key=lambda each: (-abs(each.difference), each.task),
                )
            ),
            only_first=tuple(sorted(first.scored - second.scored)),
            only_second=tuple(sorted(second.scored - first.scored)),
            unchanged=(unchanged := unchanged_requests(first.by_task, second.by_task, common)),
            warnings=(
                *comparability_warnings(first.by_task, second.by_task, common),
                *([unchanged] if unchanged else []),
                *_ended_by_others(first, second, early),
            ),
        )

    def _scores(self, first: _Side, second: _Side, tasks: Sequence[str], of: Figure = score_of) -> Difference:
        return compare_scores(_pairs(first, second, tasks, of), margin=self.margin, confidence=self.confidence)

    def _until_decided(
        self, once: Difference, first: _Side, second: _Side, run: RunInfo
    ) -> tuple[Difference, DecidedEarly]:
        """Judge by the confidence sequence that ended the trials: an interval for one look is wrong after many."""
        assert run.until_decided is not None
        tasks = list(dict.fromkeys(cell.task for cell in run.cells))
        sequence = PairedSequence(tasks, margin=run.until_decided.margin, confidence=confidence_of_each(run.baselines))
        turned = _is_baseline(first, second, run)
        pair = (second, first) if turned else (first, second)  # as in the run
        found = replay_rounds(sequence, _pairs_by_number(*pair))
        intervals = tuple(DifferenceInterval(-each.high, -each.low) if turned else each for each in found.intervals)
        interval = intervals[-1] if intervals else sequence.interval
        others = once.on_tasks_like_these
        if others is not None:  # for one look; it cannot be surer than that about these tasks
            others = DifferenceInterval(min(others.low, interval.low), max(others.high, interval.high))
        judged = replace(
            once,
            on_these_tasks=interval,
            on_tasks_like_these=others,
            verdict=verdict_of(interval, self.margin),
            verdict_on_tasks_like_these=verdict_of(others, self.margin),
            p_value=None,  # as the detectable difference, only for one look
            detectable=None,
            more_trials=None if (more := sequence.pairs_needed()) is None else 2 * more,
        )
        own = sum(each.meta.reused_from is None for each in first.contestant.source.results.trials)
        most = run.until_decided.max_trials
        return judged, DecidedEarly(
            rounds=len(intervals),
            trials=own,
            max_trials=most,
            saved=max(0, most - own) if sequence.verdict != "undecided" else 0,
            intervals=intervals,
            given_up=found.given_up,
        )


def _recorded_run(first: _Side, second: _Side) -> RunInfo | None:
    """The run with `--until-decided` whose comparison this is, if it is one; in either direction."""
    source = first.contestant.source
    info = source.info
    if info is None or info.until_decided is None or source.runs != second.contestant.source.runs:
        return None
    return info if _is_baseline(first, second, info) or _is_baseline(second, first, info) else None


def _is_baseline(one: _Side, other: _Side, run: RunInfo) -> bool:
    return run.baselines.get(other.contestant.orchestrator) == one.contestant.orchestrator


def _ended_by_others(first: _Side, second: _Side, early: DecidedEarly | None) -> Iterator[str]:
    infos = [side.contestant.source.info for side in (first, second)]
    if early is None and any(info is not None and info.until_decided is not None for info in infos):
        yield "The trials ended as soon as other comparisons were decided: these intervals may be too narrow."


def _pairs_by_number(first: _Side, second: _Side) -> FindPair:
    ones, twos = ({(each.meta.task, each.meta.trial): each.meta for each in side.trials} for side in (first, second))

    def find(task: str, number: int) -> FinishedPair | None:
        one, two = ones.get((task, number)), twos.get((task, number))
        return None if one is None or two is None else FinishedPair.of(_valid_score(one), _valid_score(two))

    return find


def _valid_score(meta: TrialMeta) -> float | None:
    return None if meta.valid is False else score_of(meta)


def _pairs(first: _Side, second: _Side, tasks: Iterable[str], of: Figure) -> list[TaskScores]:
    return [TaskScores(task, _values(first.by_task[task], of), _values(second.by_task[task], of)) for task in tasks]


def _values(trials: Iterable[ArenaTrial], of: Figure) -> tuple[float, ...]:
    """The known figures of the valid trials. Sorted, so that sums do not depend on the order of the trials."""
    found = (of(each.meta) for each in trials if each.meta.valid is not False)
    return tuple(sorted(each for each in found if each is not None))


def _solved(meta: TrialMeta) -> float | None:
    return None if meta.outcome is None else float(meta.outcome == SOLVED)


def _compared(side: _Side, tasks: Sequence[str], most_k: int) -> ComparedAgent:
    solved = [_values(side.by_task[task], _solved) for task in tasks]
    identities = [each.meta.identity for each in side.trials if each.meta.identity]
    return ComparedAgent(
        name=side.name,
        orchestrator=side.contestant.orchestrator,
        runs=tuple(sorted({each.run for each in side.trials})),
        coverage=side.coverage(),
        figures=side.figures(tasks),
        passes=passes_of_k([(len(each), round(sum(each))) for each in solved], most_k),
        versions=tuple(sorted({each.agent_version for each in identities if each.agent_version})),
        models=tuple(sorted({each.model for each in identities if each.model})),
    )


def _most_k(first: _Side, second: _Side, tasks: Iterable[str]) -> int:
    """As many trials as each has of each task, of which it is known whether they were solved."""
    sizes = [len(_values(side.by_task[task], _solved)) for side in (first, second) for task in tasks]
    return min([*sizes, _MOST_K]) if sizes else 0


def _task(task: str, first: Sequence[ArenaTrial], second: Sequence[ArenaTrial]) -> TaskComparison:
    one, two = _task_result(first), _task_result(second)
    return TaskComparison(task=task, first=one, second=two, difference=one.score - two.score)


def _task_result(trials: Sequence[ArenaTrial]) -> TaskResult:
    scores, solved = _values(trials, score_of), _values(trials, _solved)
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
        diff=_existing(f"{trial.directory}/{PATCH_FILE}"),
        transcript=_existing(f"{trial.directory}/attempts/{attempt}/{ARTIFACTS}/{LOG_FILE}"),
    )


def _existing(path: str) -> str | None:
    return path if os.path.lexists(path) else None


def _cost_of(trials: int | None, first: ComparedAgent, second: ComparedAgent) -> float | None:
    """What more trials would cost, half of them of each."""
    costs = first.figures.cost_per_trial_usd, second.figures.cost_per_trial_usd
    if trials is None or costs[0] is None or costs[1] is None:
        return None
    return trials * (costs[0] + costs[1]) / 2
