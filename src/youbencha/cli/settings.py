"""The settings that hold where a command is given, and the variables that it is given."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from youbencha.errors import YouBenchaError

if TYPE_CHECKING:
    from youbencha.spec.settings_files import LoadedSettings


def settings_here() -> LoadedSettings:
    from youbencha.spec.settings_files import load_settings

    loaded = load_settings(Path.cwd(), Path.home())
    for warning in loaded.warnings:
        print(f"warning  {warning}", file=sys.stderr)
    return loaded


def variables_given(written: Sequence[str] | None) -> dict[str, str]:
    """`--var NAME=VALUE`, as often as it was given."""
    return dict(_variable(each) for each in written or ())


def _variable(written: str) -> tuple[str, str]:
    name, equals, value = written.partition("=")
    if not equals or not name.isidentifier():
        raise YouBenchaError("VARIABLE_INVALID", f"--var {written}: not a variable", hint="Write NAME=VALUE.")
    return name, value
