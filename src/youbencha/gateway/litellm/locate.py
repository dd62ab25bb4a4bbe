"""Find the program `litellm`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.process import find_executable

_NAME = "litellm"


def find_litellm(explicit: str | None, env: Mapping[str, str], toolbox_path: Path | None) -> Path:
    """The one that was named; else the one installed with us, the one on PATH, or the one in the toolbox."""
    if explicit is not None:
        return _named(explicit, env)
    # `pip install 'youbencha[litellm]'` puts it beside our own Python, which need not be on PATH.
    beside_us = {**env, "PATH": str(Path(sys.executable).parent)}
    found = find_executable(_NAME, beside_us) or find_executable(_NAME, env) or toolbox_path
    if found is None:
        raise YouBenchaError(
            "LITELLM_NOT_FOUND",
            "`gateway: litellm` needs LiteLLM, and it is not here",
            hint="`yb agents install litellm` gives it an environment of its own; `pip install 'youbencha[litellm]'` "
            "puts it into this one. `gateway: builtin` needs neither.",
        )
    return found


def _named(explicit: str, env: Mapping[str, str]) -> Path:
    path = Path(explicit).expanduser()
    found = find_executable(explicit, env) if path.name == explicit else path.absolute()
    if found is None or not found.is_file() or not os.access(found, os.X_OK):
        raise YouBenchaError(
            "LITELLM_NOT_FOUND",
            f"gateway.litellm.executable: {explicit} is no program that can be run",
            hint="Give the path of `litellm`, or leave it out: it is then looked for.",
        )
    return found
