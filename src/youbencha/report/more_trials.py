"""Build the command that runs enough further trials to decide the undecided comparisons."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from youbencha.report.comparison_loading import Pair, Source
from youbencha.report.comparison_model import PairComparison
from youbencha.store.arena import RunInfo
from youbencha.store.layout import RUNS_DIR
from youbencha.text import one_line

_SELECTION_OPTIONS = {"tasks": "--task", "categories": "--category"}
_DEFAULT_CONFIG, _DEFAULT_RESULTS = "thunderdome.yaml", "results"


def more_trials_command(pairs: Sequence[Pair], compared: Sequence[PairComparison]) -> str | None:
    """Return the command for all undecided pairs; None if it is unknown.

    It is known for the pairs of one arena run, which records its selection.
    """
    undecided = [
        (pair, found, found.difference.more_trials)
        for pair, found in zip(pairs, compared, strict=True)
        if found.difference.more_trials is not None
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
    further = max(math.ceil(more / (2 * found.difference.tasks)) for _, found, more in undecided)
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
