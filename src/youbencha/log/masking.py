"""Mask secrets in what is written or shown. Everything is parsed as it came, and masked last.

Structural values stay: a password that happens to be `passed` must not make the results unreadable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from pydantic import BaseModel

from youbencha.events import Event
from youbencha.log.model import as_json

_STRUCTURAL_KEYS = frozenset({
    "version", "type", "status", "overall_status", "role", "kind", "code", "cost_source", "timestamp", "started_at",
    "completed_at", "config_hash", "commit", "task_commit", "base_commit", "current_commit", "agent_sha256",
    "youbencha_version", "python_version", "evaluator", "hook", "subtype",
})  # fmt: skip

Mask = Callable[[str], str]
Model = TypeVar("Model", bound=BaseModel)


def without_secrets(record: Model, mask: Mask) -> Model:
    """Mask every secret in the record: in names of files and models, and in messages."""
    text = as_json(record)
    if mask(text) == text:  # nearly always
        return record
    return type(record).model_validate(masked(record.model_dump(), mask))


def without_secrets_in_event(event: Event, mask: Mask) -> Event:
    values = {name: masked(value, mask, name) for name, value in vars(event).items()}
    changed = {name: value for name, value in values.items() if value != vars(event)[name]}
    return replace(event, **changed) if changed else event


def masked(value: Any, mask: Mask, key: str = "") -> Any:
    """Mask the texts in a value as JSON has it; `key` is the key that it is found under."""
    if isinstance(value, str):
        return value if key in _STRUCTURAL_KEYS else mask(value)
    if isinstance(value, dict):
        return {name: masked(item, mask, str(name)) for name, item in value.items()}
    if isinstance(value, list | tuple):
        items = [masked(item, mask, key) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    return value
