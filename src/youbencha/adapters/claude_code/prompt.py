"""How the prompt gets to the CLI byte for byte."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from youbencha.adapters.claude_code.config import ClaudeCodeConfig
from youbencha.adapters.claude_code.errors import CLAUDE, one_problem
from youbencha.adapters.cli_agent.config import fits_argument
from youbencha.adapters.cli_agent.prompt import read_prompt as read_text

LONGEST_ARGUMENT_CHARACTERS = 7_000

_SLASH_COMMAND = re.compile(r"/[\w:.-]+(?=\s|\Z)")
"""`/help`, but not `/usr/bin/env is …`. Measured in 1.0.128 to 2.1.325, for arguments and standard input alike."""

Delivery = Literal["argument", "stdin", "file", "message"]
"""`message`: as the first word of a conversation. There, too, a slash command is one."""


@dataclass(frozen=True)
class Prompt:
    text: str
    delivery: Delivery


def read_prompt(config: ClaudeCodeConfig, *, workspace: Path, config_dir: Path | None) -> Prompt:
    text = read_text(CLAUDE, config, workspace=workspace, config_dir=config_dir)
    delivery = _choose_delivery(text, config.prompt_delivery)
    if delivery != "file" and not config.slash_commands and (command := _SLASH_COMMAND.match(text)):
        raise one_problem(
            "prompt",
            f"starts with {command[0]!r}, which Claude Code takes for a command of its own, and the model never sees",
            "put a space before it; or set slash_commands: true if the command is what you want",
        )
    return Prompt(text, delivery)


def _choose_delivery(text: str, wanted: str) -> Delivery:
    fits = fits_argument(text)
    if wanted == "argument":
        if not fits:
            raise one_problem("prompt_delivery", "an argument cannot hold this prompt", "use stdin or auto")
        return "argument"
    if wanted == "stdin":
        return "stdin"
    if wanted == "file":
        return "file"
    return "argument" if fits and len(text) <= LONGEST_ARGUMENT_CHARACTERS else "stdin"
