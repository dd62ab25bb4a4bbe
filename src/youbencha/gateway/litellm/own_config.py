"""A configuration of LiteLLM that the user wrote: what it needs from us. Pure, but for reading the file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.gateway.litellm.config import FROM_ENVIRONMENT, MASTER_KEY


class OwnConfig(NamedTuple):
    variables: frozenset[str]
    """Of the environment, that it names."""
    master_key: str | None
    """If it has one of its own, word for word."""
    master_key_env: str = MASTER_KEY
    """Where it looks for one, if not."""


def read_own_config(path: Path) -> OwnConfig:
    try:
        return parse_own_config(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise YouBenchaError(
            "LITELLM_CONFIG_INVALID",
            f"{path} cannot be used as LiteLLM's configuration: {reason}",
            hint="It is the file that `litellm --config` takes. Without one, we write it.",
        ) from error


def parse_own_config(text: str) -> OwnConfig:
    """Raises ValueError for what is no such configuration."""
    document = _load(text)
    general = document.get("general_settings")
    key = general.get("master_key") if isinstance(general, dict) else None
    variables = frozenset(_variables(document))
    if not isinstance(key, str):
        return OwnConfig(variables, None)
    if key.startswith(FROM_ENVIRONMENT):
        name = key.removeprefix(FROM_ENVIRONMENT)
        return OwnConfig(variables - {name}, None, name)
    return OwnConfig(variables, key)


def _load(text: str) -> dict[str, Any]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        document = YAML(typ="safe", pure=True).load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ValueError(f"{where}{error.problem}") from error
    except YAMLError as error:
        raise ValueError("it is not YAML") from error
    if not isinstance(document, dict):
        raise ValueError("it has no settings, such as `model_list`")
    return document


def _variables(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        value = [*value.values()]
    if isinstance(value, list):
        for item in value:
            yield from _variables(item)
    elif isinstance(value, str) and value.startswith(FROM_ENVIRONMENT):
        yield value.removeprefix(FROM_ENVIRONMENT)
