"""The settings that hold where a command is given, and the variables that it is given."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from youbencha.errors import YouBenchaError

if TYPE_CHECKING:
    from youbencha.spec.settings import LoadedSettings


def settings_here() -> LoadedSettings:
    from youbencha.spec.settings import load_settings

    loaded = load_settings(Path.cwd(), Path.home())
    for warning in loaded.warnings:
        print(f"warning  {warning}", file=sys.stderr)
    return loaded


def variables_given(written: Sequence[str] | None) -> dict[str, Any]:
    """`--var NAME=TEXT` or `--var NAME:=NUMBER`, as often as it was given."""
    return dict(_variable(each) for each in written or ())


def _variable(written: str) -> tuple[str, Any]:
    name, equals, value = written.partition("=")
    is_json = name.endswith(":")
    name = name.removesuffix(":")
    if not equals or not name.isidentifier():
        hint = "Write NAME=TEXT, or NAME:=VALUE for a number, true or false."
        raise YouBenchaError("VARIABLE_INVALID", f"--var {written}: not a variable", hint=hint)
    return name, _json_value(name, value) if is_json else value


def _json_value(name: str, value: str) -> Any:
    try:
        found = json.loads(value)
    except ValueError:
        found = None
    if not isinstance(found, int | float | str):
        hint = f"For text write {name}=TEXT."
        raise YouBenchaError("VARIABLE_INVALID", f"--var {name}:={value}: no number, true or false", hint=hint)
    return found
