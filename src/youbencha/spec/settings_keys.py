"""Which settings there are, and what a word on the command line means for one of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ValidationError

from youbencha.errors import ConfigError, Problem
from youbencha.spec.problems import problems_of
from youbencha.spec.settings import Settings
from youbencha.spec.settings_files import CODE

Scalar = str | int | float | bool

_LONGEST_NUMBER = 18
"""Beyond, a float would lose digits."""


def known_keys(model: type[BaseModel] = Settings, before: str = "") -> Iterator[str]:
    """Every key in dots, groups too: `agent`, `agent.model`."""
    for name, info in model.model_fields.items():
        yield f"{before}{name}"
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            yield from known_keys(info.annotation, f"{before}{name}.")


def check_key(key: str) -> None:
    """Refuse what is no setting, and name the nearest. Variables have whatever names their owner gives them."""
    known = list(known_keys())
    if key in known or re.fullmatch(r"variables\.[^.]+", key):
        return
    from youbencha.spec.messages import did_you_mean

    problem = Problem(key, "unknown key", did_you_mean(key, [*known, "variables.NAME"]))
    raise ConfigError(CODE, "The setting", [problem], hint="`yb config list` shows all of them.")


def meant(key: str, text: str, *, as_text: bool = False) -> Scalar:
    """The number or truth value that a text spells if the setting takes one, else the text."""
    check_key(key)
    spelled: Scalar = text if as_text else coerced(text)
    problems = _problems(key, spelled)
    if problems and not isinstance(spelled, str) and not _problems(key, text):
        return text  # a model may be called 4
    if problems:
        raise ConfigError(CODE, "The setting", problems)
    return spelled


def coerced(text: str) -> Scalar:
    """Only what would be written the same again is a number: 3.10 is a version, and 007 a name."""
    if text in ("true", "false"):
        return text == "true"
    for kind, shape in ((int, r"-?\d+"), (float, r"-?\d+\.\d+")):
        if re.fullmatch(shape, text, re.ASCII) and len(text) <= _LONGEST_NUMBER and str(kind(text)) == text:
            return kind(text)
    return text


def _problems(key: str, value: Scalar) -> list[Problem]:
    nested: Any = value
    for step in reversed(key.split(".")):
        nested = {step: nested}
    try:
        Settings.model_validate(nested)
    except ValidationError as error:
        return problems_of(error, Settings)
    return []
