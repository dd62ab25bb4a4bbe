"""Find the trials to compare: of orchestrators, of variants and their baselines, or of whole runs.

What is compared is written as `NAME` (an orchestrator or variant of the latest run), `RUN` (its directory, its name or
the start of it) or `RUN:NAME`. A directory with several runs counts as one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from youbencha.errors import YouBenchaError
from youbencha.store.arena import RunInfo, read_run_info
from youbencha.store.layout import LATEST, TRIALS_DIR
from youbencha.store.locate import arena_runs, arena_runs_at, is_arena_run, locate_arena_run
from youbencha.store.read import ArenaResults, load_runs
from youbencha.text import did_you_mean, first_few, one_line, plural

_MAX_NAMES = 10
_HOW = "Write NAME (an orchestrator of the latest run), RUN (a directory, or the start of a run's name) or RUN:NAME."


@dataclass(frozen=True)
class Source:
    """A run, or several that count as one."""

    written: str
    """How the user calls it; empty for the latest run."""
    runs: tuple[Path, ...]
    results: ArenaResults

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Its orchestrators, those without results included."""
        finished = {trial.meta.orchestrator for trial in self.results.trials}
        return tuple(sorted(finished | {trial.key.orchestrator for trial in self.results.unfinished}))

    @cached_property
    def infos(self) -> Mapping[str, RunInfo]:
        """The information that its runs recorded about themselves, by run name, where it can be read."""
        infos = {}
        for run in self.runs:
            with suppress(OSError, ValidationError):
                infos[run.name] = read_run_info(run)
        return infos

    @property
    def info(self) -> RunInfo | None:
        """The information that a single run recorded about itself."""
        return self.infos.get(self.runs[0].name) if len(self.runs) == 1 else None

    def __str__(self) -> str:
        if self.written:
            return self.written
        latest = f"the latest run ({one_line(self.runs[0].name, 100)})"
        return latest if len(self.runs) == 1 else plural(len(self.runs), "run")


class Contestant(NamedTuple):
    """One side of a comparison."""

    source: Source
    orchestrator: str

    @property
    def written(self) -> str:
        return f"{self.source.written}:{self.orchestrator}" if self.source.written else self.orchestrator


class Pair(NamedTuple):
    first: Contestant
    second: Contestant


class Pairs(NamedTuple):
    """What is to be compared."""

    pairs: tuple[Pair, ...]
    one_pair: bool
    """Whether a pair was asked for; else all that there are."""
    notes: tuple[str, ...] = ()
    """Notes for the reader about where the pairs were found."""


def find_pairs(results: Path, first: str | None = None, second: str | None = None) -> Pairs:
    """Find what two texts mean. Without the second: the baseline; without both: all that the latest run recorded."""
    resolver = _RunResolver(results)
    if first is None:
        return Pairs(_recorded(resolver.latest), one_pair=False)
    if second is not None and (everywhere := resolver.with_both(first, second)) is not None:
        pair = Pair(Contestant(everywhere, first), Contestant(everywhere, second))
        note = f"{resolver.latest} does not have both: compared over all {plural(len(everywhere.runs), 'run')}."
        return Pairs((pair,), one_pair=True, notes=(f"{note[0].upper()}{note[1:]}",))
    one = resolver.find(first)
    if second is None:
        if isinstance(one, Source):
            return Pairs(_recorded(one), one_pair=False)
        return Pairs((Pair(one, _baseline(one)),), one_pair=True)
    pairs = _paired(one, resolver.find(second))
    for pair in pairs:
        if pair.first.orchestrator == pair.second.orchestrator and pair.first.source.runs == pair.second.source.runs:
            message = f"{one_line(first)} and {one_line(second)} are the same: {one_line(pair.first.written)}."
            raise YouBenchaError("COMPARISON_SAME", message, hint=f"Name two that differ. {_HOW}")
    return Pairs(pairs, one_pair=len(pairs) == 1)


class _RunResolver:
    """Finds what users call runs and orchestrators."""

    def __init__(self, results: Path) -> None:
        self._results = results
        self._loaded: dict[tuple[Path, ...], ArenaResults] = {}

    @cached_property
    def latest(self) -> Source:
        return self._load("", self._results if is_arena_run(self._results) else locate_arena_run(self._results))

    def with_both(self, first: str, second: str) -> Source | None:
        """Return all runs as one source, if the latest lacks one of the names and all of them together have both."""
        names = {first, second}
        runs = [] if is_arena_run(self._results) else arena_runs(self._results)
        if len(runs) < 2 or names <= {*self._names()} or any(map(self._source, names)):
            return None
        everywhere = self._load("", *runs)
        return everywhere if names <= {*everywhere.names} else None

    def find(self, written: str) -> Contestant | Source:
        """A name wins over a run; a path over the start of a run's name."""
        if written in self._names():
            return Contestant(self.latest, written)
        if (source := self._source(written)) is not None:
            return source
        run, colon, name = written.rpartition(":")
        if colon and (source := self._source(run)) is not None:
            return _named(source, name)
        raise self._unknown(written)

    def _names(self) -> Sequence[str]:
        with suppress(YouBenchaError):  # there may be no latest run if both sides are paths
            return self.latest.names
        return ()

    def _source(self, written: str) -> Source | None:
        """The run, or the directory of runs, that a text means."""
        if written and Path(written).is_dir():
            return self._load(written, *arena_runs_at(Path(written)))
        if written and (written == LATEST or any(run.name.startswith(written) for run in arena_runs(self._results))):
            return self._load(
                written, locate_arena_run(self._results, written)
            )  # says so if several runs begin with it
        return None

    def _load(self, written: str, *runs: Path) -> Source:
        """Both sides of a comparison are often in the same run, which is read once."""
        places = tuple(Path(os.path.realpath(run)) for run in runs)
        if places not in self._loaded:
            self._loaded[places] = load_runs(places)
        return Source(written, places, self._loaded[places])

    def _unknown(self, written: str) -> YouBenchaError:
        latest = self.latest  # if there is no run at all, that is the error
        earlier = [run.name for run in arena_runs(self._results) if os.path.lexists(run / TRIALS_DIR / written)]
        message = f"{one_line(written)} is neither a run nor an orchestrator of {latest}."
        if lost := [file for file in latest.results.unreadable if written in file.path.parts]:
            first = f"{one_line(str(lost[0].path), 500)}: {lost[0].reason}"
            hint = f"{plural(len(lost), 'result')} of it cannot be read. The first: {first}"
        elif earlier:
            hint = f"An earlier run has it: {one_line(f'{earlier[-1]}:{written}')}"
        else:
            hint = f"{_suggestion(written, latest.names)}It has {_listed(latest.names)}. {_HOW}"
        return YouBenchaError("COMPARISON_UNKNOWN_NAME", message, hint=hint)


def _named(source: Source, name: str) -> Contestant:
    if name in source.names:
        return Contestant(source, name)
    message = f"{one_line(str(source))} has no orchestrator {one_line(name)}."
    hint = f"{_suggestion(name, source.names)}It has {_listed(source.names)}."
    raise YouBenchaError("COMPARISON_UNKNOWN_NAME", message, hint=hint)


def _suggestion(written: str, names: Iterable[str]) -> str:
    near = did_you_mean(written, names)
    return f"{near[0].upper()}{near[1:]} " if near else ""


def _baseline(contestant: Contestant) -> Contestant:
    source, name = contestant
    baseline = _baselines(source).get(name)
    if baseline is None:
        message = f"No baseline of {one_line(name)} is recorded in {one_line(str(source))}."
        others = [other for other in source.names if other != name]
        hint = f"Name what to compare it with: {_listed(others)}."
        raise YouBenchaError("COMPARISON_NO_BASELINE", message, hint=hint)
    if baseline not in source.names:
        message = f"{one_line(baseline)}, the baseline of {one_line(name)}, is not in {one_line(str(source))}."
        hint = "Name one from another run, as RUN:NAME, or run both together: `--reuse` reuses existing results."
        raise YouBenchaError("COMPARISON_NO_BASELINE", message, hint=hint)
    return Contestant(source, baseline)


def _recorded(source: Source) -> tuple[Pair, ...]:
    named = [Contestant(source, name) for name in sorted(_baselines(source)) if name in source.names]
    if named:
        return tuple(Pair(variant, _baseline(variant)) for variant in named)
    message = f"No baselines are recorded in {one_line(str(source))}."
    hint = f"Name two to compare: `yb compare A B`. The run has {_listed(source.names)}."
    raise YouBenchaError("COMPARISON_NO_BASELINE", message, hint=hint)


def baseline_pairs(results: ArenaResults) -> Pairs:
    """Return each orchestrator of a run with its baseline; of several runs, nothing."""
    source = Source("", results.runs, results)
    pairs = (
        Pair(Contestant(source, name), Contestant(source, baseline))
        for name, baseline in sorted(_baselines(source).items())
        if {name, baseline} <= {*source.names}
    )
    return Pairs(tuple(pairs), one_pair=False)


def _baselines(source: Source) -> Mapping[str, str]:
    return source.info.baselines if source.info else {}


def _paired(first: Contestant | Source, second: Contestant | Source) -> tuple[Pair, ...]:
    """Pair by name; if each side has only one orchestrator, those two."""
    ones, twos = _contestants(first), _contestants(second)
    by_name = {two.orchestrator: two for two in twos}
    if len(ones) == len(twos) == 1:
        return (Pair(ones[0], twos[0]),)
    same = tuple(Pair(one, by_name[one.orchestrator]) for one in ones if one.orchestrator in by_name)
    if same:
        return same
    sides = [one_line(str(side)) for side in (first, second) if isinstance(side, Source)]
    names = "; ".join(
        f"{one_line(str(side))} has {_listed(side.names)}" for side in (first, second) if isinstance(side, Source)
    )
    raise YouBenchaError(
        "COMPARISON_AMBIGUOUS",
        f"It is unclear which orchestrators to compare: {names}.",
        hint=f"Name one of them: {' or '.join(f'{side}:NAME' for side in sides)}.",
    )


def _contestants(side: Contestant | Source) -> list[Contestant]:
    if isinstance(side, Contestant):
        return [side]
    return [Contestant(side, name) for name in side.names]


def _listed(names: Iterable[str]) -> str:
    return first_few([one_line(name, 100) for name in names], _MAX_NAMES) or "no results"
