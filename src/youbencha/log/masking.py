"""Mask secrets in what is written or shown. Everything is parsed as it came, and masked last.

The type of a field decides whether it is masked, not its name. Numbers, times, values from a fixed set and texts that
the harness itself writes are kept: a password that happens to be `passed` must not make the results unreadable.
Everything else is masked, including the keys of free-form mappings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel

from youbencha.events import (
    EvaluatorFinished,
    Event,
    IterationEnded,
    LoopEnded,
    LoopWaiting,
    PhaseStarted,
    TopicPublished,
    TrialEnded,
    WarningRaised,
)
from youbencha.log.model import UNMASKED, as_json

UNMASKED_IN_EVENTS: Mapping[type[Event], frozenset[str]] = {
    PhaseStarted: frozenset({"phase"}),
    EvaluatorFinished: frozenset({"evaluator", "status"}),
    WarningRaised: frozenset({"code"}),
    TopicPublished: frozenset({"source"}),
    IterationEnded: frozenset({"outcome"}),
    LoopWaiting: frozenset({"kind"}),
    LoopEnded: frozenset({"outcome"}),
    TrialEnded: frozenset({"outcome"}),
}
"""The fields of events whose texts are written by the harness."""

Mask = Callable[[str], str]
Model = TypeVar("Model", bound=BaseModel)


def without_secrets(record: Model, mask: Mask) -> Model:
    """Mask every secret in the record: in names of files and models, and in messages."""
    text = as_json(record, indent=None, exclude_none=True)
    return record if mask(text) == text else _masked_model(record, mask)  # nearly always as it is


def without_secrets_in_event(event: Event, mask: Mask) -> Event:
    kept = UNMASKED_IN_EVENTS.get(type(event), frozenset())
    values = {name: masked(value, mask) for name, value in vars(event).items() if name not in kept}
    changed = {name: value for name, value in values.items() if value != vars(event)[name]}
    return replace(event, **changed) if changed else event


def masked(value: Any, mask: Mask) -> Any:
    """Mask every text in a value, however deep it is nested, and the keys of mappings."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, BaseModel):
        return _masked_model(value, mask)
    if isinstance(value, Mapping):
        return _masked_mapping(value, mask)
    if isinstance(value, list | tuple):
        items = [masked(item, mask) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    return value


def _masked_mapping(values: Mapping[Any, Any], mask: Mask) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    for name, value in values.items():
        key = shown = masked(name, mask) if isinstance(name, str) else name
        while key in result:  # another key was masked in the same way
            key = f"{shown} ({len(result) + 1})"
        result[key] = masked(value, mask)
    return result


def _masked_model(record: Model, mask: Mask) -> Model:
    kept = _unmasked_fields(type(record))
    values = {name: value for name, value in record if name not in kept}
    changed = {name: new for name, value in values.items() if (new := masked(value, mask)) != value}
    return record.model_copy(update=changed)


@cache
def _unmasked_fields(model: type[BaseModel]) -> frozenset[str]:
    return frozenset(
        name
        for name, field in model.model_fields.items()
        if UNMASKED in field.metadata or _is_unmasked(field.annotation)
    )


def _is_unmasked(annotation: Any) -> bool:
    kind, arguments = get_origin(annotation), get_args(annotation)
    if kind is Annotated:
        return UNMASKED in arguments or _is_unmasked(arguments[0])
    if kind in (Union, UnionType):
        return all(map(_is_unmasked, arguments))
    if kind in (dict, tuple, list):
        return all(_is_unmasked(argument) for argument in arguments if argument is not ...)
    return kind is Literal or annotation in (int, float, bool, type(None))
