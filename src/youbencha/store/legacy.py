"""Read what the originals wrote: documents of the original youBencha, and `meta.json` of the original Thunderdome.

What they do not have is unknown. The tokens and costs of the original youBencha are ignored, because they were guessed
from the length of the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from youbencha.store.arena import TrialMeta
from youbencha.text import UNKNOWN

_EPOCH = "1970-01-01T00:00:00.000Z"
_STATUSES = ("success", "failed", "timeout")
_ROLES = ("user", "assistant", "system")


def is_original(meta: TrialMeta) -> bool:
    """Whether a result is the original Thunderdome's, which does not say whether the agent was measured."""
    return meta.valid is None and meta.outcome is None


def without_zeros(meta: TrialMeta) -> TrialMeta:
    """Turn the original's zeros into unknowns: it wrote 0 for what it had not measured, and no trial uses 0 tokens."""
    unknown = {name: None for name in ("total_cost_usd", "total_tokens") if getattr(meta, name) == 0}
    return meta.model_copy(update=unknown) if unknown and is_original(meta) else meta


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
        "evaluators": [_evaluator(_map(item), moment) for item in _list(old.get("evaluators"))],
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
    messages = [_map(item) for item in _list(old.get("messages"))]
    results = {item.get("tool_call_id"): item.get("content") for item in messages if item.get("role") == "tool"}
    calls = [_map(call) for item in messages for call in _list(item.get("tool_calls"))]
    return {
        "agent_info": _kept(_map(old.get("agent")), "name", "version", "adapter_version"),
        "model_info": _kept(_map(old.get("model")), "name", "provider"),
        "execution": _whole(
            _kept(_map(old.get("execution")), "started_at", "completed_at", "duration_ms", "exit_code", "status")
        ),
        "messages": [_kept(item, "role", "content", "timestamp") for item in messages if item.get("role") in _ROLES],
        "tool_calls": [_tool_call(call, results) for call in calls],
    }


def _evaluator(old: Mapping[str, Any], moment: str | None) -> dict[str, Any]:
    kept = _whole(_kept(old, "evaluator", "status", "message", "duration_ms", "timestamp"))
    new = {"message": "", "timestamp": moment or _EPOCH, **kept, "metrics": dict(_map(old.get("metrics")))}
    if isinstance(old.get("error"), Mapping):
        new["error"] = _kept(old["error"], "message", "code", "stack_trace")
    new["artifacts"] = [_artifact(item) for item in _list(old.get("artifacts"))]
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
    verdicts = [_map(item) for item in _list(assertions)]
    if not verdicts or not all(isinstance(item.get("passed"), bool) and item.get("name") for item in verdicts):
        return None
    return [_kept(item, "name", "passed", "expected", "actual", "message") for item in verdicts]


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
