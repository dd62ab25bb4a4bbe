"""A person's own words to the judge, in place or from a file beside the test case."""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping
from pathlib import Path, PureWindowsPath
from typing import Any

from youbencha.errors import Problem

_FILES = ("prompt_file", "instructions-file", "instructions_file")
MAX_LENGTH = 200_000
"""Characters: guidance, not a library."""


class BadGuidance(Exception):
    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def read_guidance(raw: Mapping[str, Any], config_dir: Path) -> str:
    """Empty if there is none."""
    for key in _FILES:
        if isinstance(name := raw.get(key), str):
            return _read(key, name.strip(), config_dir)
    prompt = raw.get("prompt")
    return prompt.strip() if isinstance(prompt, str) else ""


def _read(key: str, name: str, base: Path) -> str:
    try:
        path = _inside(key, name, base)
        if not stat.S_ISREG(path.stat().st_mode):
            raise _bad(key, f"{name} is not a regular file")  # a pipe would be waited on for ever
        with path.open("rb") as file:
            text = file.read(4 * MAX_LENGTH + 1).decode("utf-8-sig").strip()
    except FileNotFoundError:
        raise _bad(key, f"{name} does not exist", f"it is looked for in {base}") from None
    except UnicodeDecodeError:
        raise _bad(key, f"{name} is not UTF-8 text") from None
    except OSError as error:
        raise _bad(key, f"{name} cannot be read: {error.strerror}") from None
    if not text:
        raise _bad(key, f"{name} is empty")
    if len(text) > MAX_LENGTH:
        raise _bad(key, f"{name} is longer than {MAX_LENGTH:,} characters")
    return text


def _inside(key: str, name: str, base: Path) -> Path:
    """Stays below its base, however it is written and wherever its links lead: a test case may be a stranger's."""
    if "\0" in name:
        raise _bad(key, "contains a NUL character")
    if Path(name).is_absolute() or PureWindowsPath(name).drive or name.startswith(("/", "\\")):
        raise _bad(key, f"{name} is absolute", "write it relative to the file that names it")
    if ".." in re.split(r"[/\\]", name):
        raise _bad(key, f"{name} contains '..'", "keep it beside or below the file that names it")
    path = base / name
    try:
        leads_to = path.resolve()
    except (OSError, RuntimeError):  # Python 3.11 and 3.12 raise the latter where links go round in a circle
        raise _bad(key, f"{name} cannot be followed to a file") from None
    if not leads_to.is_relative_to(base.resolve()):
        raise _bad(key, f"{name} is a link that leads out of {base}", "use a file, or a link inside")
    return path


def _bad(key: str, message: str, hint: str | None = None) -> BadGuidance:
    return BadGuidance(Problem(key, message, hint))
