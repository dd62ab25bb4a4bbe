"""Find and load results: of a file, its directory, a run, or the newest of all runs.

Files of the original youBencha are upgraded; what they do not have is unknown. Their tokens and costs are ignored,
because they were guessed from the length of the text.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.files import read_file, read_nofollow
from youbencha.json_lines import amount, count, loads_lossy, mapping
from youbencha.store.arena import arena_run_started_at
from youbencha.store.layout import ATTEMPTS_DIR, BENCH_DIR, RESULTS_FILE, RUN_FILE, RUNS_DIR, TRIALS_DIR, WORKSPACES
from youbencha.text import UNKNOWN
from youbencha.usage import Tokens, add_all
from youbencha.workspace.run_dir import ARTIFACTS, run_started_at

if TYPE_CHECKING:
    from pydantic import ValidationError

    from youbencha.log.model import Usage
    from youbencha.store.bundle import ResultsBundle


LARGEST_RESULTS = 64 * 1024 * 1024
_MOST_PROBLEMS = 5
_HALF_A_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")
_EPOCH = "1970-01-01T00:00:00.000Z"
_STATUSES = ("success", "failed", "timeout")
_ROLES = ("user", "assistant", "system")
_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens")
_MOST_TOKENS = 10**12


def find_results(path: Path) -> Path:
    """Return the results file for a path; of several runs, that of the newest."""
    if path.is_file():
        return path
    if not path.exists():
        raise _not_found(f"There is no file or directory {path}.")
    candidates = (path / RESULTS_FILE, path / ARTIFACTS / RESULTS_FILE, *_results_of_attempts(path))
    for candidate in candidates:  # before those of runs below it
        if candidate.is_file():
            return candidate
    return newest_results([path])


def _results_of_attempts(trial: Path) -> Iterator[Path]:
    """Yield where the results of a trial of the arena may be, the last attempt first: that one counts."""
    try:
        numbers = [int(name) for name in os.listdir(trial / ATTEMPTS_DIR) if name.isdecimal()]  # noqa: PTH208
    except OSError:
        return
    for number in sorted(numbers, reverse=True):
        yield trial / ATTEMPTS_DIR / str(number) / ARTIFACTS / RESULTS_FILE


def newest_results(workspaces: Sequence[Path]) -> Path:
    """Return the results file of the newest run in these directories."""
    runs = sorted(run for path in workspaces for run in runs_below(path))
    if not runs:
        raise _not_found(f"There is no {RESULTS_FILE} in {' or '.join(map(str, workspaces))}, nor in a run below.")
    if not runs[-1].has_results():
        raise _newest_has_none(runs[-1], max((run for run in runs if run.has_results()), default=None))
    return runs[-1].results


def load_results(path: Path) -> ResultsBundle:
    """Load the results that `find_results` finds, including those of the original youBencha."""
    file = find_results(path)
    document = _document(file)
    if "identity" not in document:
        document = upgrade_results(document, run_id=_run_name(file))
    bundle = _bundle(document, file)
    return bundle if bundle.execution.complete else _with_ledger(bundle, file.parent)


def _with_ledger(bundle: ResultsBundle, artifacts: Path) -> ResultsBundle:
    """Add what the ledger knows to the results of a run that is not finished, such as one that was killed."""
    agent = bundle.agent
    if agent is None or agent.usage is not None:
        return bundle
    usage = ledger_usage(artifacts, agent.type)
    if usage is None or all(getattr(usage, name) is None for name in _TOKENS):
        return bundle
    return bundle.model_copy(update={"agent": agent.model_copy(update={"usage": usage})})


def ledger_usage(artifacts: Path, user: str | None = None) -> Usage | None:
    """What the ledger of a run knows, which may not be all: of one user of the gateway, or of all. None without one."""
    from youbencha.gateway.ledger import LEDGER_FILE
    from youbencha.log.model import usage_of

    try:
        lines = read_nofollow(artifacts, LEDGER_FILE, LARGEST_RESULTS).splitlines()
    except OSError:
        return None
    calls = [call for call in map(mapping, map(loads_lossy, lines)) if user is None or call.get("key") == user]
    tokens = [Tokens(*(count(call.get(name), _MOST_TOKENS) for name in _TOKENS)) for call in calls]
    costs = [amount(call.get("cost_usd")) for call, used in zip(calls, tokens, strict=True) if used != Tokens()]
    known = [cost for cost in costs if cost is not None]
    spent = float(sum(known)) if len(known) == len(costs) else None
    return usage_of(add_all(tokens), spent, partial=True, cost_source="gateway")


def find_matrix(path: Path | None, workspaces: Sequence[Path]) -> Path | None:
    """The directory of a matrix of trials, if that is what a path means: itself, or the newest of its runs.

    Without a path, or for a workspace, it is None if a single run began later.
    """
    places = workspaces if path is None else [path, *(path / name for name in WORKSPACES)]
    if path is not None and (path / RUN_FILE).is_file() and (path / TRIALS_DIR).is_dir():
        return path
    matrices = [run for place in places for below in (place, place / BENCH_DIR) for run in _matrices_in(below)]
    if not matrices:
        return None
    newest = max(matrices, key=_begun)
    single = max((run.began for place in places for run in runs_below(place)), default=0.0)
    return newest if _begun(newest) >= single else None


def _matrices_in(directory: Path) -> Iterator[Path]:
    runs = directory / RUNS_DIR
    if runs.is_dir():
        yield from (run for run in runs.iterdir() if (run / RUN_FILE).is_file())


def _begun(run: Path) -> float:
    """The time in the run's name, because `--resume` rewrites `run.json`; without one, that of the file."""
    began = arena_run_started_at(run.name)
    return began.timestamp() if began else (run / RUN_FILE).stat().st_mtime


class RunLocation(NamedTuple):
    """A run, ordered by its start; within the same second, by when its results were written."""

    began: float
    written_ns: int
    path: Path

    @property
    def results(self) -> Path:
        return self.path / ARTIFACTS / RESULTS_FILE

    def has_results(self) -> bool:
        try:
            return self.results.is_file()
        except OSError:
            return False


def runs_below(directory: Path) -> Iterator[RunLocation]:
    """Yield the runs in a directory, and in the workspaces in it."""
    for root in (directory, *(directory / name for name in WORKSPACES)):
        if root.is_dir():
            yield from (run for each in root.iterdir() if (run := _run(each)))


def _run(path: Path) -> RunLocation | None:
    """Return a directory as a run if it has results, or the name of a run: one without results must not be skipped.

    It may be unreadable because of the agent, or may be removed at the same time.
    """
    made = run_started_at(path.name)
    began = made.timestamp() if made else None
    found = RunLocation(began or 0.0, 0, path)
    try:
        if found.has_results():
            written = found.results.stat().st_mtime_ns
            return RunLocation(written / 1e9 if began is None else began, written, path)
        return found if began is not None and (path / ARTIFACTS).is_dir() else None
    except OSError:
        return found if began is not None and path.is_dir() else None


def _document(file: Path) -> dict[str, Any]:
    try:
        text = read_file(file, LARGEST_RESULTS).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _invalid(file, f"it is not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise _not_found(f"{file} {error.strerror}.") from error
    if not text.strip():
        raise _invalid(file, "it is empty")
    try:
        document = json.loads(text, parse_constant=lambda name: None)  # NaN: unknown
        document = _without_surrogates(document) if _HALF_A_CHARACTER.search(text) else document
    except RecursionError as error:
        raise _invalid(file, "it is nested too deeply") from error
    except ValueError as error:  # besides wrong JSON: a number with too many digits
        raise _invalid(file, f"invalid JSON: {error}") from error
    if not isinstance(document, dict):
        raise _invalid(file, "it is not an object")
    return document


def _without_surrogates(value: Any) -> Any:
    """Escape lone surrogates: JSON may contain them (in file names that are not UTF-8), models may not."""
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case list():
            return [_without_surrogates(each) for each in value]
        case dict():
            return {_without_surrogates(name): _without_surrogates(each) for name, each in value.items()}
    return value


def _bundle(document: dict[str, Any], file: Path) -> ResultsBundle:
    from pydantic import ValidationError

    from youbencha.store.bundle import ResultsBundle

    try:
        return ResultsBundle.model_validate(document, extra="ignore")  # keys of a newer version could not be shown
    except ValidationError as error:
        raise _invalid(file, _described(error)) from error


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
    hint = "Give `--from` a results.json, the directory of a run, or the workspace that holds the runs."
    return YouBenchaError("RESULTS_NOT_FOUND", message, hint=hint)


def _newest_has_none(newest: RunLocation, other: RunLocation | None) -> YouBenchaError:
    """The error for a newest run without results: an older one is not reported instead."""
    message = f"The newest run, {newest.path}, has no {RESULTS_FILE}: it ended too early, or is still starting."
    if other is None:
        return _not_found(message)
    hint = f"The newest run with results is {other.path}: report it with `--from`."
    return YouBenchaError("RESULTS_NOT_FOUND", message, hint=hint)


def _invalid(file: Path, reason: str) -> YouBenchaError:
    hint = "`yb run` and `yb eval` write results.json into a run's artifacts directory."
    return YouBenchaError("RESULTS_INVALID", f"{file} is not a valid results file: {reason}", hint=hint)


def upgrade_results(old: Mapping[str, Any], run_id: str) -> dict[str, Any]:
    """Return a document for ResultsBundle. Missing required values stay missing: the model reports them."""
    case = _map(old.get("test_case") or old.get("suite"))
    execution, agent = _whole({"youbencha_version": UNKNOWN, **_map(old.get("execution"))}), _map(old.get("agent"))
    moment = execution.get("completed_at") or execution.get("started_at")
    environment = {"os": UNKNOWN, "python_version": UNKNOWN, "workspace_dir": UNKNOWN}
    status = agent.get("status") if agent.get("status") in _STATUSES else None
    return {
        **_kept(old, "summary", "artifacts"),
        "test_case": {"name": run_id, "config_file": UNKNOWN, "config_hash": UNKNOWN, **case},
        "execution": {**execution, "environment": {**environment, **_map(execution.get("environment"))}},
        "agent": {"type": UNKNOWN, **agent, "status": status, "usage": None} if agent else None,
        "evaluators": [_evaluator(_map(each), moment) for each in _list(old.get("evaluators"))],
        "outcome": None,
        "identity": {
            "run_id": run_id,
            "youbencha_version": execution["youbencha_version"],
            "agent_type": agent.get("type"),
            "task_commit": case.get("commit"),
            "config_hash": case.get("config_hash") or UNKNOWN,
        },
    }


def upgrade_log(old: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document for YouBenchaLog: the conversation and its tool calls."""
    messages = [_map(each) for each in _list(old.get("messages"))]
    results = {each.get("tool_call_id"): each.get("content") for each in messages if each.get("role") == "tool"}
    calls = [_map(call) for each in messages for call in _list(each.get("tool_calls"))]
    return {
        "agent_info": _kept(_map(old.get("agent")), "name", "version", "adapter_version"),
        "model_info": _kept(_map(old.get("model")), "name", "provider"),
        "execution": _whole(
            _kept(_map(old.get("execution")), "started_at", "completed_at", "duration_ms", "exit_code", "status")
        ),
        "messages": [_kept(each, "role", "content", "timestamp") for each in messages if each.get("role") in _ROLES],
        "tool_calls": [_tool_call(call, results) for call in calls],
    }


def _evaluator(old: Mapping[str, Any], moment: str | None) -> dict[str, Any]:
    kept = _whole(_kept(old, "evaluator", "status", "message", "duration_ms", "timestamp"))
    new = {"message": "", "timestamp": moment or _EPOCH, **kept, "metrics": dict(_map(old.get("metrics")))}
    if isinstance(old.get("error"), Mapping):
        new["error"] = _kept(old["error"], "message", "code", "stack_trace")
    new["artifacts"] = [_artifact(each) for each in _list(old.get("artifacts"))]
    verdicts = _verdicts(old.get("assertions"))
    if verdicts is not None:
        new["assertions"] = verdicts
    elif old.get("assertions"):  # the configured assertions without their results
        new["metrics"]["assertions"] = old["assertions"]
    return new


def _verdicts(assertions: Any) -> list[dict[str, Any]] | None:
    """Return the assertions' verdicts; None unless each of them has one."""
    if isinstance(assertions, Mapping):
        assertions = [
            {"name": name, **({"passed": value} if isinstance(value, bool) else _map(value))}
            for name, value in assertions.items()
        ]
    found = [_map(each) for each in _list(assertions)]
    if not found or not all(isinstance(each.get("passed"), bool) and each.get("name") for each in found):
        return None
    return [_kept(each, "name", "passed", "expected", "actual", "message") for each in found]


def _artifact(artifact: Any) -> dict[str, Any]:
    if isinstance(artifact, str):
        return {"type": "file", "path": artifact}
    return {"type": "file", **_kept(_map(artifact), "type", "path", "description")}


def _tool_call(call: Mapping[str, Any], results: Mapping[Any, Any]) -> dict[str, Any]:
    function = _map(call.get("function"))
    identifier = call.get("id") if isinstance(call.get("id"), str) else None
    result = results.get(identifier)
    return {
        "name": str(function.get("name") or UNKNOWN),
        "arguments": str(function.get("arguments") or ""),
        "id": identifier,
        "result": result if isinstance(result, str) else None,
    }


def _whole(record: dict[str, Any]) -> dict[str, Any]:
    """Round milliseconds, which are not always whole numbers in JavaScript."""
    spent = record.get("duration_ms")
    return {**record, "duration_ms": round(spent)} if isinstance(spent, float) else record


def _kept(record: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: record[name] for name in names if record.get(name) is not None}


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
