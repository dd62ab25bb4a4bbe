"""What a program tells of its own tokens, in a file whose path it is given. Read leniently: it is a courtesy."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

from youbencha.adapters.cli_agent import SessionFacts, Task, fields
from youbencha.adapters.cli_agent.fields import Record
from youbencha.log.tokens import Tokens, usage_of

METRICS_VARIABLE = "YOUBENCHA_METRICS_FILE"
_LARGEST = 1024 * 1024


def metrics_file(task: Task[Any]) -> Path:
    return task.scratch / "metrics.json"


def with_metrics(task: Task[Any], facts: SessionFacts) -> SessionFacts:
    said = _read(metrics_file(task))
    if not said:
        return facts
    tokens = Tokens(
        fields.count(said.get("input_tokens")),
        fields.count(said.get("output_tokens")),
        fields.count(said.get("cache_read_tokens")),
        fields.count(said.get("cache_creation_tokens")),
    )
    cost = fields.amount(said.get("cost_usd"))
    known = tokens != Tokens() or cost is not None
    told: dict[str, Any] = {
        "usage": usage_of(tokens, cost, partial=False) if known else None,
        "turns": fields.count(said.get("turns")),
        "tools_used": _tools(said.get("tools_used")),
        "model": fields.text(said.get("model")),
        "session_id": fields.text(said.get("session_id")),
    }
    return facts.model_copy(update={name: value for name, value in told.items() if value})


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
