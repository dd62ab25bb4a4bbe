"""Which program a script's `command` means."""

from __future__ import annotations

from pathlib import Path

NO_PROGRAM_HINT = "A path with a slash (./setup.sh) starts at the test case's file; a bare name is looked for on PATH."
SEVERAL_WORDS_HINT = "`command` is one program: put its arguments into `args`, or write `shell: true`."


def is_path(program: str) -> bool:
    """Rather than a name on PATH."""
    return program.startswith("~") or Path(program).name != program
