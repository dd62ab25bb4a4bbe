"""results.json -> ResultsBundle, wherever a person points: the file, its directory, a run, or all runs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.workspace.run_name import when_made

if TYPE_CHECKING:
    from pydantic import ValidationError

    from youbencha.log import ResultsBundle

RESULTS, ARTIFACTS = "results.json", "artifacts"
LARGEST_RESULTS = 64 * 1024 * 1024
_WORKSPACES = (".youbencha-workspace", ".youbencha-eval")
_MOST_PROBLEMS = 5
_HALF_A_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")


def find_results(path: Path) -> Path:
    """The results file that is meant. Where there are several runs, the newest."""
    if path.is_file():
        return path
    if not path.exists():
        raise _not_found(f"There is no file or directory {path}.")
    for own in (path / RESULTS, path / ARTIFACTS / RESULTS):  # before those of runs below it
        if own.is_file():
            return own
    newest = max(runs_below(path), default=None)
    if newest is None:
        raise _not_found(f"There is no {RESULTS} in {path}, nor in a run below it.")
    if not newest.has_results():
        raise _newest_has_none(newest, max((run for run in runs_below(path) if run.has_results()), default=None))
    return newest.results


def load_results(path: Path) -> ResultsBundle:
    """Takes what `find_results` takes. Files of the original youBencha, too."""
    file = find_results(path)
    document = _document(file)
    if "identity" not in document:
        from youbencha.report.older import modern_results

        document = modern_results(document, run_id=_run_name(file))
    return _bundle(document, file)


class FoundRun(NamedTuple):
    """The one that began last is the greatest; in the same second, the one whose results were written last."""

    began: float
    written_ns: int
    path: Path

    @property
    def results(self) -> Path:
        return self.path / ARTIFACTS / RESULTS

    def has_results(self) -> bool:
        try:
            return self.results.is_file()
        except OSError:  # nobody may look
            return False


def runs_below(directory: Path) -> Iterator[FoundRun]:
    """The runs in a directory, and in the workspaces in it."""
    for root in (directory, *(directory / name for name in _WORKSPACES)):
        if root.is_dir():
            yield from (run for each in root.iterdir() if (run := _run(each)))


def _run(path: Path) -> FoundRun | None:
    """What has results, or is called as we call a run and has none: passed over, it would be taken for another.

    An agent may have left one that nobody can look into; or it is being removed in this moment.
    """
    made = when_made(path.name)
    began = made.timestamp() if made else None
    found = FoundRun(began or 0.0, 0, path)
    try:
        if found.has_results():
            written = found.results.stat().st_mtime_ns
            return FoundRun(written / 1e9 if began is None else began, written, path)
        return found if began is not None and (path / ARTIFACTS).is_dir() else None
    except OSError:
        return found if began is not None and path.is_dir() else None


def _document(file: Path) -> dict[str, Any]:
    try:
        size = file.stat().st_size
        if size > LARGEST_RESULTS:
            raise _invalid(file, f"it has {size:,} bytes, and {LARGEST_RESULTS:,} is the most that is read")
        text = file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _invalid(file, f"it is no UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise _not_found(f"Cannot read {file}: {error.strerror}.") from error
    if not text.strip():
        raise _invalid(file, "it is empty")
    try:
        document = json.loads(text, parse_constant=lambda name: None)  # NaN says that nothing is known
        document = _mended(document) if _HALF_A_CHARACTER.search(text) else document
    except RecursionError as error:
        raise _invalid(file, "it is nested too deeply") from error
    except ValueError as error:  # besides wrong JSON: a number with too many digits
        raise _invalid(file, f"it is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise _invalid(file, "it holds no object")
    return document


def _mended(value: Any) -> Any:
    """Programs escape file names that are no text in halves of characters, which no model takes."""
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case list():
            return [_mended(each) for each in value]
        case dict():
            return {_mended(name): _mended(each) for name, each in value.items()}
    return value


def _bundle(document: dict[str, Any], file: Path) -> ResultsBundle:
    from pydantic import ValidationError

    from youbencha.log import ResultsBundle

    try:
        return ResultsBundle.model_validate(document)
    except ValidationError as error:
        problems = error
    # Keys of a version that is newer than this one: leaving them out loses nothing that could be shown.
    for problem in problems.errors(include_url=False):
        if problem["type"] == "extra_forbidden":
            _remove(document, problem["loc"])
    try:
        return ResultsBundle.model_validate(document)
    except ValidationError as error:
        raise _invalid(file, _described(error)) from error


def _remove(document: Any, location: tuple[int | str, ...]) -> None:
    for step in location[:-1]:
        document = document[step]
    if isinstance(document, dict):
        document.pop(location[-1], None)


def _described(error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    lines = [f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in problems[:_MOST_PROBLEMS]]
    if len(problems) > _MOST_PROBLEMS:
        lines.append(f"and {len(problems) - _MOST_PROBLEMS} more")
    return "".join(f"\n  - {line}" for line in lines)


def _run_name(file: Path) -> str:
    parent = file.absolute().parent
    return parent.parent.name if parent.name == ARTIFACTS else parent.name


def _not_found(message: str) -> YouBenchaError:
    hint = "Give a results.json, the directory of a run, or the workspace that holds the runs."
    return YouBenchaError("RESULTS_NOT_FOUND", message, hint=hint)


def _newest_has_none(newest: FoundRun, other: FoundRun | None) -> YouBenchaError:
    """To report an older one in its place would be to tell a person of a run that they do not mean."""
    message = f"The newest run, {newest.path}, has no {RESULTS}: it was ended before there were any, or goes on."
    if other is None:
        return _not_found(message)
    hint = f"The newest run that has some is {other.path}: give its path to report it."
    return YouBenchaError("RESULTS_NOT_FOUND", message, hint=hint)


def _invalid(file: Path, reason: str) -> YouBenchaError:
    hint = "A results.json is what `yb run` and `yb eval` leave in a run's artifacts directory."
    return YouBenchaError("RESULTS_INVALID", f"{file} holds no results: {reason}", hint=hint)
