"""The directory of a run of many trials: `results/runs/<time>-<id>/`, and the link `results/latest`."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import ValidationError

from youbencha.errors import YouBenchaError
from youbencha.files import read_nofollow, replacing
from youbencha.locks import lock_file
from youbencha.log.model import as_json
from youbencha.store.arena import RUN_FORMAT, RunInfo, TrialKey, TrialMeta, read_meta, read_run_info
from youbencha.store.layout import (
    ATTEMPTS_DIR,
    DIFF_FILE,
    LATEST,
    META_FILE,
    PATCH_FILE,
    RUN_FILE,
    RUNS_DIR,
    TASK_FILE,
    TRIALS_DIR,
)
from youbencha.store.locate import is_arena_run, locate_arena_run, trial_directories
from youbencha.workspace.run_dir import ARTIFACTS, LOCK

_IGNORE_ALL = "# Created by youBencha: git ignores everything in this directory.\n*\n"


class ArenaRun:
    """The directory of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def name(self) -> str:
        return self.path.name

    def info(self) -> RunInfo:
        """Read `run.json`. Raises `RUN_INVALID`."""
        try:
            info = read_run_info(self.path)
        except OSError as error:
            raise _not_a_run(self.path, f"{RUN_FILE} {error.strerror}") from error
        except ValidationError as error:
            raise _not_a_run(self.path, f"{RUN_FILE} is damaged") from error
        if info.format > RUN_FORMAT:
            raise _not_a_run(self.path, f"it was written by a newer youBencha ({info.youbencha_version})")
        return info

    def replace_info(self, info: RunInfo) -> None:
        """Write `run.json` in place of the one there is."""
        try:
            _write_synced(self.path / RUN_FILE, as_json(info).encode())
        except OSError as error:
            raise not_writable(self.path, error) from error

    def trial(self, key: TrialKey) -> TrialDirectory:
        relative = Path(TRIALS_DIR, key.orchestrator, key.task, f"trial-{key.number}")
        return TrialDirectory(self.path / relative, f"{self.name}-{_digest(relative)}")

    def trials(self) -> Iterator[TrialKey]:
        """Yield the trials that have a directory: those that have begun."""
        for task, orchestrator, name in trial_directories(self.path / TRIALS_DIR):
            number = name.rpartition("-")[2]
            if number.isdecimal() and name == f"trial-{int(number)}":
                yield TrialKey(orchestrator, task.name, int(number))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run's lock, so that no other process works on it."""
        with lock_file(self.path / LOCK) as lock:
            if not lock.take():
                raise YouBenchaError(
                    "RUN_IN_USE",
                    f"Another process{lock.holder()} works on the run {self.path}.",
                    hint="Wait for it to finish, or stop it, then try again.",
                )
            yield


class TrialDirectory:
    """The directory of one trial in a run."""

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self._name = name

    def attempt(self, number: int) -> Path:
        """The run directory of an attempt."""
        return self.path / ATTEMPTS_DIR / str(number)

    def attempt_id(self, number: int) -> str:
        """Unique, and begins with the name of the run."""
        return f"{self._name}-{number}"

    def attempts(self) -> list[int]:
        """The numbers of the attempts that have a directory, in order."""
        try:
            names = os.listdir(self.path / ATTEMPTS_DIR)  # noqa: PTH208 - only the names are wanted
        except FileNotFoundError:
            return []
        return sorted(int(name) for name in names if name.isdecimal())

    def meta(self) -> TrialMeta | None:
        """Read `meta.json`; None if there is none, or if it is damaged."""
        try:
            return read_meta(self.path)
        except (OSError, ValidationError):
            return None

    def save(self, meta: TrialMeta, *, task_text: str, attempt: int | None) -> None:
        """Write the results of a finished trial; `meta.json` last, because it marks the trial as finished."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            _write_synced(self.path / TASK_FILE, task_text.encode())
            if attempt is not None:
                _link(self.attempt(attempt) / ARTIFACTS / DIFF_FILE, self.path / PATCH_FILE)
            self.replace_meta(meta)
        except OSError as error:
            raise not_writable(self.path, error) from error

    def replace_meta(self, meta: TrialMeta) -> None:
        """Write `meta.json` in place of the one there is."""
        try:
            _write_synced(self.path / META_FILE, as_json(meta).encode())
            _sync_directory(self.path)
        except OSError as error:
            raise not_writable(self.path, error) from error


def create_run(results: Path, info: RunInfo, *, config: Path | None = None) -> ArenaRun:
    """Make the directory of a new run, with `run.json` and a copy of the configuration."""
    try:
        runs = make_results(results)
        run = ArenaRun(_new_directory(runs))
        if config is not None:
            _write_synced(run.path / config.name, config.read_bytes())
        _write_synced(run.path / RUN_FILE, as_json(info).encode())
        _sync_directory(run.path)
        _sync_directory(runs)
    except OSError as error:
        raise not_writable(results, error) from error
    _set_latest(results, run.name)
    return run


def find_arena_run(results: Path, which: str | None = None) -> ArenaRun:
    """Find a run by its path, its name or the beginning of it; by default the latest."""
    path = locate_arena_run(results, which or LATEST)
    if not is_arena_run(path):
        raise _not_a_run(path, f"it has neither {RUN_FILE} nor {TRIALS_DIR}")
    return ArenaRun(path)


def make_results(results: Path) -> Path:
    """Make the results directory if needed, and return the directory of its runs."""
    runs = results / RUNS_DIR
    if not runs.is_dir():
        if results.exists() and (not results.is_dir() or any(results.iterdir())):
            problem = "contains something other than results of youBencha" if results.is_dir() else "is not a directory"
            raise YouBenchaError(
                "RESULTS_NOT_OURS",
                f"{results} {problem}.",
                hint="Choose another directory with `--results` or `results.dir`, or empty this one.",
            )
        runs.mkdir(parents=True, exist_ok=True)
        (results / ".gitignore").write_text(_IGNORE_ALL)
    return runs


def _new_directory(runs: Path) -> Path:
    while True:
        path = runs / f"{time.strftime('%Y-%m-%dT%H-%M-%SZ', time.gmtime())}-{os.urandom(4).hex()}"
        with suppress(FileExistsError):
            path.mkdir(mode=0o755)
            return path


def _set_latest(results: Path, name: str) -> None:
    """Replace the link atomically; write a file with the path where links are not possible."""
    target = str(Path(RUNS_DIR, name))
    with replacing(results / LATEST) as partial:
        try:
            partial.symlink_to(target, target_is_directory=True)
        except (OSError, NotImplementedError):
            partial.write_text(target)


def _write_synced(path: Path, data: bytes) -> None:
    """Write the whole file or nothing, and have it on the disk before it gets its name."""
    with replacing(path) as partial, partial.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(path: Path) -> None:
    if os.name == "nt":
        return  # directories cannot be opened there
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _link(source: Path, target: Path) -> None:
    """Give a file a second name, or copy it where that is not possible. Nothing if there is none."""
    with suppress(FileNotFoundError), replacing(target) as partial:
        try:
            os.link(source, partial, follow_symlinks=False)
        except (OSError, NotImplementedError):
            partial.write_bytes(read_nofollow(source.parent, source.name, 1 << 32))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.as_posix().encode()).hexdigest()[:12]


def _not_a_run(path: Path, reason: str) -> YouBenchaError:
    return YouBenchaError("RUN_INVALID", f"{path} is not a run: {reason}.", hint="`thunderdome list` lists the runs.")


def not_writable(path: Path, error: OSError) -> YouBenchaError:
    return YouBenchaError(
        "RESULTS_NOT_WRITABLE",
        f"Cannot write {path}: {error.strerror or error}",
        hint="Free some space, then continue with `--resume`: finished trials are kept.",
    )
