"""What a program tells of its own tokens, in a file whose path it is given. Read leniently: it is a courtesy.

Thunderdome's adapters write it into the workspace instead. There it is no part of their work: it is taken out, and
kept with the artifacts.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from youbencha.adapters.cli_agent import SessionFacts, Task, fields
from youbencha.adapters.cli_agent.fields import Record
from youbencha.log.sidecar import SIDECAR
from youbencha.log.tokens import Tokens, usage_of
from youbencha.process import Redactor

METRICS_VARIABLE = "YOUBENCHA_METRICS_FILE"
_LARGEST = 1024 * 1024


def metrics_file(task: Task[Any]) -> Path:
    return task.scratch / "metrics.json"


def look_before(task: Task[Any]) -> None:
    """A file of that name that the repository brings is none of ours."""
    if os.path.lexists(task.workspace / SIDECAR):
        _brought(task).touch()


def with_metrics(task: Task[Any], facts: SessionFacts, redactor: Redactor) -> SessionFacts:
    left = {} if _brought(task).exists() else _taken_out(task, redactor)
    said = _read(metrics_file(task)) or left
    if not said:
        return facts
    tokens = Tokens(
        fields.count(said.get("input_tokens")),
        fields.count(said.get("output_tokens")),
        fields.count(said.get("cache_read_tokens")),
        fields.count(said.get("cache_creation_tokens")),
    )
    cost = fields.amount(said.get("cost_usd"))
    if cost is None:
        cost = fields.amount(said.get("total_cost_usd"))
    known = tokens != Tokens() or cost is not None
    told: dict[str, Any] = {
        "usage": usage_of(tokens, cost, partial=False) if known else None,
        "turns": fields.count(said.get("turns")),
        "tools_used": _tools(said.get("tools_used")),
        "model": fields.text(said.get("model")),
        "session_id": fields.text(said.get("session_id")),
    }
    return facts.model_copy(update={name: value for name, value in told.items() if value})


def _brought(task: Task[Any]) -> Path:
    return task.scratch / "brings-sidecar"


def _taken_out(task: Task[Any], redactor: Redactor) -> Record:
    path = task.workspace / SIDECAR
    said = _read(path)
    try:
        path.unlink(missing_ok=True)
        if said:
            import orjson

            kept = redactor.text(orjson.dumps(said, option=orjson.OPT_INDENT_2).decode())
            task.artifacts.mkdir(parents=True, exist_ok=True)
            (task.artifacts / SIDECAR).write_text(kept, encoding="utf-8")
    except OSError:  # a directory, say: then it is part of what the agent did
        pass
    return said


def _tools(value: object) -> dict[str, int]:
    """`{"Bash": 3}`, or the names one by one: `["Bash", "Read", "Bash"]`."""
    if isinstance(value, dict):
        counted = ((name, fields.count(times)) for name, times in value.items())
        return {name: times for name, times in counted if times is not None}
    names = fields.texts(value)
    return {name: names.count(name) for name in dict.fromkeys(names)}


def _read(path: Path) -> Record:
    import orjson

    try:
        # An agent may have put anything there; a pipe would be waited on for ever.
        state = path.lstat()
        if not stat.S_ISREG(state.st_mode) or state.st_size > _LARGEST:
            return {}
        return fields.mapping(orjson.loads(path.read_bytes()))
    except (OSError, ValueError):
        return {}
