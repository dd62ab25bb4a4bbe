"""Files of the original youBencha, as they would be today. Lenient: what was not written then is unknown now.

Its tokens and costs are not taken over: they were guessed from the length of the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from youbencha.report.formatting import UNKNOWN

_EPOCH = "1970-01-01T00:00:00.000Z"
_STATUSES = ("success", "failed", "timeout")
_ROLES = ("user", "assistant", "system")


def modern_results(old: Mapping[str, Any], run_id: str) -> dict[str, Any]:
    """A document for ResultsBundle. What is missing and cannot be done without is left missing: the model says so."""
    case = _map(old.get("test_case") or old.get("suite"))
    execution = _map(old.get("execution"))
    moment = execution.get("completed_at") or execution.get("started_at")
    document = {
        "test_case": _case(case, run_id),
        "execution": _execution(execution),
        "agent": _agent(old.get("agent")),
        "evaluators": [_evaluator(_map(each), moment) for each in _list(old.get("evaluators"))],
        "outcome": None,
        "identity": _identity(case, execution, _map(old.get("agent")), run_id),
        "artifacts": _kept(_map(old.get("artifacts")), "agent_log", "reports", "evaluator_artifacts"),
    }
    if isinstance(old.get("summary"), Mapping):
        document["summary"] = _kept(old["summary"], "total_evaluators", "passed", "failed", "skipped", "overall_status")
    return document


def modern_log(old: Mapping[str, Any]) -> dict[str, Any]:
    """A document for YouBenchaLog: the conversation, and the tools that were called in it."""
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


def _case(case: Mapping[str, Any], run_id: str) -> dict[str, Any]:
    kept = _kept(case, "name", "description", "config_file", "config_hash", "repo", "branch", "commit")
    kept |= _kept(case, "expected_branch", "directory", "expected_directory")
    return {"name": run_id, "config_file": UNKNOWN, "config_hash": UNKNOWN, **kept}


def _execution(execution: Mapping[str, Any]) -> dict[str, Any]:
    environment = _kept(_map(execution.get("environment")), "os", "workspace_dir")
    kept = _whole(_kept(execution, "started_at", "completed_at", "duration_ms", "youbencha_version"))
    unknown = {"os": UNKNOWN, "python_version": UNKNOWN, "workspace_dir": UNKNOWN}
    return {"youbencha_version": UNKNOWN, **kept, "environment": {**unknown, **environment}}


def _agent(agent: Any) -> dict[str, Any] | None:
    if not isinstance(agent, Mapping):
        return None
    kept = _kept(agent, "type", "agent_name", "youbencha_log_path", "exit_code", "model")
    status = agent.get("status")
    return {"type": UNKNOWN, **kept, "status": status if status in _STATUSES else None}


def _evaluator(old: Mapping[str, Any], moment: str | None) -> dict[str, Any]:
    kept = _whole(_kept(old, "evaluator", "status", "message", "duration_ms", "timestamp"))
    new = {"message": "", "timestamp": moment or _EPOCH, **kept, "metrics": dict(_map(old.get("metrics")))}
    if isinstance(old.get("error"), Mapping):
        new["error"] = _kept(old["error"], "message", "code", "stack_trace")
    new["artifacts"] = [_artifact(each) for each in _list(old.get("artifacts"))]
    verdicts = _verdicts(old.get("assertions"))
    if verdicts is not None:
        new["assertions"] = verdicts
    elif old.get("assertions"):  # only what was asked for: whether each held, the file does not say
        new["metrics"]["assertions"] = old["assertions"]
    return new


def _verdicts(assertions: Any) -> list[dict[str, Any]] | None:
    """None unless every one of them says whether it held."""
    if isinstance(assertions, Mapping):
        assertions = [{"name": name, **_verdict(value)} for name, value in assertions.items()]
    found = [_map(each) for each in _list(assertions)]
    if not found or not all(isinstance(each.get("passed"), bool) and each.get("name") for each in found):
        return None
    return [_kept(each, "name", "passed", "expected", "actual", "message") for each in found]


def _verdict(value: Any) -> Mapping[str, Any]:
    return {"passed": value} if isinstance(value, bool) else _map(value)


def _artifact(artifact: Any) -> dict[str, Any]:
    if isinstance(artifact, str):
        return {"type": "file", "path": artifact}
    return {"type": "file", **_kept(_map(artifact), "type", "path", "description")}


def _identity(
    case: Mapping[str, Any], execution: Mapping[str, Any], agent: Mapping[str, Any], run_id: str
) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "youbencha_version": execution.get("youbencha_version") or UNKNOWN,
        "agent_type": agent.get("type"),
        "task_commit": case.get("commit"),
        "config_hash": case.get("config_hash") or UNKNOWN,
    }


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
    """JavaScript's numbers are not always whole; ours of milliseconds are."""
    spent = record.get("duration_ms")
    return {**record, "duration_ms": round(spent)} if isinstance(spent, float) else record


def _kept(record: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: record[name] for name in names if record.get(name) is not None}


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
