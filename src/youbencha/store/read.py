"""Load results: of a single run, or of runs of many trials.

Results of the originals are upgraded (`legacy`). In a run of many trials, a file that cannot be read is listed with the
reason, and the others count.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError

from youbencha.errors import YouBenchaError
from youbencha.files import read_file, read_nofollow
from youbencha.json_lines import as_amount, as_count, as_mapping, loads, loads_lossy
from youbencha.log.model import Usage, YouBenchaLog, build_usage
from youbencha.spec.arena import repo_key
from youbencha.store.arena import RunInfo, TrialKey, TrialMeta, read_meta, read_run_info
from youbencha.store.bundle import ResultsBundle
from youbencha.store.layout import (
    ATTEMPTS_DIR,
    CALIBRATION_FILE,
    LEDGER_FILE,
    LOG_FILE,
    META_FILE,
    PATCH_FILE,
    RUN_FILE,
    RUNS_DIR,
    TRIALS_DIR,
)
from youbencha.store.legacy import upgrade_log, upgrade_results, without_zeros
from youbencha.store.locate import TRIAL_PREFIX, arena_runs_at, find_results, results_not_found, trial_directories
from youbencha.text import one_line
from youbencha.usage import Tokens, add_all
from youbencha.workspace.run_dir import ARTIFACTS

MAX_RESULTS_BYTES = 64 * 1024 * 1024
_MAX_CALIBRATION_BYTES = 64 * 1024 * 1024
_MAX_PLANNED = 1_000_000
_MAX_TOKENS = 10**12
_MAX_PROBLEMS = 5
_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens")
_LONE_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_IS_ABSOLUTE = re.compile(r"[/\\]|[A-Za-z]:[/\\]")

T = TypeVar("T")


class FileCache:
    """Loads files, and loads one again only after it was replaced or has changed."""

    def __init__(self) -> None:
        self._loaded: dict[Path, tuple[tuple[int, int, int], Any]] = {}

    def load(self, path: Path, load: Callable[[], T]) -> T:
        """Return what `load` made of a file. An exception is not kept."""
        try:
            status = path.stat()
        except OSError:
            return load()
        signature = status.st_mtime_ns, status.st_size, status.st_ino
        known = self._loaded.get(path)
        if known is None or known[0] != signature:
            known = self._loaded[path] = signature, load()
        value: T = known[1]
        return value


# Single runs.


def load_results(path: Path) -> ResultsBundle:
    """Load the results that `find_results` finds, including those of the original youBencha."""
    file = find_results(path)
    document = _read_document(file)
    if "identity" not in document:
        document = upgrade_results(document, run_id=_run_name(file))
    try:
        bundle = ResultsBundle.model_validate(document, extra="ignore")  # keys of a newer version could not be shown
    except ValidationError as error:
        raise _invalid_results(file, _list_problems(error)) from error
    return bundle if bundle.execution.complete else _with_ledger(bundle, file.parent)


def load_log(artifacts: Path) -> YouBenchaLog:
    """Load the log of a run, including one of the original youBencha. Raises `LOG_NOT_FOUND` or `LOG_INVALID`."""
    try:
        return parse_log(read_nofollow(artifacts, LOG_FILE, MAX_RESULTS_BYTES))
    except OSError as error:
        message = f"{artifacts / LOG_FILE}: {error.strerror or error}."
        raise YouBenchaError(
            "LOG_NOT_FOUND", message, hint="A run writes its log after its agent has finished."
        ) from error
    except (ValueError, RecursionError) as error:
        message = f"{artifacts / LOG_FILE} is not a log: {one_line(str(error))}"
        raise YouBenchaError("LOG_INVALID", message, hint="Delete it; `results.json` does not depend on it.") from error


def parse_log(data: bytes) -> YouBenchaLog:
    """Parse a log. Raises ValueError, of which ValidationError is one, or RecursionError."""
    document = json.loads(data)
    if isinstance(document, dict) and "agent_info" not in document:
        document = upgrade_log(document)
    return YouBenchaLog.model_validate(document)


def ledger_usage(artifacts: Path, user: str | None = None) -> Usage | None:
    """Return the usage in the ledger of a run, which may lack calls; None without a ledger.

    `user` selects one user of the gateway.
    """
    try:
        lines = read_nofollow(artifacts, LEDGER_FILE, MAX_RESULTS_BYTES).splitlines()
    except OSError:
        return None
    calls = [call for call in map(as_mapping, map(loads_lossy, lines)) if user is None or call.get("key") == user]
    tokens = [Tokens(*(as_count(call.get(name), _MAX_TOKENS) for name in _TOKENS)) for call in calls]
    costs = [as_amount(call.get("cost_usd")) for call, used in zip(calls, tokens, strict=True) if used != Tokens()]
    known = [cost for cost in costs if cost is not None]
    spent = float(sum(known)) if len(known) == len(costs) else None
    return build_usage(add_all(tokens), spent, partial=True, cost_source="gateway")


def _with_ledger(bundle: ResultsBundle, artifacts: Path) -> ResultsBundle:
    """Add the usage in the ledger to the results of a run that is not finished, such as one that was killed."""
    agent = bundle.agent
    if agent is None or agent.usage is not None:
        return bundle
    usage = ledger_usage(artifacts, agent.type)
    if usage is None or all(getattr(usage, name) is None for name in _TOKENS):
        return bundle
    return bundle.model_copy(update={"agent": agent.model_copy(update={"usage": usage})})


def _read_document(file: Path) -> dict[str, Any]:
    try:
        text = read_file(file, MAX_RESULTS_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _invalid_results(file, f"it is not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise results_not_found(f"{file} {error.strerror}.") from error
    if not text.strip():
        raise _invalid_results(file, "it is empty")
    try:
        document = json.loads(text, parse_constant=lambda name: None)  # NaN: unknown
        document = _escape_surrogates(document) if _LONE_SURROGATE.search(text) else document
    except RecursionError as error:
        raise _invalid_results(file, "it is nested too deeply") from error
    except ValueError as error:  # besides wrong JSON: a number with too many digits
        raise _invalid_results(file, f"invalid JSON: {error}") from error
    if not isinstance(document, dict):
        raise _invalid_results(file, "it is not an object")
    return document


def _escape_surrogates(value: Any) -> Any:
    """Escape lone surrogates: JSON may contain them (in file names that are not UTF-8), models may not."""
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case list():
            return [_escape_surrogates(item) for item in value]
        case dict():
            return {_escape_surrogates(name): _escape_surrogates(item) for name, item in value.items()}
    return value


def _list_problems(error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    lines = [f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in problems[:_MAX_PROBLEMS]]
    if len(problems) > _MAX_PROBLEMS:
        lines.append(f"and {len(problems) - _MAX_PROBLEMS} more")
    return "".join(f"\n  - {line}" for line in lines)


def _run_name(file: Path) -> str:
    parent = file.absolute().parent
    return parent.parent.name if parent.name == ARTIFACTS else parent.name


def _invalid_results(file: Path, reason: str) -> YouBenchaError:
    hint = "`yb run` and `yb eval` write results.json into a run's artifacts directory."
    return YouBenchaError("RESULTS_INVALID", f"{file} is not a valid results file: {reason}", hint=hint)


# Runs of many trials.


class ArenaTrial(NamedTuple):
    """A finished trial, and where it was read."""

    run: str
    directory: str
    meta: TrialMeta

    @property
    def key(self) -> TrialKey:
        return self.meta.key

    @property
    def diff(self) -> Path | None:
        """The patch with what the agent changed, if there is one."""
        return _existing(Path(self.directory, PATCH_FILE))

    @property
    def log(self) -> Path | None:
        """The log of the attempt that counts, if there is one."""
        attempt = self.meta.attempts[-1].number if self.meta.attempts else 1
        return _existing(Path(self.directory, ATTEMPTS_DIR, str(attempt), ARTIFACTS, LOG_FILE))


def _existing(path: Path) -> Path | None:
    return path if os.path.lexists(path) else None


class UnfinishedTrial(NamedTuple):
    """A trial that was planned, and has no result."""

    run: str
    orchestrator: str
    task: str
    trial: int
    category: str | None

    @property
    def key(self) -> TrialKey:
        return TrialKey(self.orchestrator, self.task, self.trial)


class Unreadable(NamedTuple):
    path: Path
    """Starts with the directory of the run or of the results."""
    reason: str


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
    """Score ranges by task."""

    def with_categories(self, categories: Mapping[str, str]) -> ArenaResults:
        """Add the arena's categories to trials that have none, such as those of the original."""

        def with_category(trial: ArenaTrial) -> ArenaTrial:
            category = trial.meta.category or categories.get(repo_key(trial.meta.task))
            return trial._replace(meta=trial.meta.model_copy(update={"category": category}))

        return replace(self, trials=tuple(map(with_category, self.trials))) if categories else self


def load_runs(sources: Iterable[Path], cache: FileCache | None = None) -> ArenaResults:
    """Load the results at these paths; each is a run, or a directory of runs.

    With a cache, only trials that are new or have changed are read.
    """
    cache = cache or FileCache()
    runs = list(dict.fromkeys(run for source in sources for run in arena_runs_at(source)))
    trials: list[ArenaTrial] = []
    unfinished: list[UnfinishedTrial] = []
    unreadable: list[Unreadable] = []
    planned_known = True
    for run in runs:
        finished, broken = _load_trials(run, cache)
        planned, problem = _load_planned(run)
        done = {trial.key for trial in finished}
        unfinished += (trial for trial in planned or () if trial.key not in done)
        planned_known &= planned is not None
        trials += finished
        unreadable += (*broken, *problem)
    calibration, problem = _load_calibration(runs)
    return ArenaResults(
        runs=tuple(runs),
        trials=tuple(trials),
        unfinished=tuple(unfinished),
        planned_known=planned_known,
        unreadable=(*unreadable, *problem),
        calibration=calibration,
    )


def prefix_replacer(known: Mapping[str, str]) -> Callable[[str], str]:
    """Return a function that replaces prefixes of the paths in a text, and the home directory by `~`.

    An empty replacement makes the paths relative.
    """
    home = os.path.expanduser("~")  # noqa: PTH111 - there may be no home
    candidates = {home: "~", **known}.items()
    prefixes = {path: name for path, name in candidates if _IS_ABSOLUTE.match(path) and len(PurePath(path).parts) > 1}
    if not prefixes:
        return lambda text: text
    longest_first = "|".join(map(re.escape, sorted(prefixes, key=len, reverse=True)))
    pattern = re.compile(rf"(?<![\w.~+-])({longest_first})(?![\w+-]|\.\w)([/\\]?)")

    def replacement(match: re.Match[str]) -> str:
        name, slash = prefixes[match[1]], match[2]
        return name + slash if name else "" if slash else "."

    return lambda text: pattern.sub(replacement, text)


class _Broken(Exception):
    """Why a file cannot be used."""


def _load_trials(run: Path, cache: FileCache) -> tuple[list[ArenaTrial], list[Unreadable]]:
    trials, unreadable, shorten = [], [], prefix_replacer({str(run): run.name})

    def load(task: Path, orchestrator: str, trial: str) -> TrialMeta:
        return _shorten_paths(_read_trial(task, orchestrator, trial), shorten)

    for task, orchestrator, trial in trial_directories(run / TRIALS_DIR):
        directory = task / trial
        try:
            meta = cache.load(directory / META_FILE, lambda: load(task, orchestrator, trial))  # noqa: B023 - called now
            trials.append(ArenaTrial(run.name, str(directory), meta))
        except FileNotFoundError:
            continue  # not finished
        except _Broken as broken:
            unreadable.append(_unreadable(directory / META_FILE, run, broken.args[0]))
    return trials, unreadable


def _read_trial(task: Path, orchestrator: str, trial: str) -> TrialMeta:
    try:
        meta = read_meta(task, f"{trial}/{META_FILE}")
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _Broken(error.strerror or str(error)) from error
    except ValidationError as error:
        raise _Broken(_first_problem(error)) from error
    if (meta.orchestrator, f"{TRIAL_PREFIX}{meta.trial}") != (orchestrator, trial):
        raise _Broken(one_line(f"is the result of trial {meta.trial} of {meta.orchestrator}: was it copied?"))
    return without_zeros(meta)


def _shorten_paths(meta: TrialMeta, shorten: Callable[[str], str]) -> TrialMeta:
    """Shorten the paths in the texts of a result."""
    reason = meta.reason and shorten(meta.reason)
    flags = tuple(flag.model_copy(update={"evidence": shorten(flag.evidence)}) for flag in meta.flags)
    attempts = tuple(attempt.model_copy(update={"reason": shorten(attempt.reason)}) for attempt in meta.attempts)
    return meta.model_copy(update={"reason": reason, "flags": flags, "attempts": attempts})


def _first_problem(error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    if problems[0]["type"] == "json_invalid":
        return "is not JSON, or only half of it"
    where = ".".join(map(str, problems[0]["loc"]))
    more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
    return one_line(f"{where + ': ' if where else ''}{problems[0]['msg']}{more}")


def _unreadable(path: Path, place: Path, reason: str) -> Unreadable:
    return Unreadable(path.relative_to(place.parent), reason)


def _load_planned(run: Path) -> tuple[list[UnfinishedTrial] | None, list[Unreadable]]:
    """Return every trial that was planned and is needed; None if the run does not say it."""
    try:
        info = read_run_info(run)
    except FileNotFoundError:
        return None, []
    except OSError as error:
        return None, [_unreadable(run / RUN_FILE, run, error.strerror or str(error))]
    except ValidationError as error:
        return None, [_unreadable(run / RUN_FILE, run, _first_problem(error))]
    if info.until_decided is not None:
        return _started_trials(run, info), []
    if info.total > _MAX_PLANNED:
        return None, [_unreadable(run / RUN_FILE, run, f"has more than {_MAX_PLANNED:,} trials")]
    return [
        UnfinishedTrial(run.name, cell.orchestrator, cell.task, number, cell.category)
        for number in range(1, info.trials + 1)
        for cell in info.cells
    ], []


def _started_trials(run: Path, info: RunInfo) -> list[UnfinishedTrial]:
    """Return the trials that a run with `--until-decided` has started. It did not need others."""
    categories = {(cell.orchestrator, cell.task): cell.category for cell in info.cells}
    return [
        UnfinishedTrial(run.name, orchestrator, task.name, int(number), categories.get((orchestrator, task.name)))
        for task, orchestrator, trial in trial_directories(run / TRIALS_DIR)
        if (number := trial.removeprefix(TRIAL_PREFIX)).isdecimal()
    ]


def _load_calibration(runs: Iterable[Path]) -> tuple[dict[str, Range] | None, list[Unreadable]]:
    """Read the calibrations of these runs: in the results directory, and in the runs themselves, which count more."""
    runs = list(runs)
    places = dict.fromkeys(run.parent.parent for run in runs if run.parent.name == RUNS_DIR)
    places |= dict.fromkeys(runs)
    ranges: dict[str, Range] = {}
    problems: list[Unreadable] = []
    is_calibrated = False
    for place in places:
        try:
            document = as_mapping(loads(read_nofollow(place, CALIBRATION_FILE, _MAX_CALIBRATION_BYTES)))
        except FileNotFoundError:
            continue
        except OSError as error:
            problems.append(_unreadable(place / CALIBRATION_FILE, place, error.strerror or str(error)))
            continue
        except ValueError as error:
            problems.append(_unreadable(place / CALIBRATION_FILE, place, one_line(f"is not JSON: {error}")))
            continue
        is_calibrated |= bool(document)
        for task, limits in as_mapping(document.get("tasks")).items():
            ranges[task] = Range(*(_share(as_mapping(limits).get(name)) for name in Range._fields))
    return ranges if is_calibrated else None, problems


def _share(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and 0 <= value <= 1 else None
