"""No secret in a record, wherever it came from: a file's name, a model's name, an evaluator's message.

Values that only say which of a few things is the case are left alone: a password that happens to be `passed` must not
make a results file unreadable.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel

from youbencha.log import as_json
from youbencha.process import Redactor

Record = TypeVar("Record", bound=BaseModel)

_NOT_FREE = frozenset({
    "version", "type", "status", "overall_status", "role", "kind", "code", "cost_source", "timestamp", "started_at",
    "completed_at", "config_hash", "commit", "task_commit", "base_commit", "current_commit", "agent_sha256",
    "youbencha_version", "python_version", "evaluator", "hook",
})  # fmt: skip


def without_secrets(record: Record, redactor: Redactor) -> Record:
    """The same record, every text in it masked where it must be."""
    text = as_json(record)
    if redactor.text(text) == text:  # as good as always
        return record
    return type(record).model_validate(_masked(record.model_dump(), redactor))


def _masked(value: Any, redactor: Redactor, key: str = "") -> Any:
    if isinstance(value, str):
        return value if key in _NOT_FREE else redactor.text(value)
    if isinstance(value, dict):
        return {name: _masked(item, redactor, str(name)) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(item, redactor, key) for item in value]
    return value
