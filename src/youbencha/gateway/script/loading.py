"""Script files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from youbencha.gateway.script.format import VARIABLES, Script
from youbencha.spec import load_yaml_model, parse_yaml_model

_CODE = "SCRIPT_INVALID"
_WHAT = "The model script"


def load_script(path: Path, *, variables: Mapping[str, str] | None = None) -> Script:
    """Read a script. With `variables` given, a `${name}` that is not among them is a problem already here."""
    return load_yaml_model(path, Script, code=_CODE, what=_WHAT, context=_context(variables))


def parse_script(text: str, *, variables: Mapping[str, str] | None = None) -> Script:
    """The same from text: handy in tests."""
    return parse_yaml_model(text, Script, code=_CODE, what=_WHAT, context=_context(variables))


def _context(variables: Mapping[str, str] | None) -> dict[str, Any] | None:
    return None if variables is None else {VARIABLES: variables}
