"""Get the prompt from the configuration, or from a file, which must be below the directory that is searched."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from youbencha.adapters.cli_agent.config import MAX_PROMPT_LENGTH, AgentConfig
from youbencha.adapters.cli_agent.kind import AgentKind
from youbencha.files import PathNotAllowed, check_relative, confined

_MOST_BYTES = 4 * MAX_PROMPT_LENGTH
"""A character in UTF-8 has at most four bytes."""

_BLANK = "\t\n\v\f\r \xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(map(chr, range(0x2000, 0x200B)))
"""White space by JavaScript's definition: real CLIs refuse a prompt of nothing else."""


def read_prompt(kind: AgentKind, config: AgentConfig, *, workspace: Path, config_dir: Path | None) -> str:
    """The prompt, byte for byte. Empty if the configuration names none, which only some agents allow."""
    if config.prompt is None and config.prompt_file is None:
        return ""
    text = config.prompt
    if text is None:
        assert config.prompt_file is not None  # the configuration has exactly one of the two
        text = _PromptFile(kind, config.prompt_file).read(workspace, config_dir)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise kind.one_problem("prompt", f"is not valid Unicode at character {error.start}") from None
    if not text.strip(_BLANK):
        raise kind.one_problem("prompt", "contains only white space", "describe the task")
    return text


def prompt_is_here(kind: AgentKind, config: AgentConfig, config_dir: Path | None) -> bool:
    """Whether the prompt can be read before the repository is checked out: a missing file may be in the repository.

    Raises if the file's name is not allowed.
    """
    if config.prompt_file is None:
        return True
    _PromptFile(kind, config.prompt_file).check_name()
    return config_dir is not None and os.path.lexists(config_dir / config.prompt_file)


class _PromptFile:
    def __init__(self, kind: AgentKind, name: str) -> None:
        self._kind = kind
        self._name = name

    def read(self, workspace: Path, config_dir: Path | None) -> str:
        self.check_name()
        base = self._base(workspace, config_dir)
        text = self._text(self._confined(base), config_dir)
        if not text:
            raise self._wrong(f"{self._name} is empty")
        if len(text) > MAX_PROMPT_LENGTH:
            raise self._wrong(f"{self._name} is longer than {MAX_PROMPT_LENGTH:,} characters")
        return text

    def _base(self, workspace: Path, config_dir: Path | None) -> Path:
        """The directory of the file that names the prompt file; the workspace if the prompt file is not there."""
        if config_dir is None:
            return workspace
        return config_dir if os.path.lexists(config_dir / self._name) else workspace

    def _text(self, path: Path, config_dir: Path | None) -> str:
        try:
            if not stat.S_ISREG(path.stat().st_mode):
                # Reading a pipe in an untrusted workspace would block forever.
                raise self._wrong(f"{self._name} is not a regular file")
            with path.open("rb") as file:
                raw = file.read(_MOST_BYTES + 1)
            if len(raw) > _MOST_BYTES:
                raise self._wrong(f"{self._name} is longer than {MAX_PROMPT_LENGTH:,} characters")
            return raw.decode()
        except FileNotFoundError:
            searched = str(path.parent) if config_dir is None else f"{config_dir}, then the repository"
            raise self._wrong(f"{self._name} does not exist", f"searched: {searched}") from None
        except UnicodeDecodeError as error:
            raise self._wrong(f"{self._name} is not UTF-8 at byte {error.start}") from None
        except OSError as error:
            raise self._wrong(f"{self._name} cannot be read: {error.strerror}") from None

    def _confined(self, base: Path) -> Path:
        try:
            return confined(base, self._name)
        except PathNotAllowed as error:
            raise self._wrong(error.message, error.hint) from None

    def check_name(self) -> None:
        try:
            check_relative(self._name)
        except PathNotAllowed as error:
            raise self._wrong(error.message, error.hint) from None

    def _wrong(self, message: str, hint: str | None = None) -> Exception:
        return self._kind.one_problem("prompt_file", message, hint)
