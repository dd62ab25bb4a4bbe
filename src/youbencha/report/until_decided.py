"""Judge the comparisons of a run with `--until-decided` by the confidence sequences that ended it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from youbencha.report.comparison_model import DecidedEarly
from youbencha.report.comparison_sides import Figure, Side, is_solved, trials_of_both
from youbencha.report.leaderboard import capped_score, listed
from youbencha.stats.comparison import FAILED_SCORE, SOLVED_SCORE, Agent, bound_by, missing_bounds, with_bounds
from youbencha.stats.model import Bound, Difference, DifferenceInterval, MissingBounds, judge_interval
from youbencha.stats.sequence import (
    FindPair,
    FinishedPair,
    PairedSequence,
    SequenceBounds,
    replay_rounds,
    shared_confidence,
)
from youbencha.store.arena import RunInfo, TrialMeta


class RecordedRun(NamedTuple):
    """A run with `--until-decided`."""

    name: str
    info: RunInfo

    def sequence(self, margin: float) -> PairedSequence:
        """Return a new sequence for a comparison of the run."""
        tasks = list(dict.fromkeys(cell.task for cell in self.info.cells))
        return PairedSequence(tasks, margin=margin, confidence=shared_confidence(self.info.baselines))


def find_recorded_run(first: Side, second: Side) -> RecordedRun | None:
    """Return the run with `--until-decided` that made this comparison, if all trials are from that run."""
    source = first.contestant.source
    names = {trial.run for side in (first, second) for trial in side.trials}
    if source.runs != second.contestant.source.runs or len(names) != 1:
        return None
    name = names.pop()
    info = source.infos.get(name)
    if info is None or info.until_decided is None:
        return None
    recorded = is_recorded(first.contestant.orchestrator, second.contestant.orchestrator, info)
    return RecordedRun(name, info) if recorded else None


def is_recorded(one: str, other: str, run: RunInfo) -> bool:
    """Whether a run compares two orchestrators, in either direction."""
    return (one, other) in run.baselines.items() or (other, one) in run.baselines.items()


class SequenceJudge(NamedTuple):
    """Judges two sides by a confidence sequence: an interval for one look is wrong after many."""

    first: Side
    second: Side
    run: RecordedRun
    margin: float
    confidence: float

    def judge_scores(self, once: Difference) -> tuple[Difference, DecidedEarly]:
        """`once` is the comparison for a single look."""
        info = self.run.info
        assert info.until_decided is not None
        sequence = self.run.sequence(info.until_decided.margin)
        turned = self._is_turned()
        sides = (self.second, self.first) if turned else (self.first, self.second)
        replay = replay_rounds(sequence, _find_pair(*sides, capped_score))
        intervals = tuple(_reverse(interval) if turned else interval for interval in replay.intervals)
        interval = intervals[-1] if intervals else sequence.interval
        others = _not_surer(once.on_tasks_like_these, interval)
        judged = replace(
            once,
            on_these_tasks=interval,
            on_tasks_like_these=others,
            verdict=judge_interval(interval, self.margin),
            verdict_on_tasks_like_these=judge_interval(others, self.margin),
            p_value=None,  # as the detectable difference, only for one look
            detectable=None,
            more_trials=None if (more := sequence.pairs_needed()) is None else 2 * more,
            bounds=None,
            overturned=False,
        )
        bounds = [self._bounds(sequence_bounds, capped_score, turned=turned) for sequence_bounds in replay.bounds]
        trials = self.first.contestant.source.results.trials
        own = sum(trial.run == self.run.name and trial.meta.reused_from is None for trial in trials)
        most = info.until_decided.max_trials
        return with_bounds(judged, bounds, self.margin), DecidedEarly(
            rounds=len(intervals),
            trials=own,
            max_trials=most,
            saved=max(0, most - own) if replay.verdict != "undecided" else 0,
            intervals=intervals,
            given_up=replay.given_up,
        )

    def judge_solved(self, once: Difference) -> Difference:
        """The sequence of solved trials stays valid although the scores decided when to stop."""
        sequence = self.run.sequence(self.margin)
        replay = replay_rounds(sequence, _find_pair(self.first, self.second, is_solved))
        interval = None if once.estimate is None else sequence.interval
        judged = replace(
            once,
            on_these_tasks=interval,
            on_tasks_like_these=None,
            verdict=judge_interval(interval, self.margin),
            verdict_on_tasks_like_these="undecided",
            p_value=None,
            detectable=None,
            more_trials=None,
            bounds=None,
            overturned=False,
        )
        if interval is None:
            return judged
        return with_bounds(
            judged, [self._bounds(sequence_bounds, is_solved) for sequence_bounds in replay.bounds], self.margin
        )

    def _is_turned(self) -> bool:
        """Whether the run compares the second with the first."""
        first, second = (side.contestant.orchestrator for side in (self.first, self.second))
        return self.run.info.baselines.get(second) == first

    def _bounds(self, sequence_bounds: SequenceBounds, figure: Figure, *, turned: bool = False) -> MissingBounds:
        """Return the sequence's intervals, which cover complete rounds, with estimates from all trials."""
        agent: Agent = (1, 0)[sequence_bounds.agent] if turned else sequence_bounds.agent
        tasks = trials_of_both(self.first, self.second, figure)

        def bound(score: float, interval: DifferenceInterval) -> Bound:
            these = _reverse(interval) if turned else interval
            once = bound_by(tasks, agent, score, confidence=self.confidence)
            others = _not_surer(once.on_tasks_like_these, these)
            return replace(once, on_these_tasks=these, on_tasks_like_these=others)

        return replace(
            missing_bounds(
                tasks,
                agent,
                if_failed=bound(FAILED_SCORE, sequence_bounds.if_failed),
                if_solved=bound(SOLVED_SCORE, sequence_bounds.if_solved),
            ),
            missing=sequence_bounds.missing,
            retried=sequence_bounds.retried,
            trials=sequence_bounds.trials,
        )


def _find_pair(first: Side, second: Side, figure: Figure) -> FindPair:
    firsts, seconds = (_by_number(side) for side in (first, second))

    def find(task: str, number: int) -> FinishedPair | None:
        one, two = firsts.get((task, number)), seconds.get((task, number))
        if one is None or two is None:
            return None
        first_score, second_score = (None if meta.valid is False else figure(meta) for meta in (one, two))
        return FinishedPair(first_score, second_score, one.retried, two.retried)

    return find


def _by_number(side: Side) -> dict[tuple[str, int], TrialMeta]:
    return {(trial.meta.task, trial.meta.trial): trial.meta for trial in side.trials}


def _reverse(interval: DifferenceInterval) -> DifferenceInterval:
    """Return the interval of the second compared with the first."""
    return DifferenceInterval(-interval.high, -interval.low)


def _not_surer(others: DifferenceInterval | None, these: DifferenceInterval) -> DifferenceInterval | None:
    """An interval for one look at tasks like these cannot be surer than a sequence is about these tasks."""
    return None if others is None else DifferenceInterval(min(others.low, these.low), max(others.high, these.high))


def single_look_warnings(first: Side, second: Side) -> Iterator[str]:
    """Explain why trials of a run that stopped early are not judged by its confidence sequence."""
    infos = {**first.contestant.source.infos, **second.contestant.source.infos}
    ended = [name for name in sorted(first.runs | second.runs) if (info := infos.get(name)) and info.until_decided]
    if not ended:
        return
    one, other = first.contestant.orchestrator, second.contestant.orchestrator
    if any(is_recorded(one, other, infos[name]) for name in ended):
        yield (
            f"Not judged by the confidence sequence of {listed(ended)} (`--until-decided`), because trials of other"
            " runs also count. These intervals are for a single look, and may be too narrow."
        )
    else:
        yield "The trials ended as soon as other comparisons were decided: these intervals may be too narrow."
