"""Find and load the results of the arena: of a run, of all runs in a results directory, or of any directory like one.

Trees of the original Thunderdome are loaded, too. A file that cannot be read is listed, with the reason, and the
others count.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.files import read_file, read_nofollow
from youbencha.json_lines import loads, mapping
from youbencha.report.sharing import prefix_replacer
from youbencha.spec.arena import key_of_repo
from youbencha.store.arena import RunInfo, TrialMeta, read_meta, read_run_info
from youbencha.store.layout import CALIBRATION_FILE, LATEST, META_FILE, RUN_FILE, RUNS_DIR, TRIALS_DIR
from youbencha.text import one_line, shown

if TYPE_CHECKING:
    from pydantic import ValidationError

_LARGEST_CALIBRATION = 64 * 1024 * 1024
_MOST_PLANNED = 1_000_000
_LARGEST_LINK = 4096
_MAX_NAMES = 5
_TRIAL = "trial-"


class ArenaTrial(NamedTuple):
    """A finished trial."""

    run: str
    directory: str
    meta: TrialMeta


class UnfinishedTrial(NamedTuple):
    """A trial that was planned, and has no result."""

    run: str
    orchestrator: str
    task: str
    trial: int
    category: str | None


class Unreadable(NamedTuple):
    path: Path
    reason: str


def _unreadable(path: Path, place: Path, reason: str) -> Unreadable:
    """Make an `Unreadable` whose path starts at `place`, the directory of the run or of the results."""
    return Unreadable(path.relative_to(place.parent), reason)


class Range(NamedTuple):
    """The scores of doing nothing, and of the reference solution. None: not measured."""

    floor: float | None
    ceiling: float | None


@dataclass(frozen=True, kw_only=True)
class ArenaResults:
    runs: tuple[Path, ...]
    trials: tuple[ArenaTrial, ...]
    unfinished: tuple[UnfinishedTrial, ...] = ()
    planned_known: bool = False
    """Whether every run says what it planned. The original's do not."""
    unreadable: tuple[Unreadable, ...] = ()
    calibration: Mapping[str, Range] | None = None
    """By task."""


def load_runs(sources: Iterable[Path]) -> ArenaResults:
    """Load the results below these paths; each is a run, or a directory of runs."""
    runs = list(dict.fromkeys(run for source in sources for run in find_arena_runs(source)))
    trials: list[ArenaTrial] = []
    unfinished: list[UnfinishedTrial] = []
    unreadable: list[Unreadable] = []
    planned_known = True
    for run in runs:
        found, broken = _load_trials(run)
        planned, problem = _planned(run)
        done = {(each.meta.orchestrator, each.meta.task, each.meta.trial) for each in found}
        unfinished += (each for each in planned or () if (each.orchestrator, each.task, each.trial) not in done)
        planned_known &= planned is not None
        trials += found
        unreadable += (*broken, *problem)
    calibration, problem = _calibration(runs)
    return ArenaResults(
        runs=tuple(runs),
        trials=tuple(trials),
        unfinished=tuple(unfinished),
        planned_known=planned_known,
        unreadable=(*unreadable, *problem),
        calibration=calibration,
    )


def with_categories(results: ArenaResults, categories: Mapping[str, str]) -> ArenaResults:
    """Add the arena's categories to trials that have none, such as those of the original."""

    def with_category(trial: ArenaTrial) -> ArenaTrial:
        category = trial.meta.category or categories.get(key_of_repo(trial.meta.task))
        return trial._replace(meta=trial.meta.model_copy(update={"category": category}))

    return replace(results, trials=tuple(map(with_category, results.trials))) if categories else results


def locate_run(results: Path, which: str = LATEST) -> Path:
    """Return the directory of a run: it is named by its path, its name, the start of its name, or as the latest."""
    if which == LATEST:
        return _latest(results)
    if Path(which).is_dir():
        return Path(which)
    found = [path for path in all_runs(results) if path.name.startswith(which)]
    if len(found) == 1:
        return found[0]
    names = f": {', '.join(shown(path.name) for path in found[:_MAX_NAMES])}" if found else ""
    what = "Several runs begin" if found else "No run begins"
    hint = "Write more of the name." if found else "`thunderdome list` shows the runs."
    message = f"{what} with {one_line(which)} in {shown(results)}{names}."
    raise YouBenchaError("RUN_NOT_FOUND", message, hint=hint)


def _latest(results: Path) -> Path:
    latest = results / LATEST
    if latest.is_file():  # with the path, where links are not possible
        latest = results / read_file(latest, _LARGEST_LINK).decode("utf-8", "replace").strip()
    if is_run(latest):
        return Path(os.path.realpath(latest))
    if runs := all_runs(results):
        return runs[-1]
    hint = "`thunderdome run` makes one; `--results` names another place."
    raise YouBenchaError("RUN_NOT_FOUND", f"There is no run in {shown(results)}.", hint=hint)


def is_run(path: Path) -> bool:
    """Whether a directory is that of a run. One that has just begun has no trials, one of the original no file."""
    return (path / RUN_FILE).is_file() or (path / TRIALS_DIR).is_dir()


def all_runs(results: Path) -> list[Path]:
    """Return the runs in a results directory, the oldest first."""
    return _runs_in(results / RUNS_DIR) or _runs_in(results)


def _runs_in(directory: Path) -> list[Path]:
    return [path for name in _directories(directory) if is_run(path := directory / name)]


def find_arena_runs(source: Path) -> list[Path]:
    """Return the runs at a path, the oldest first: itself, or those in it or in its `runs`."""
    place = Path(os.path.realpath(source))  # `results/latest` is a link, and the report names the run
    if not place.is_dir():
        raise _not_found(f"There is no directory {shown(source)}.")
    place = place.parent if place.name == TRIALS_DIR else place
    found = [place] if is_run(place) else all_runs(place)
    if not found:
        raise _not_found(f"{shown(source)} has no results of the arena.")
    return found


def _not_found(message: str) -> YouBenchaError:
    hint = "`thunderdome run` makes results. Name a run (`results/runs/…`), or the directory of all runs' results."
    return YouBenchaError("RESULTS_NOT_FOUND", message, hint=hint)


def _load_trials(run: Path) -> tuple[list[ArenaTrial], list[Unreadable]]:
    trials, unreadable, shorten = [], [], prefix_replacer({str(run): run.name})
    for task, orchestrator, trial in trial_directories(run / TRIALS_DIR):
        directory = f"{task}{os.sep}{trial}"  # `Path` would take a tenth of the time
        try:
            meta = _read_meta(task, orchestrator, trial)
            trials.append(ArenaTrial(run.name, directory, _shorten_paths(meta, shorten)))
        except FileNotFoundError:
            continue  # not finished
        except _Broken as broken:
            unreadable.append(_unreadable(Path(directory, META_FILE), run, broken.args[0]))
    return trials, unreadable


def _shorten_paths(meta: TrialMeta, shorten: Callable[[str], str]) -> TrialMeta:
    """Shorten the paths in the texts of a result."""
    reason = meta.reason and shorten(meta.reason)
    flags = tuple(flag.model_copy(update={"evidence": shorten(flag.evidence)}) for flag in meta.flags)
    attempts = tuple(each.model_copy(update={"reason": shorten(each.reason)}) for each in meta.attempts)
    return meta.model_copy(update={"reason": reason, "flags": flags, "attempts": attempts})


def trial_directories(root: Path) -> Iterator[tuple[Path, str, str]]:
    """Yield the directory of the task, the orchestrator's name and the trial's, sorted. No link is followed."""
    for orchestrator in _directories(root):
        for task in _directories(root / orchestrator):
            directory = root / orchestrator / task
            yield from ((directory, orchestrator, each) for each in _directories(directory) if each.startswith(_TRIAL))


def _directories(path: Path) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


class _Broken(Exception):
    """Why a file cannot be used."""


def _read_meta(task: Path, orchestrator: str, trial: str) -> TrialMeta:
    from pydantic import ValidationError

    try:
        meta = read_meta(task, f"{trial}/{META_FILE}")
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _Broken(error.strerror or str(error)) from error
    except ValidationError as error:
        raise _Broken(_first_problem(error)) from error
    if (meta.orchestrator, f"{_TRIAL}{meta.trial}") != (orchestrator, trial):
        raise _Broken(one_line(f"is the result of trial {meta.trial} of {meta.orchestrator}: was it copied?"))
    return without_zeros(meta)


def is_original(meta: TrialMeta) -> bool:
    """Whether a result is the original Thunderdome's, which does not say whether the agent was measured."""
    return meta.valid is None and meta.outcome is None


def without_zeros(meta: TrialMeta) -> TrialMeta:
    """Turn the original's zeros into unknowns: it wrote 0 for what it had not measured, and no trial uses 0 tokens."""
    unknown = {name: None for name in ("total_cost_usd", "total_tokens") if getattr(meta, name) == 0}
    return meta.model_copy(update=unknown) if unknown and is_original(meta) else meta


def _first_problem(error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    if problems[0]["type"] == "json_invalid":
        return "is not JSON, or only half of it"
    where = ".".join(map(str, problems[0]["loc"]))
    more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
    return one_line(f"{where + ': ' if where else ''}{problems[0]['msg']}{more}")


def _planned(run: Path) -> tuple[list[UnfinishedTrial] | None, list[Unreadable]]:
    """Return every trial that was planned and is needed; None if the run does not say it."""
    from pydantic import ValidationError

    try:
        info = read_run_info(run)
    except FileNotFoundError:
        return None, []
    except OSError as error:
        return None, [_unreadable(run / RUN_FILE, run, error.strerror or str(error))]
    except ValidationError as error:
        return None, [_unreadable(run / RUN_FILE, run, _first_problem(error))]
    if info.until_decided is not None:
        return _begun(run, info), []
    if info.total > _MOST_PLANNED:
        return None, [_unreadable(run / RUN_FILE, run, f"has more than {_MOST_PLANNED:,} trials")]
    return [
        UnfinishedTrial(run.name, cell.orchestrator, cell.task, number, cell.category)
        for number in range(1, info.trials + 1)
        for cell in info.cells
    ], []


def _begun(run: Path, info: RunInfo) -> list[UnfinishedTrial]:
    """Return the trials that a run with `--until-decided` has begun. It did not need others."""
    categories = {(cell.orchestrator, cell.task): cell.category for cell in info.cells}
    return [
        UnfinishedTrial(run.name, orchestrator, task.name, int(number), categories.get((orchestrator, task.name)))
        for task, orchestrator, trial in trial_directories(run / TRIALS_DIR)
        if (number := trial.removeprefix(_TRIAL)).isdecimal()
    ]


def _calibration(runs: Iterable[Path]) -> tuple[dict[str, Range] | None, list[Unreadable]]:
    """Read the calibrations of these runs: in the results directory, and in the runs themselves, which count more."""
    runs = list(runs)
    places = dict.fromkeys(run.parent.parent for run in runs if run.parent.name == RUNS_DIR)
    places |= dict.fromkeys(runs)
    ranges: dict[str, Range] = {}
    problems: list[Unreadable] = []
    found = False
    for place in places:
        document, problem = _optional(place, CALIBRATION_FILE)
        problems += problem
        found |= bool(document)
        for task, limits in mapping(document.get("tasks")).items():
            ranges[task] = Range(*(_share(mapping(limits).get(name)) for name in Range._fields))
    return ranges if found else None, problems


def _share(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and 0 <= value <= 1 else None


def _optional(directory: Path, name: str) -> tuple[Mapping[str, object], list[Unreadable]]:
    """Read a file of JSON that need not exist."""
    try:
        return mapping(loads(read_nofollow(directory, name, _LARGEST_CALIBRATION))), []
    except FileNotFoundError:
        return {}, []
    except OSError as error:
        return {}, [_unreadable(directory / name, directory, error.strerror or str(error))]
    except ValueError as error:
        return {}, [_unreadable(directory / name, directory, one_line(f"is not JSON: {error}"))]
