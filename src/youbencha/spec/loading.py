"""Files into models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from youbencha.errors import ConfigError, Problem
from youbencha.spec.document import Unreadable, read_document
from youbencha.spec.problems import problems_of

MAX_BYTES = 1024 * 1024

Model = TypeVar("Model", bound=BaseModel)


def load_yaml_model(
    path: Path, model: type[Model], *, code: str, what: str, context: Mapping[str, Any] | None = None
) -> Model:
    """Read a YAML or JSON file. Whatever is wrong is a ConfigError that names file, line and column."""
    try:
        text = _read(path)
    except _Refused as refused:
        raise ConfigError(code, what, [Problem("", str(refused), file=path)]) from None
    return parse_yaml_model(text, model, code=code, what=what, file=path, context=context)


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
    try:
        document = read_document(_tabs_to_spaces(text) if _is_json(file) else text)
    except Unreadable as unreadable:
        raise ConfigError(code, what, _in_file(unreadable.problems, file)) from None
    if document.data is None:
        raise ConfigError(code, what, [Problem("", "is empty", file=file)])
    try:
        return model.model_validate(document.data, context=context)
    except ValidationError as error:
        problems = problems_of(error, model, locate=document.locate)
        raise ConfigError(code, what, _in_file(problems, file)) from None


class _Refused(Exception):
    pass


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise _Refused("there is no such file") from None
    except IsADirectoryError:
        raise _Refused("is a directory, not a file") from None
    except OSError as error:
        raise _Refused(f"cannot be read: {error.strerror or error}") from None
    if len(raw) > MAX_BYTES:
        raise _Refused(f"is larger than {MAX_BYTES // 1024 // 1024} MiB")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise _Refused(f"is not UTF-8 text (line {line})") from None


def _is_json(file: Path | None) -> bool:
    return file is not None and file.suffix.lower() == ".json"


def _tabs_to_spaces(text: str) -> str:
    """JSON may have tabs anywhere, YAML not. No JSON string holds a bare tab, so this is exact."""
    return text.replace("\t", " ")


def _in_file(problems: Sequence[Problem], file: Path | None) -> list[Problem]:
    return [replace(problem, file=file) for problem in problems]
