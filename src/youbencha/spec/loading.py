"""Files into models, in one step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from youbencha.spec.source import Model, parse_source, read_source


def load_yaml_model(
    path: Path, model: type[Model], *, code: str, what: str, context: Mapping[str, Any] | None = None
) -> Model:
    """Read a YAML or JSON file. Whatever is wrong is a ConfigError that names file, line and column."""
    return read_source(path, code=code, what=what).validated(model, context=context)


def parse_yaml_model(
    text: str,
    model: type[Model],
    *,
    code: str,
    what: str,
    file: Path | None = None,
    context: Mapping[str, Any] | None = None,
) -> Model:
    """The same from text; `file` is only named in the problems, and its ending tells JSON from YAML.

    `context` is handed to the model's validators, for what can only be checked with outside knowledge.
    """
    return parse_source(text, code=code, what=what, file=file).validated(model, context=context)
