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
from youbencha.report.more_trials import more_trials_command
from youbencha.stats.comparison import (
    MARGIN,
    Bound,
    Difference,
    DifferenceInterval,
    MissingBounds,
    TaskScores,
    ValueDifference,
    compare_values,
    verdict_of,
)
from youbencha.stats.missing import (
    FAILED_SCORE,
    SOLVED_SCORE,
    MissingTrials,
    bound_by,
    compare_with_missing,
    with_bounds,
)
from youbencha.stats.passing import is_flaky, passes_of_k
from youbencha.stats.rounds import FindPair, FinishedPair, SequenceBounds, confidence_of_each, replay_rounds
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
        notes=tuple(dict.fromkeys([*found.notes, *(note for pair in pairs for side in pair for note in side.notes())])),
        more_trials_command=more_trials_command(found.pairs, compared),
    )


def _margin(found: Pairs) -> float:
    """Return the margin of the run that recorded the first pair as a comparison, if there is one."""
    first, second = found.pairs[0]
    margins = (
        info.until_decided.margin
        for info in first.source.infos.values()
        if info.until_decided and _is_recorded(first.orchestrator, second.orchestrator, info)
    )
    return next(margins, MARGIN)


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

    @cached_property
    def missing(self) -> Counter[str]:
        """How many planned trials of each task have no valid result."""
        invalid = Counter(each.meta.task for each in self.trials if each.meta.valid is False)
        return invalid + Counter(
            each.task for each in self._results.unfinished if each.orchestrator == self.contestant.orchestrator
        )

    @property
    def tasks(self) -> frozenset[str]:
        """The tasks for which it has a result, or should have one."""
        return frozenset(self.missing) | {task for task, trials in self.by_task.items() if trials}

    @property
    def runs(self) -> frozenset[str]:
        """The runs that its trials come from, including those they were reused from."""
        return frozenset(run for each in self.trials for run in (each.run, each.meta.reused_from) if run)

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
        difference, early = self._scores(first, second), None
        pass_rate = self._scores(first, second, _solved)
        if (run := _recorded_run(first, second)) is not None:
            difference, early = self._until_decided(difference, first, second, run)
            pass_rate = self._solved_until_decided(pass_rate, first, second, run)
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
            cost_usd=self._values(first, second, common, lambda meta: meta.total_cost_usd),
            duration_s=self._values(first, second, common, lambda meta: meta.duration_s),
            tokens=self._values(first, second, common, lambda meta: meta.total_tokens),
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
                *_not_by_a_sequence(first, second, early),
            ),
        )

    def _scores(self, first: _Side, second: _Side, of: Figure = score_of) -> Difference:
        """Compare over the tasks that both should have, so that those without a valid result count as missing."""
        tasks = sorted(first.tasks & second.tasks)
        return compare_with_missing(
            _pairs(first, second, tasks, of),
            _missing(first, second, tasks),
            margin=self.margin,
            confidence=self.confidence,
        )

    def _values(self, first: _Side, second: _Side, tasks: Sequence[str], of: Figure) -> ValueDifference:
        return compare_values(_pairs(first, second, tasks, of), confidence=self.confidence)

    def _until_decided(
        self, once: Difference, first: _Side, second: _Side, run: _RecordedRun
    ) -> tuple[Difference, DecidedEarly]:
        """Judge by the confidence sequence that ended the trials: an interval for one look is wrong after many."""
        name, info = run
        assert info.until_decided is not None
        tasks = list(dict.fromkeys(cell.task for cell in info.cells))
        margin, confidence = info.until_decided.margin, confidence_of_each(info.baselines)
        sequence = PairedSequence(tasks, margin=margin, confidence=confidence)
        turned = _is_baseline(first, second, info)
        found = replay_rounds(sequence, _pairs_by_number(*((second, first) if turned else (first, second)), score_of))
        intervals = tuple(_turned(each) if turned else each for each in found.intervals)
        interval = intervals[-1] if intervals else sequence.interval
        others = _not_surer(once.on_tasks_like_these, interval)
        judged = replace(
            once,
            on_these_tasks=interval,
            on_tasks_like_these=others,
            verdict=verdict_of(interval, self.margin),
            verdict_on_tasks_like_these=verdict_of(others, self.margin),
            p_value=None,  # as the detectable difference, only for one look
            detectable=None,
            more_trials=None if (more := sequence.pairs_needed()) is None else 2 * more,
            bounds=None,
            overturned=False,
        )
        if found.bounds is not None:
            bounds = self._sequence_bounds(found.bounds, first, second, score_of, turned=turned)
            judged = with_bounds(judged, bounds, self.margin)
        own = sum(each.run == name and each.meta.reused_from is None for each in first.contestant.source.results.trials)
        most = info.until_decided.max_trials
        return judged, DecidedEarly(
            rounds=len(intervals),
            trials=own,
            max_trials=most,
            saved=max(0, most - own) if found.verdict != "undecided" else 0,
            intervals=intervals,
            given_up=found.given_up,
        )

    def _solved_until_decided(self, once: Difference, first: _Side, second: _Side, run: _RecordedRun) -> Difference:
        """Judge solved trials by a confidence sequence, which stays valid although the scores decided when to stop."""
        tasks = list(dict.fromkeys(cell.task for cell in run.info.cells))
        sequence = PairedSequence(tasks, margin=self.margin, confidence=confidence_of_each(run.info.baselines))
        found = replay_rounds(sequence, _pairs_by_number(first, second, _solved))
        interval = None if once.estimate is None else sequence.interval
        judged = replace(
            once,
            on_these_tasks=interval,
            on_tasks_like_these=None,
            verdict=verdict_of(interval, self.margin),
            verdict_on_tasks_like_these="undecided",
            p_value=None,
            detectable=None,
            more_trials=None,
            bounds=None,
            overturned=False,
        )
        if interval is None or found.bounds is None:
            return judged
        return with_bounds(judged, self._sequence_bounds(found.bounds, first, second, _solved), self.margin)

    def _sequence_bounds(
        self, found: SequenceBounds, first: _Side, second: _Side, of: Figure, *, turned: bool = False
    ) -> MissingBounds:
        """Return the sequence's intervals, which cover complete rounds, with estimates from all trials."""
        which = 1 - found.which if turned else found.which
        tasks = sorted(first.tasks & second.tasks)
        pairs, missing = _pairs(first, second, tasks, of), _missing(first, second, tasks)

        def bound(score: float, interval: DifferenceInterval) -> Bound:
            these = _turned(interval) if turned else interval
            once = bound_by(pairs, missing, which, score, confidence=self.confidence)
            others = _not_surer(once.on_tasks_like_these, these)
            return replace(once, on_these_tasks=these, on_tasks_like_these=others)

        return MissingBounds(
            of_first=which == 0,
            missing=found.missing,
            trials=found.trials,
            if_failed=bound(FAILED_SCORE, found.if_failed),
            if_solved=bound(SOLVED_SCORE, found.if_solved),
        )


def _turned(interval: DifferenceInterval) -> DifferenceInterval:
    """Return the interval of the second compared with the first."""
    return DifferenceInterval(-interval.high, -interval.low)


def _not_surer(others: DifferenceInterval | None, these: DifferenceInterval) -> DifferenceInterval | None:
    """An interval for one look at tasks like these cannot be surer than a sequence is about these tasks."""
    return None if others is None else DifferenceInterval(min(others.low, these.low), max(others.high, these.high))


class _RecordedRun(NamedTuple):
    """A run with `--until-decided`."""

    name: str
    info: RunInfo


def _recorded_run(first: _Side, second: _Side) -> _RecordedRun | None:
    """Return the run with `--until-decided` that made this comparison, if all trials are from that run."""
    source = first.contestant.source
    names = {each.run for side in (first, second) for each in side.trials}
    if source.runs != second.contestant.source.runs or len(names) != 1:
        return None
    name = names.pop()
    info = source.infos.get(name)
    if info is None or info.until_decided is None:
        return None
    recorded = _is_recorded(first.contestant.orchestrator, second.contestant.orchestrator, info)
    return _RecordedRun(name, info) if recorded else None


def _is_recorded(one: str, other: str, run: RunInfo) -> bool:
    """Whether a run compares two orchestrators, in either direction."""
    return (one, other) in run.baselines.items() or (other, one) in run.baselines.items()


def _is_baseline(one: _Side, other: _Side, run: RunInfo) -> bool:
    return run.baselines.get(other.contestant.orchestrator) == one.contestant.orchestrator


def _not_by_a_sequence(first: _Side, second: _Side, early: DecidedEarly | None) -> Iterator[str]:
    """Explain why trials of a run that stopped early are not judged by its confidence sequence."""
    infos = {**first.contestant.source.infos, **second.contestant.source.infos}
    ended = [name for name in sorted(first.runs | second.runs) if (info := infos.get(name)) and info.until_decided]
    if early is not None or not ended:
        return
    one, other = first.contestant.orchestrator, second.contestant.orchestrator
    if any(_is_recorded(one, other, infos[name]) for name in ended):
        yield (
            f"Not judged by the confidence sequence of {listed(ended)} (`--until-decided`), because trials of other"
            " runs also count. These intervals are for a single look, and may be too narrow."
        )
    else:
        yield "The trials ended as soon as other comparisons were decided: these intervals may be too narrow."


def _pairs_by_number(first: _Side, second: _Side, of: Figure) -> FindPair:
    ones, twos = ({(each.meta.task, each.meta.trial): each.meta for each in side.trials} for side in (first, second))

    def find(task: str, number: int) -> FinishedPair | None:
        one, two = ones.get((task, number)), twos.get((task, number))
        if one is None or two is None:
            return None
        return FinishedPair(*(None if meta.valid is False else of(meta) for meta in (one, two)))

    return find


def _pairs(first: _Side, second: _Side, tasks: Iterable[str], of: Figure) -> list[TaskScores]:
    sides = first.by_task, second.by_task
    return [TaskScores(task, *(_values(side.get(task, ()), of) for side in sides)) for task in tasks]


def _missing(first: _Side, second: _Side, tasks: Iterable[str]) -> list[MissingTrials]:
    return [MissingTrials(first.missing[task], second.missing[task]) for task in tasks]


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
