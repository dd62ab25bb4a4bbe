"""The CI gate: which comparisons pass, by which measures, and what could have gone unnoticed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Literal, NamedTuple

from youbencha.report.comparison_document import are_missing, digits, shown_name, signed
from youbencha.report.comparison_model import ComparisonReport, PairComparison
from youbencha.stats.model import Difference, DifferenceInterval, ValueDifference, Verdict, judge_interval
from youbencha.text import format_duration, format_usd, join_words, plural


class Gate(StrEnum):
    WORSE = "worse"
    NOT_BETTER = "not-better"


class Measure(StrEnum):
    SCORE = "score"
    SOLVED = "solved"
    COST = "cost"
    TIME = "time"


DEFAULT_MEASURES = (Measure.SCORE, Measure.SOLVED)
"""Partial credit can hide that nothing is solved any more, and few solved trials that the score has fallen."""


class Judgement(NamedTuple):
    """How the first agent compares with the second by one measure."""

    measure: Measure
    verdict: Verdict
    """For cost and time, `worse` means higher."""
    change: float | None
    """The first's figure minus the second's. None if unknown."""
    interval: DifferenceInterval | None
    unnoticed: float | None
    """How large a change for the worse could have gone unnoticed, if undecided. None if it could have any size."""
    missing: str | None = None
    """Which missing trials have left it undecided."""

    def __str__(self) -> str:
        if self.change is None:
            return f"{self.measure} not known"
        form = _FORMS[self.measure].signed
        interval = f" ({form(self.interval.low)} to {form(self.interval.high)})" if self.interval else ""
        because = f", because {self.missing}" if self.missing else ""
        return f"{self.measure} {form(self.change)}{interval}, {self.verdict}{because}"


def judge(pair: PairComparison, measure: Measure, margin: float) -> Judgement:
    """Judge a pair by one measure. Costs and times within the margin, as a share, are equivalent."""
    match measure:
        case Measure.SCORE:
            judged = replace(pair.difference, verdict=pair.verdict)
            return _judge_shares(measure, judged, pair)
        case Measure.SOLVED:
            return _judge_shares(measure, pair.pass_rate, pair)
        case Measure.COST:
            return _judge_values(measure, pair.cost_usd, margin)
        case Measure.TIME:
            return _judge_values(measure, pair.duration_s, margin)


def _judge_shares(measure: Measure, difference: Difference, pair: PairComparison) -> Judgement:
    interval, bounds = difference.on_these_tasks, difference.bounds
    missing = are_missing(pair, bounds) if bounds is not None and difference.overturned else None
    return Judgement(
        measure, difference.verdict, difference.estimate, interval, _unnoticed_fall(difference, pair), missing
    )


def _unnoticed_fall(difference: Difference, pair: PairComparison) -> float | None:
    """What this many trials detect; where it is not known, or trials are missing, as far as the intervals go."""
    lows = [bound.on_these_tasks.low for bound in difference.bounds.both] if difference.bounds else []
    in_sequence = pair.decided_early is not None  # it has no detectable difference
    if difference.on_these_tasks is None or (difference.detectable is None and not in_sequence):
        return None
    if in_sequence or difference.overturned:
        lows.append(difference.on_these_tasks.low)
    return None if min(lows, default=0) <= -1 else max([difference.detectable or 0.0, *(-low for low in lows)])


def _judge_values(measure: Measure, values: ValueDifference, margin: float) -> Judgement:
    interval, ratio = values.interval, values.ratio_interval
    if ratio is not None and 1 - margin <= ratio.low and ratio.high <= 1 + margin:
        verdict: Verdict = "equivalent"
    else:
        less = None if interval is None else DifferenceInterval(-interval.high, -interval.low)
        verdict = judge_interval(less, margin=0)
    return Judgement(measure, verdict, values.difference, interval, interval.high if interval else None)


class GatedPair(NamedTuple):
    """A comparison with the gate's judgements of it."""

    pair: PairComparison
    gate: Gate
    judgements: tuple[Judgement, ...]

    @property
    def unknown(self) -> tuple[Measure, ...]:
        """Measures without data. With any of them, the gate neither passes nor fails."""
        return tuple(judgement.measure for judgement in self.judgements if judgement.change is None)

    @property
    def decisive(self) -> tuple[Measure, ...]:
        """The measures by which it is worse."""
        return tuple(judgement.measure for judgement in self.judgements if judgement.verdict == "worse")

    @property
    def failed(self) -> bool:
        """Whether it is worse by any measure or, if it has to be better, better by none."""
        is_better = any(judgement.verdict == "better" for judgement in self.judgements)
        return bool(self.decisive) or (self.gate is Gate.NOT_BETTER and not is_better)

    def __str__(self) -> str:
        names = " against ".join(shown_name(side.name) for side in (self.pair.first, self.pair.second))
        text = f"{names}: {'; '.join(map(str, self.judgements))}"
        if self.unknown:
            return f"not decided, because the {join_words(self.unknown)} is not known: {text}."
        if self.decisive:
            return f"failed by {join_words(self.decisive)}: {text}."
        if self.failed:
            measures = join_words([judgement.measure for judgement in self.judgements], "or")
            return f"failed, because it is not known to be better by {measures}: {text}."
        return f"passed: {text}."


class GateResult(NamedTuple):
    pairs: tuple[GatedPair, ...]

    @property
    def failed(self) -> bool:
        return any(pair.failed for pair in self.pairs)

    @property
    def unknown(self) -> bool:
        """Whether some pair could not be judged."""
        return any(pair.unknown for pair in self.pairs)

    def find(self, pair: PairComparison) -> GatedPair:
        return next(gated for gated in self.pairs if gated.pair is pair)

    def lines(self) -> Iterator[tuple[Literal["error", "notice"], str]]:
        """Yield the pairs that did not pass, then those that passed, with what could have gone unnoticed."""
        yield from (("error", str(pair)) for pair in self.pairs if pair.failed or pair.unknown)
        if passed := [pair for pair in self.pairs if not pair.failed and not pair.unknown]:
            text = str(passed[0]) if len(passed) == 1 else f"passed: {plural(len(passed), 'comparison')}."
            yield "notice", f"{text} {_unnoticed(passed)}".strip()


def apply_gate(report: ComparisonReport, gate: Gate, measures: Sequence[Measure] = ()) -> GateResult:
    """Judge every pair. Default measures without data are left out."""
    pairs = []
    for pair in report.comparisons:
        judgements = [judge(pair, measure, report.margin) for measure in dict.fromkeys(measures or DEFAULT_MEASURES)]
        known = [judgement for judgement in judgements if judgement.change is not None]
        pairs.append(GatedPair(pair, gate, tuple(judgements if measures or not known else known)))
    return GateResult(tuple(pairs))


def _unnoticed(passed: Iterable[GatedPair]) -> str:
    """Describe the largest change for the worse that the gate could have missed, by measure."""
    sizes: dict[Measure, list[float | None]] = {}
    for judgement in (
        judgement for pair in passed for judgement in pair.judgements if judgement.verdict == "undecided"
    ):
        sizes.setdefault(judgement.measure, []).append(judgement.unnoticed)
    texts = []
    for measure, changes in sizes.items():
        known = [size for size in changes if size is not None]
        form = _FORMS[measure]
        size = f"up to {form.plain(max(known))}" if len(known) == len(changes) else "any size"
        texts.append(f"a {form.change} of {size} in {measure}")
    return f"Could have gone unnoticed: {', '.join(texts)}." if texts else ""


class _Form(NamedTuple):
    """How changes of a measure are written."""

    plain: Callable[[float], str]
    change: str
    """For the worse."""
    signed: Callable[[float], str]


def _with_sign(form: Callable[[float], str]) -> Callable[[float], str]:
    return lambda number: f"{'-' if number < 0 else '+'}{form(abs(number))}"


def _points(share: float) -> str:
    return f"{share * 100:.0f} points"


def _seconds(seconds: float) -> str:
    return format_duration(seconds * 1000)


_FORMS = {
    Measure.SCORE: _Form(digits, "fall", signed),
    Measure.SOLVED: _Form(_points, "fall", _with_sign(_points)),
    Measure.COST: _Form(format_usd, "rise", _with_sign(format_usd)),
    Measure.TIME: _Form(_seconds, "rise", _with_sign(_seconds)),
}
