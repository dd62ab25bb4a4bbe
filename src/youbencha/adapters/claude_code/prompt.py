"""The prompt: where it comes from, and how it gets to the CLI byte for byte."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import Literal

from youbencha.adapters.claude_code.config import LONGEST_ARGUMENT_BYTES, MAX_PROMPT_LENGTH, ClaudeCodeConfig
from youbencha.adapters.claude_code.errors import one_problem

LONGEST_ARGUMENT_CHARACTERS = 7_000
_MOST_BYTES = 4 * MAX_PROMPT_LENGTH
"""No character of UTF-8 takes more than four."""

_SLASH_COMMAND = re.compile(r"/[\w:.-]+(?=\s|\Z)")
"""`/help`, but not `/usr/bin/env is …`. Measured in 1.0.128 to 2.1.325, for arguments and standard input alike."""

_BLANK = "\t\n\v\f\r \xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(map(chr, range(0x2000, 0x200B)))
"""White space as JavaScript sees it: Claude Code refuses a prompt of nothing else."""

Delivery = Literal["argument", "stdin", "file"]


@dataclass(frozen=True)
class Prompt:
    text: str
    delivery: Delivery


def read_prompt(config: ClaudeCodeConfig, *, workspace: Path, config_dir: Path | None) -> Prompt:
    if config.prompt is not None:
        text = config.prompt
    else:
        assert config.prompt_file is not None  # the configuration has exactly one of the two
        text = _read_file(config.prompt_file, _base(config.prompt_file, workspace, config_dir))
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise one_problem("prompt", f"is not valid Unicode at character {error.start}") from None
    if not text.strip(_BLANK):
        raise one_problem("prompt", "holds nothing but white space", "say what the agent is to do")
    delivery = _choose_delivery(text, config.prompt_delivery)
    if delivery != "file" and not config.slash_commands and (command := _SLASH_COMMAND.match(text)):
        raise one_problem(
            "prompt",
            f"starts with {command[0]!r}, which Claude Code takes for a command of its own, and the model never sees",
            "put a space before it; or set slash_commands: true if the command is what you want",
        )
    return Prompt(text, delivery)


def _choose_delivery(text: str, wanted: str) -> Delivery:
    fits = len(text.encode()) <= LONGEST_ARGUMENT_BYTES and "\0" not in text
    if wanted == "argument":
        if not fits:
            raise one_problem("prompt_delivery", "an argument cannot hold this prompt", "use stdin or auto")
        return "argument"
    if wanted == "stdin":
        return "stdin"
    if wanted == "file":
        return "file"
    return "argument" if fits and len(text) <= LONGEST_ARGUMENT_CHARACTERS else "stdin"


def _base(name: str, workspace: Path, config_dir: Path | None) -> Path:
    """Beside the file that names the prompt; in the workspace if there is no such file, or none there."""
    if config_dir is None:
        return workspace
    _check_name(name)
    return config_dir if os.path.lexists(config_dir / name) else workspace


def _read_file(name: str, base: Path) -> str:
    path = _inside(name, base)
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            # A pipe in an untrusted workspace would be waited on for ever.
            raise one_problem("prompt_file", f"{name} is not a regular file")
        with path.open("rb") as file:
            raw = file.read(_MOST_BYTES + 1)
        text = raw[:_MOST_BYTES].decode()
    except FileNotFoundError:
        raise one_problem("prompt_file", f"{name} does not exist", f"it is looked for in {base}") from None
    except UnicodeDecodeError as error:
        raise one_problem("prompt_file", f"{name} is not UTF-8 at byte {error.start}") from None
    except OSError as error:
        raise one_problem("prompt_file", f"{name} cannot be read: {error.strerror}") from None
    if not text:
        raise one_problem("prompt_file", f"{name} is empty")
    if len(text) > MAX_PROMPT_LENGTH or len(raw) > _MOST_BYTES:
        raise one_problem("prompt_file", f"{name} is longer than {MAX_PROMPT_LENGTH:,} characters")
    return text


def _inside(name: str, base: Path) -> Path:
    """A path that stays inside its base, whatever it is written as and wherever its links lead."""
    _check_name(name)
    path = base / name
    try:
        leads_to = path.resolve()
    except (OSError, RuntimeError):  # Python 3.11 and 3.12 raise the latter where links go round in a circle
        raise one_problem("prompt_file", f"{name} cannot be followed to a file") from None
    if not leads_to.is_relative_to(base.resolve()):
        raise one_problem("prompt_file", f"{name} is a link that leads out of {base}", "use a file, or a link inside")
    return path


def _check_name(name: str) -> None:
    if "\0" in name:
        raise one_problem("prompt_file", "contains a NUL character")
    if Path(name).is_absolute() or PureWindowsPath(name).drive or name.startswith(("/", "\\")):
        raise one_problem("prompt_file", f"{name} is absolute", "write it relative to the file that names it")
    if ".." in re.split(r"[/\\]", name):
        raise one_problem("prompt_file", f"{name} contains '..'", "keep prompts beside or below the file that names it")
