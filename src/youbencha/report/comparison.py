"""Compare two agents by their trials: whether one is better, by how much, and what that rests on."""

from __future__ import annotations

import math
import os
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.report.arena_selection import Exclusion
from youbencha.report.comparison_model import (
    ComparedAgent,
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
from youbencha.report.contestants import Pair, Pairs, Source, baseline_pairs
from youbencha.report.leaderboard import (
    Leaderboard,
    capped_score,
    listed,
)
from youbencha.report.until_decided import SequenceJudge, find_recorded_run, is_recorded, single_look_warnings
from youbencha.stats.comparison import compare_values, compare_with_missing
from youbencha.stats.intervals import is_flaky, passes_of_k
from youbencha.stats.model import MARGIN, Difference, TaskScores, ValueDifference
from youbencha.stats.resampling import holm
from youbencha.stats.sequence import shared_confidence
from youbencha.store.arena import RunInfo, TrialIdentity
from youbencha.store.layout import RUNS_DIR
from youbencha.store.read import ArenaResults, ArenaTrial
from youbencha.text import one_line, plural

_MAX_K = 10


def make_comparison(pairs: Pairs, rules: Sequence[str] = (), *, margin: float | None = None) -> ComparisonReport:
    """Compare each pair, without the trials that a rule excludes. The margin is by default the run's, or 0.05."""
    margin = _margin(pairs) if margin is None else margin
    if not 0 < margin < 1:
        raise YouBenchaError(
            "MARGIN_INVALID", f"--margin {margin:g} is not between 0 and 1.", hint="For example --margin 0.05."
        )
    selections = {side.source.runs: select_results(side.source.results, rules) for pair in pairs.pairs for side in pair}
    confidence = shared_confidence(pairs.pairs)
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
            more_trials_cost_usd=_estimate_cost(difference.more_trials, one, two),
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

    def _scores(self, first: Side, second: Side, figure: Figure = capped_score) -> Difference:
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
    return min([*sizes, _MAX_K]) if sizes else 0


def _task(task: str, first: Sequence[ArenaTrial], second: Sequence[ArenaTrial]) -> TaskComparison:
    one, two = _task_result(first), _task_result(second)
    return TaskComparison(task=task, first=one, second=two, difference=one.score - two.score)


def _task_result(trials: Sequence[ArenaTrial]) -> TaskResult:
    scores, solved = known_figures(trials, capped_score), known_figures(trials, is_solved)
    return TaskResult(
        trials=tuple(trials),
        scored=len(scores),
        judged=len(solved),
        solved=round(sum(solved)),
        score=fmean(scores),
        flaky=is_flaky(len(solved), round(sum(solved))),
    )


def _estimate_cost(trials: int | None, first: ComparedAgent, second: ComparedAgent) -> float | None:
    """Return what more trials would cost, half of them of each."""
    costs = first.figures.cost_per_trial_usd, second.figures.cost_per_trial_usd
    if trials is None or costs[0] is None or costs[1] is None:
        return None
    return trials * (costs[0] + costs[1]) / 2


_MUST_AGREE = {
    "task_commit": "start from different commits",
    "validation_hash": "are validated differently",
    "cpus": "have different CPU limits",
    "memory": "have different memory limits",
}
"""What must be the same for both on each task, and what to say if it is not."""

ByTask = Mapping[str, Sequence[ArenaTrial]]


def comparability_warnings(first: ByTask, second: ByTask, tasks: Sequence[str]) -> Iterator[str]:
    """Say why a difference may have another cause than the agents."""
    for name, problem in _MUST_AGREE.items():
        different = [task for task in tasks if _differ(first[task], second[task], name)]
        if different:
            yield f"Not comparable: the trials of both {problem} on {listed(different)}."
    yield from _identities(first, second, tasks)
    both = (*_of(first, tasks), *_of(second, tasks))
    if flagged := sum(bool(trial.meta.evidence) for trial in both):
        yield f"{plural(flagged, 'trial')} with evidence of cheating: see `thunderdome report`."


def unchanged_requests(first: ByTask, second: ByTask, tasks: Sequence[str]) -> str | None:
    """Return a warning if no request of the variant differed from the baseline's; None if one did, or if unknown.

    The second agent is the variant if only it changes something.
    """
    ones, twos = _known(_of(first, tasks)), _known(_of(second, tasks))
    if {one.agent_hash for one in ones} == {two.agent_hash for two in twos}:
        return None  # there was nothing to change
    turned = not any(one.changes for one in ones) and any(two.changes for two in twos)
    variant, baseline = (second, first) if turned else (first, second)
    asked = [(_asked(variant[task]), _asked(baseline[task])) for task in tasks]
    if not asked or not all(own and own <= theirs for own, theirs in asked):
        return None
    changes = sorted({key for two in (twos if turned else ones) for key in two.changes})
    names = (one_line(side[tasks[0]][0].meta.orchestrator, 100) for side in (variant, baseline))
    effect = f"{listed(changes)} changed nothing" if changes else "there may be no difference"
    return (
        "No request of {} differed from those of {}: {} in the model, its parameters, the system prompt, the tools or"
        " the prompt.".format(*names, effect)
    )


def _asked(trials: Iterable[ArenaTrial]) -> set[str]:
    """Return the fingerprints of all valid trials; none if those of any trial are unknown."""
    asked: set[str] = set()
    for trial in trials:
        if trial.meta.valid is not False:
            if trial.meta.identity is None or not trial.meta.identity.request_fingerprints:
                return set()
            asked.update(trial.meta.identity.request_fingerprints)
    return asked


def _identities(first: ByTask, second: ByTask, tasks: Sequence[str]) -> Iterator[str]:
    ones, twos = _known(_of(first, tasks)), _known(_of(second, tasks))
    if not ones or not twos:
        yield "Whether both had the same commits, validation and limits is not known: the results do not say it."
        return
    if {one.agent_hash for one in ones} == {two.agent_hash for two in twos}:
        yield "Both have the same configuration: any difference is chance, or a change of the harness or the model."
    versions = {identity.youbencha_version for identity in (*ones, *twos) if identity.youbencha_version}
    if len(versions) > 1:
        yield f"Made by different versions of youBencha: {listed(versions)}."
    for side in (first, second):
        mixed = [task for task in tasks if len({identity.agent_hash for identity in _known(side[task])}) > 1]
        if mixed:
            name = one_line(side[mixed[0]][0].meta.orchestrator, 100)
            yield f"Trials of different configurations of {name} are counted together on {listed(mixed)}."
    same = len(_fingerprints(_of(first, tasks)) & _fingerprints(_of(second, tasks)))
    if same:
        yield f"{plural(same, 'trial')} counted on both sides: one run reused them from the other (`--reuse`)."


def _of(side: ByTask, tasks: Iterable[str]) -> list[ArenaTrial]:
    return [trial for task in tasks for trial in side[task] if trial.meta.valid is not False]


def _known(trials: Iterable[ArenaTrial]) -> list[TrialIdentity]:
    return [trial.meta.identity for trial in trials if trial.meta.identity and trial.meta.valid is not False]


def _differ(first: Iterable[ArenaTrial], second: Iterable[ArenaTrial], name: str) -> bool:
    ones, twos = ({getattr(identity, name) for identity in _known(side)} for side in (first, second))
    return bool(ones and twos) and ones != twos


def _fingerprints(trials: Iterable[ArenaTrial]) -> set[object]:
    """Fingerprint trials, so that copies are recognised."""
    return {
        (meta.orchestrator, meta.task, meta.trial, meta.identity.agent_hash, meta.started_at)
        for meta in (trial.meta for trial in trials)
        if meta.identity is not None and meta.started_at is not None
    }


_SELECTION_OPTIONS = {"tasks": "--task", "categories": "--category"}
_DEFAULT_CONFIG, _DEFAULT_RESULTS = "thunderdome.yaml", "results"


def more_trials_command(pairs: Sequence[Pair], compared: Sequence[PairComparison]) -> str | None:
    """Return the command for all undecided pairs; None if it is unknown.

    It is known for the pairs of one arena run, which records its selection.
    """
    undecided = [
        (pair, comparison, comparison.difference.more_trials)
        for pair, comparison in zip(pairs, compared, strict=True)
        if comparison.difference.more_trials is not None
    ]
    sides = [side.source for pair, _, _ in undecided for side in pair]
    if not undecided or len({side.runs for side in sides}) > 1:
        return None
    source = sides[0]
    if source.info is None or source.info.config_file is None:  # several runs; or of `yb run`
        return None
    where = _where(source, source.info.config_file)
    run = source.runs[0].name
    if source.info.until_decided is not None:
        most = source.info.until_decided.max_trials + sum(more for _, _, more in undecided)
        return _command([*where, "--resume", run, "--max-trials", str(most)])
    names = dict.fromkeys(side.orchestrator for pair, _, _ in undecided for side in pair)
    further = max(math.ceil(more / (2 * comparison.difference.tasks)) for _, comparison, more in undecided)
    chosen = chain.from_iterable(("--orchestrator", name) for name in names)
    trials = ("--trials", str(source.info.trials + further))
    return _command([*where, *chosen, *_selected(source.info), *trials, "--reuse", run])


def _selected(info: RunInfo) -> list[str]:
    """The options that selected the tasks of the run."""
    return [
        word
        for key, option in _SELECTION_OPTIONS.items()
        for value in info.selection.get(key, ())
        for word in (option, str(value))
    ]


def _where(source: Source, config: str) -> list[str]:
    """Name the arena and its results, unless both are where the command looks for them."""
    run, words = source.runs[0], []
    if os.path.realpath(config) != os.path.realpath(_DEFAULT_CONFIG):
        words += ["--config", os.path.relpath(config)]
    results = run.parent.parent if run.parent.name == RUNS_DIR else run.parent
    if os.path.realpath(results) != os.path.realpath(Path(config).parent / _DEFAULT_RESULTS):
        words += ["--results", os.path.relpath(results)]
    return words


def _command(words: Sequence[str]) -> str:
    return one_line(shlex.join(["thunderdome", "run", *words]), 4096)
