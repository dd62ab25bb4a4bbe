"""An evaluator's configuration, from what a person wrote to its model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from youbencha.errors import ConfigError, Problem
from youbencha.spec import problems_of

Model = TypeVar("Model", bound=BaseModel)
Contradictions = Callable[[Model], Iterable[Problem]]
"""What is wrong with parts that are each right. A validator of the model could tell only the first."""


def config_problems(
    model: type[Model], config: Mapping[str, Any], contradictions: Contradictions[Model] | None = None
) -> list[Problem]:
    """Everything that is wrong, for `check_config`."""
    try:
        read = model.model_validate(dict(config))
    except ValidationError as error:
        return problems_of(error, model)
    return list(contradictions(read)) if contradictions else []


def read_config(
    model: type[Model],
    config: Mapping[str, Any],
    evaluator: str,
    contradictions: Contradictions[Model] | None = None,
) -> Model:
    """The configuration, or one error with every problem: `evaluate` may be called without `check_config`."""
    problems = config_problems(model, config, contradictions)
    if problems:
        raise ConfigError("EVALUATOR_CONFIG_INVALID", f"The configuration of {evaluator}", problems)
    return model.model_validate(dict(config))
