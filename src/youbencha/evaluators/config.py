"""An evaluator's configuration, from what a person wrote to its model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from youbencha.errors import ConfigError, Problem
from youbencha.spec import problems_of

Model = TypeVar("Model", bound=BaseModel)


def config_problems(model: type[Model], config: Mapping[str, Any]) -> list[Problem]:
    """Everything that is wrong, for `check_config`."""
    try:
        model.model_validate(dict(config))
    except ValidationError as error:
        return problems_of(error, model)
    return []


def read_config(model: type[Model], config: Mapping[str, Any], evaluator: str) -> Model:
    """The configuration, or one error with every problem: `evaluate` may be called without `check_config`."""
    try:
        return model.model_validate(dict(config))
    except ValidationError as error:
        what = f"The configuration of {evaluator}"
        raise ConfigError("EVALUATOR_CONFIG_INVALID", what, problems_of(error, model)) from None
